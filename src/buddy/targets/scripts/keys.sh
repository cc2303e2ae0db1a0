# Runs a quick command, unless another node has the session. argv: FENCE COMMAND...; FENCE is SESSION:EPOCH, as in run.sh.
fence=$1
shift
fences=${HOME:-/tmp}/.local/state/buddy/fences
[ -w "$fences" ] || fences=/tmp/buddy-fences
known=$(cat "$fences/${fence%:*}.epoch" 2>/dev/null) || known=0
if [ "${known:-0}" -gt "${fence##*:}" ]; then
  printf 'another node has the session\n' >&2
  exit 125
fi
exec "$@"
