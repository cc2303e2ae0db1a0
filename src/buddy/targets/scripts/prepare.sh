# Creates the shared pane if it is missing and types one command into it. argv: SESSION ROOT CWD NONCE OWN PANE_SH FENCE;
# stdin: a mark, another mark, the command. Without a NONCE it only creates the pane. Prints "ok PANE DIRECTORY", or one
# word for the error. FENCE is as in run.sh: if a higher epoch is known here, nothing is typed.
LC_ALL=C.UTF-8
export LC_ALL
session=$1 root=$2 cwd=$3 nonce=$4 own=$5 program=$6 fence=$7
fail() {
  cat >/dev/null
  printf '%s\n' "$1"
  exit 0
}
find_pane() { pane=$(tmux list-panes -t "=$session:=buddy-shared" -F '#{pane_id} #{pane_pid}' 2>/dev/null | head -n 1); }
idle() {
  facts=$(cat "/proc/$leader/stat" 2>/dev/null) || return 1
  set -- ${facts##*) }
  [ "$3" = "$6" ]
}
command -v tmux >/dev/null || fail notmux
find_pane
if [ -z "$pane" ]; then
  if tmux has-session -t "=$session" 2>/dev/null; then
    tmux new-window -d -t "=$session:" -n buddy-shared -c "$root" >/dev/null
  else
    tmux -u new-session -d -s "$session" -n buddy-shared -x 200 -y 50 -c "$root" >/dev/null
    tmux set-option -t "=$session:" @buddy 1
  fi
  find_pane
fi
[ -n "$pane" ] || fail nopane
leader=${pane#* } pane=${pane% *}
if [ "$pane" = "$own" ]; then fail own; fi
private=${XDG_RUNTIME_DIR:-${HOME:-/tmp}/.cache}/buddy-panes
mkdir -p -m 700 "$private" 2>/dev/null
if [ -L "$private" ] || [ ! -d "$private" ] || [ ! -O "$private" ]; then fail noprivate; fi
chmod 700 "$private"
if [ -z "$nonce" ]; then
  printf 'ok %s %s\n' "$pane" "$private"
  exit 0
fi
round=0
while ! idle; do
  round=$((round + 1))
  if [ "$round" -gt 40 ]; then fail busy; fi
  sleep 0.05 2>/dev/null || sleep 1
done
[ -d "$cwd" ] || fail nodir
# Files of commands that were abandoned a day ago.
find "$private" -mindepth 1 -maxdepth 1 -mtime +0 -exec sh -c '[ -e "$1/code" ] && rm -rf -- "$1"' sh {} \; 2>/dev/null
dir=$private/$nonce
umask 077
if [ "$fence" != - ]; then
  fences=${HOME:-/tmp}/.local/state/buddy/fences
  mkdir -p "$fences" 2>/dev/null && [ -w "$fences" ] || fences=/tmp/buddy-fences
  mkdir -p "$fences"
  exec 9>>"$fences/$nonce.lock"
  # Held until the command is typed: from then on it is found by its nonce.
  if command -v flock >/dev/null; then flock -s 9; fi
  known=$(cat "$fences/${fence%:*}.epoch" 2>/dev/null) || known=0
  if [ "${known:-0}" -gt "${fence##*:}" ]; then fail fenced; fi
  if [ "${known:-0}" -lt "${fence##*:}" ]; then
    printf '%s\n' "${fence##*:}" > "$fences/$nonce.$$" && mv -f "$fences/$nonce.$$" "$fences/${fence%:*}.epoch"
  fi
fi
mkdir "$dir" 2>/dev/null || fail again
IFS= read -r begin
IFS= read -r end
printf '%s' "$begin" >"$dir/begin"
printf '%s' "$end" >"$dir/end"
printf '%s' "$nonce" >"$dir/nonce"
printf '%s' "$cwd" >"$dir/cwd"
printf '%s' "$program" >"$dir/start"
printf '%s' "$pane" >"$dir/pane"
cat >"$dir/command"
: >"$dir/out"
if [ "$(tmux display-message -p -t "$pane" '#{pane_in_mode}')" != 0 ]; then tmux send-keys -t "$pane" -X cancel; fi
# Bounded: a command that prints forever must not fill the disk.
tmux pipe-pane -t "$pane" "ulimit -f 65536; exec cat >>'$dir/out'"
tmux send-keys -t "$pane" C-u
tmux send-keys -t "$pane" -l " sh '$dir/start'"
tmux send-keys -t "$pane" Enter
[ "$fence" = - ] || rm -f "$fences/$nonce.lock"
printf 'ok %s %s\n' "$pane" "$dir"
