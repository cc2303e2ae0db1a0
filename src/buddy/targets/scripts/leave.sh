# Removes a session that prepare.sh created, unless somebody watches it, has opened a window in it, or a program runs in
# it. argv: SESSION.
LC_ALL=C.UTF-8
export LC_ALL
session=$1
[ "$(tmux show-options -qv -t "=$session:" @buddy 2>/dev/null)" = 1 ] || exit 0
facts=$(tmux list-panes -s -t "=$session:" -F '#{session_attached} #{session_windows} #{window_panes} #{pane_pid}') || exit 0
case $facts in
"0 1 1 "*) ;;
*) exit 0 ;;
esac
stat=$(cat "/proc/${facts##* }/stat" 2>/dev/null) || exit 0
set -- ${stat##*) }
if [ "$3" = "$6" ]; then tmux kill-session -t "=$session"; fi
