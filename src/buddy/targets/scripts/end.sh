# Ends every process that carries a nonce. argv: NONCE TENTHS; it waits that many tenths of a second between SIGTERM and
# SIGKILL. Prints how many there were.
carriers() { grep -lszxF -- "BUDDY_CALL=$nonce" /proc/[0-9]*/environ 2>/dev/null | sed 's|^/proc/||;s|/environ$||'; }
note() {
  for pid in $found; do
    case " $seen " in *" $pid "*) ;; *) seen="$seen $pid" count=$((count + 1)) ;; esac
  done
}
nonce=$1 tenths=$2 seen='' count=0 round=0
found=$(carriers)
note
if [ "$tenths" -gt 0 ] && [ -n "$found" ]; then
  kill -TERM $found 2>/dev/null
  while [ -n "$found" ] && [ "$round" -lt "$tenths" ]; do
    sleep 0.1 2>/dev/null || sleep 1
    found=$(carriers)
    round=$((round + 1))
  done
fi
round=0
while [ -n "$found" ] && [ "$round" -lt 20 ]; do
  note
  kill -KILL $found 2>/dev/null
  found=$(carriers)
  round=$((round + 1))
done
printf 'ended %s\n' "$count"
