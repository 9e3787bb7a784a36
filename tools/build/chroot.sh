# A bare Debian of $SUITE, or of this host's release if that is not set, for the scripts that source
# this file: `root` is its directory, `inside COMMAND` runs a command of bash in it, and `clean_up`
# removes it when the script ends. Needs root.
#
# Made by debootstrap --variant=minbase, with /proc, /sys, /dev and this host's apt configuration.
readonly CHECK=$(basename "$0" .sh | tr _ -)
# Sourcing the file fails if the caller has a read-only VERSION.
host_suite=$(sed -n 's/^VERSION_CODENAME="\?\([^"]*\)"\?$/\1/p' /etc/os-release)
: "${SUITE:=$host_suite}"  # no plain assignment: some callers have made it read-only

((EUID == 0)) || {
  echo "$CHECK: needs root, to make a chroot; run it by sudo" >&2
  exit 1
}
root=$(mktemp -d /var/tmp/pollux-chroot-XXXXXX)
readonly root

inside() {
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "${proxies[@]}" \
    DEBIAN_FRONTEND=noninteractive bash -c "$1"
}

clean_up() {
  local point
  for point in dev sys proc ""; do
    ! mountpoint -q "$root/$point" || umount -R "$root/$point"
  done
  # Nothing of the host is mounted there any more, or nothing is removed.
  if ! grep -q " $root[/ ]" /proc/self/mounts; then
    rm -rf --one-file-system "$root"
  fi
}

mapfile -t proxies < <(env | grep -iE '^(http|https|no)_proxy=' || true)
trap clean_up EXIT

chmod 755 "$root"  # as / has: tests run as users other than root
# A mount point, as / is, whose mounts nobody else sees.
mount --bind "$root" "$root"
mount --make-private "$root"

echo "$CHECK: debootstrap --variant=minbase $SUITE" >&2
debootstrap --variant=minbase "$SUITE" "$root" >"$root.log" 2>&1 || {
  tail -n 15 "$root.log" >&2
  exit 1
}
rm -f "$root.log"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -a /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
if compgen -G "/etc/apt/sources.list.d/debian.sources" >/dev/null; then
  rm -f "$root/etc/apt/sources.list"
  sed "s/$host_suite/$SUITE/g" \
    /etc/apt/sources.list.d/debian.sources >"$root/etc/apt/sources.list.d/debian.sources"
fi
