#!/usr/bin/env bash
# Makes Debian packages of the last commit for another release, in a chroot of it, which is removed
# at the end. Needs root.
#
# usage: package_chroot.sh REPOSITORY SUITE OUT [--check]
set -euo pipefail

# systemd_check.sh's pivot_root(2) in the chroot fails if the host's / is a shared mount.
((EUID)) || [[ ${POLLUX_OWN_MOUNTS:-} ]] || POLLUX_OWN_MOUNTS=1 exec unshare --mount "$0" "$@"

readonly REPOSITORY=$1 SUITE=$2 OUT=$3
shift 3
source "$(dirname "${BASH_SOURCE[0]}")/chroot.sh"
trap 'inside "cd /root/pollux && bazel shutdown" >/dev/null 2>&1 || true; clean_up' EXIT

git clone -q --no-hardlinks "$REPOSITORY" "$root/root/pollux"
# Older packages there are replaced.
mkdir "$root/root/packages"
mount --bind "$OUT" "$root/root/packages"
inside "cd /root/pollux && tools/dev package $* /root/packages"
