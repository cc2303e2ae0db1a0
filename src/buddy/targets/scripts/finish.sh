# Reports how a command in the pane ended and the output not yet forwarded. argv: DIRECTORY SENT MARK. Prints "ended CODE",
# "lost" or "gone", and then the rest of the output.
cd -- "$1" 2>/dev/null || { echo gone; exit 0; }
round=0
while [ -e code ] && [ "$round" -lt 20 ] && ! grep -qsF -- "$3" out; do
  round=$((round + 1))
  sleep 0.05 2>/dev/null || sleep 1
done
if [ -e code ]; then printf 'ended %s\n' "$(cat code)"; else echo lost; fi
tail -c "+$(($2 + 1))" out
tmux pipe-pane -t "$(cat pane)" 2>/dev/null
rm -rf -- "$1"
