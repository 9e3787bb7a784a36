#!/usr/bin/env bash
# Runs the two commands of README.md in a bare Debian and prints how long they took.
#
# usage: chroot_check.sh REPOSITORY SUITE
#
# Clones the last commit of REPOSITORY into a chroot, which it removes at the end. Needs root.
set -euo pipefail

readonly REPOSITORY=$1
readonly SUITE=$2
source "$(dirname "${BASH_SOURCE[0]}")/chroot.sh"
trap 'inside "cd /root/pollux && bazel shutdown" >/dev/null 2>&1 || true; clean_up' EXIT

git clone -q --no-hardlinks "$REPOSITORY" "$root/root/pollux"

times=
failed=0
for command in setup demo test; do
  started=$SECONDS
  inside "cd /root/pollux && tools/dev $command" || failed=1
  times+=$(printf '%8d s  tools/dev %s' "$((SECONDS - started))" "$command")$'\n'
  ((failed == 0)) || break
done
echo "$CHECK took"
printf '%s' "$times"
((failed == 0)) || {
  echo "$CHECK: tools/dev $command failed" >&2
  exit 1
}
