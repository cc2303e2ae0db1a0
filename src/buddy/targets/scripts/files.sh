# Reads, replaces, lists and inspects files below a root. argv: OPERATION ROOT PATH [MORE...].
# The first line of stdout is "ok" or one word for the error. Every name is used relative to a directory that was
# entered and then verified to be below the root, so that swapping a directory meanwhile does not lead elsewhere.
LC_ALL=C
export LC_ALL
fail() {
  # Unread input can lose the answer: some engines then drop both.
  if [ "$operation" = write ]; then cat >/dev/null; fi
  printf '%s\n' "$1"
  exit 0
}
# A command substitution drops trailing newlines; the x preserves them.
here() {
  at=$(pwd -P && printf x)
  at=${at%?x}
}
inside() {
  here
  case $at/ in "$base"/*) ;; *) fail outside ;; esac
  case $at/ in /proc/* | /sys/*) fail special ;; esac
}
regular() {
  [ -z "$rest" ] && [ -e "./$name" ] || fail missing
  [ -f "./$name" ] || fail special
}
entries() {
  for entry in * .[!.]* ..?*; do
    if [ -e "./$entry" ] || [ -L "./$entry" ]; then printf "$1%s\\0" "$entry"; fi
  done
}
operation=$1 path=$3
cd -P -- "$2" 2>/dev/null || fail noroot
here
base=${at%/}
case $path in "$base" | "$base/" | "$2" | "$2/") path=$base/. ;; /*) ;; *) path=$base/$path ;; esac
links=0
while :; do
  while :; do case $path in ?*/) path=${path%/} ;; *) break ;; esac; done
  name=${path##*/} up=${path%/*} rest=
  case $name in '' | . | ..) name=. up=$path ;; esac
  while [ ! -d "$up/" ]; do
    if [ -e "$up" ]; then fail notdir; fi
    piece=${up##*/}
    if [ -L "$up" ]; then fail missing; fi
    case $piece in '' | . | ..) fail missing ;; esac
    rest=$piece/$rest up=${up%/*}
  done
  cd -P -- "$up/" 2>/dev/null || fail denied
  inside
  if [ -n "$rest" ] || [ ! -L "./$name" ]; then break; fi
  links=$((links + 1))
  if [ "$links" -gt 40 ]; then fail links; fi
  link=$(readlink -- "./$name" && printf x)
  link=${link%?x}
  case $link in /*) path=$link ;; *) path=${at%/}/$link ;; esac
done
case $operation in
locate)
  echo ok
  if [ "$name" = . ]; then printf '%s' "$at"; else printf '%s' "${at%/}/$rest$name"; fi
  ;;
read)
  regular
  [ -r "./$name" ] || fail denied
  echo ok
  head -c "$4" <"./$name"
  ;;
stat)
  [ -z "$rest" ] && [ -e "./$name" ] || fail missing
  kind=f
  if [ -d "./$name" ]; then kind=d; elif [ ! -f "./$name" ]; then fail special; fi
  echo ok
  printf '%s ' "$kind"
  stat -c '%s %Y %y' -- "./$name"
  ;;
list)
  [ -z "$rest" ] && [ -e "./$name" ] || fail missing
  [ -d "./$name" ] || fail notdir
  cd -P -- "./$name" 2>/dev/null && [ -r . ] || fail denied
  inside
  echo ok
  entries ''
  printf '\0'
  entries ./ | xargs -0 -r stat -c '%s %f %n/' --
  ;;
write)
  temporary=$4 length=$5 mode=
  if [ "$name" = . ]; then fail special; fi
  while [ -n "$rest" ]; do
    piece=${rest%%/*} rest=${rest#*/}
    mkdir -- "./$piece" 2>/dev/null
    if [ -L "./$piece" ]; then fail denied; fi
    cd -P -- "./$piece" 2>/dev/null || fail denied
    inside
  done
  if [ -e "./$name" ] || [ -L "./$name" ]; then
    [ -f "./$name" ] && [ ! -L "./$name" ] || fail special
    [ -w "./$name" ] || fail readonly
    mode=$(stat -c %a -- "./$name") owner=$(stat -c %u:%g -- "./$name")
    umask 077
  fi
  set -C
  trap 'rm -f -- "./$temporary"' EXIT
  trap 'exit 1' HUP INT TERM
  # The input may end early: a file is only replaced by complete content.
  cat 2>/dev/null >"./$temporary" || fail denied
  [ "$(wc -c <"./$temporary")" -eq "$length" ] || fail short
  if [ -n "$mode" ]; then
    # Only root can give files away; the content matters more than the owner.
    chown "$owner" -- "./$temporary" 2>/dev/null
    chmod "$mode" -- "./$temporary" || fail denied
  fi
  mv -f -- "./$temporary" "./$name" || fail denied
  echo ok
  ;;
esac
