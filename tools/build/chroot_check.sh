#!/usr/bin/env bash
# Runs the two commands of README.md in a bare Debian and prints how long they took.
#
# usage: chroot_check.sh REPOSITORY SUITE
#
# Makes a chroot of SUITE (debootstrap --variant=minbase, with /proc, /sys, /dev and this host's apt
# configuration), clones the last commit of REPOSITORY into it, and removes both at the end. Needs
# root.
set -euo pipefail

readonly REPOSITORY=$1
readonly SUITE=$2

((EUID == 0)) || {
  echo "chroot-check: needs root, to make a chroot; run it by sudo" >&2
  exit 1
}
root=$(mktemp -d /var/tmp/pollux-chroot-XXXXXX)
readonly root

inside() {
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "${proxies[@]}" \
    bash -c "cd /root/pollux && $1"
}

clean_up() {
  inside "! command -v bazel >/dev/null || bazel shutdown" >/dev/null 2>&1 || true
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

echo "chroot-check: debootstrap --variant=minbase $SUITE" >&2
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
  sed "s/$(. /etc/os-release && echo "$VERSION_CODENAME")/$SUITE/g" \
    /etc/apt/sources.list.d/debian.sources >"$root/etc/apt/sources.list.d/debian.sources"
fi
git clone -q --no-hardlinks "$REPOSITORY" "$root/root/pollux"

times=
failed=0
for command in setup demo test; do
  started=$SECONDS
  inside "tools/dev $command" || failed=1
  times+=$(printf '%8d s  tools/dev %s' "$((SECONDS - started))" "$command")$'\n'
  ((failed == 0)) || break
done
echo "chroot-check took"
printf '%s' "$times"
((failed == 0)) || {
  echo "chroot-check: tools/dev $command failed" >&2
  exit 1
}
