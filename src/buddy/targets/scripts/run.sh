# Runs one command in its own session. argv: CWD NONCE [NAME=VALUE...]; stdin: a token, then the command.
# The token never reaches the command, so that its output cannot fake its end.
exec 3>&2 2>/dev/null
IFS= read -r token
command=$(cat)
cwd=$1 nonce=$2
shift 2
if ! cd -- "$cwd"; then
  printf '%s nodir\n' "$token" >&3
  exit 0
fi
shell=$(command -v bash) || shell=$(command -v sh)
leader=
if command -v setsid >/dev/null; then leader=setsid; fi
printf '%s started\n' "$token" >&3
env "$@" "BUDDY_CALL=$nonce" $leader "$shell" -c -- "$command" </dev/null 2>&3 3>&-
printf '\n%s ended %s\n' "$token" "$?" >&3
