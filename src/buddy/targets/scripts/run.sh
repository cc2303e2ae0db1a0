# Runs one command in its own session. argv: CWD NONCE FENCE [NAME=VALUE...]; stdin: a token, then the command.
# FENCE is `-`, or SESSION:EPOCH: if a higher epoch is known here, another node has the session and nothing is started.
# The token never reaches the command, so that its output cannot fake its end.
exec 3>&2 2>/dev/null
IFS= read -r token
command=$(cat)
cwd=$1 nonce=$2 fence=$3
shift 3
if [ "$fence" != - ]; then
  mask=$(umask)
  umask 077
  fences=${HOME:-/tmp}/.local/state/buddy/fences
  mkdir -p "$fences" && [ -w "$fences" ] || fences=/tmp/buddy-fences
  mkdir -p "$fences"
  exec 9>>"$fences/$nonce.lock"
  umask "$mask"
  # Held until the command has ended: whoever raises the epoch waits for it, or ends the command.
  if command -v flock >/dev/null; then flock -s 9; fi
  known=$(cat "$fences/${fence%:*}.epoch") || known=0
  if [ "${known:-0}" -gt "${fence##*:}" ]; then
    printf '%s fenced\n' "$token" >&3
    exit 0
  fi
  if [ "${known:-0}" -lt "${fence##*:}" ]; then
    printf '%s\n' "${fence##*:}" > "$fences/$nonce.$$" && mv -f "$fences/$nonce.$$" "$fences/${fence%:*}.epoch"
  fi
fi
if ! cd -- "$cwd"; then
  printf '%s nodir\n' "$token" >&3
  exit 0
fi
shell=$(command -v bash) || shell=$(command -v sh)
leader=
if command -v setsid >/dev/null; then leader=setsid; fi
printf '%s started\n' "$token" >&3
env "$@" "BUDDY_CALL=$nonce" $leader "$shell" -c -- "$command" </dev/null 2>&3 3>&- 9>&-
code=$?
[ "$fence" = - ] || rm -f "$fences/$nonce.lock"
printf '\n%s ended %s\n' "$token" "$code" >&3
