# Inspects a container from inside. argv: PROBE, a file that only its host has. Prints NAME=VALUE lines, the last of
# them "done=yes".
for space in mnt pid; do printf '%s=%s\n' "$space" "$(readlink "/proc/self/ns/$space")"; done
printf 'boot=%s\n' "$(cat /proc/sys/kernel/random/boot_id)"
if [ -e "$1" ]; then echo probe=seen; fi
# CAP_SYS_ADMIN of the machine itself, not of a user namespace, which maps fewer ids.
effective=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
read -r _ first count </proc/self/uid_map
if [ "$first $count" = "0 4294967295" ] && [ $((0x${effective:-0} >> 21 & 1)) = 1 ]; then echo admin=yes; fi
# Access to the engine allows starting a container with any privilege.
for engine in /var/run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock; do
  if [ -S "$engine" ]; then printf 'engine=%s\n' "$engine"; fi
done
# Network: any route that is not loopback's. The interface is the first column of one list and the tenth of the other,
# which does not exist without IPv6.
network=no
[ -r /proc/net/route ] || network=yes
for list in route:0 ipv6_route:9; do
  [ -e "/proc/net/${list%:*}" ] || continue
  while read -r line; do
    # shellcheck disable=SC2086 - split into columns
    set -- $line
    shift "${list#*:}"
    case "$1" in Iface | lo) ;; *) network=yes ;; esac
  done <"/proc/net/${list%:*}"
done
printf 'network=%s\n' "$network"
echo done=yes
