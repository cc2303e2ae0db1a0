# Runs one command in the pane, from files next to it, and stores its exit code there. The marks around the output are
# deleted before the command starts, so that it cannot print the last one.
dir=${0%/*}
begin=$(cat "$dir/begin") end=$(cat "$dir/end") nonce=$(cat "$dir/nonce")
command=$(cat "$dir/command" && printf x)
command=${command%x}
cwd=$(cat "$dir/cwd" && printf x)
cwd=${cwd%x}
rm -f "$dir/begin" "$dir/end" "$dir/nonce" "$dir/command" "$dir/cwd"
printf '%s\n' "$$" >"$dir/pid"
printf '%s\n' "$command" | cat -v
printf '\033]7770;%s\033\\' "$begin"
# Trapped, not ignored: an interrupt is for the command, which must start with the default action.
trap : INT QUIT
shell=$(command -v bash) || shell=$(command -v sh)
if cd -- "$cwd"; then
  env "BUDDY_CALL=$nonce" "$shell" -c -- "$command"
  code=$?
else
  code=125
fi
printf '\033]7770;%s\033\\' "$end"
printf '%s\n' "$code" >"$dir/code.new"
mv "$dir/code.new" "$dir/code"
