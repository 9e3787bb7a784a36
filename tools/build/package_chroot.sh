#!/usr/bin/env bash
# Makes Debian packages of the last commit for another release, in a chroot of it, which is removed
# at the end. Needs root.
#
# usage: package_chroot.sh REPOSITORY SUITE OUT [--check]
set -euo pipefail

readonly REPOSITORY=$1 SUITE=$2 OUT=$3
shift 3
source "$(dirname "${BASH_SOURCE[0]}")/chroot.sh"
trap 'inside "cd /root/pollux && bazel shutdown" >/dev/null 2>&1 || true; clean_up' EXIT

git clone -q --no-hardlinks "$REPOSITORY" "$root/root/pollux"
# Older packages there are replaced.
mkdir "$root/root/packages"
mount --bind "$OUT" "$root/root/packages"
inside "cd /root/pollux && tools/dev package $* /root/packages"
