# Forwards the output of a command in the pane until it is over. argv: DIRECTORY.
cd -- "$1" 2>/dev/null || exit 0
is_over() {
  [ -e code ] && return 0
  [ -e pid ] || { round=$((round + 1)) && [ "$round" -gt 300 ]; return; }
  pid=$(cat pid)
  # The pid may belong to another process by now.
  ! grep -qsF "${1##*/}" "/proc/$pid/cmdline"
}
round=0
tail -c +1 -f out &
tailing=$!
while ! is_over "$1"; do sleep 0.05 2>/dev/null || sleep 1; done
kill "$tailing"
