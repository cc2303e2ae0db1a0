# Raises a session's epoch on this machine, and says whether a call can still start. argv: SESSION EPOCH NONCE
# Prints `fenced` once nothing of the call runs and nothing older can start, else `busy`.
exec 2>/dev/null
umask 077
fences=${HOME:-/tmp}/.local/state/buddy/fences
mkdir -p "$fences" && [ -w "$fences" ] || fences=/tmp/buddy-fences
mkdir -p "$fences"
known=$(cat "$fences/$1.epoch") || known=0
if [ "${known:-0}" -lt "$2" ]; then
  printf '%s\n' "$2" > "$fences/$1.$$" && mv -f "$fences/$1.$$" "$fences/$1.epoch"
fi
exec 9>>"$fences/$3.lock"
if ! command -v flock >/dev/null || flock -x -n 9; then
  rm -f "$fences/$3.lock"
  printf 'fenced\n'
else
  printf 'busy\n'
fi
