#!/usr/bin/env bash
# Runs the commands of README.md in a bare Debian and prints how long they took. The
# commands before the tests must work without the tests' packages and must not install daemons.
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
for command in demo "install --prefix /opt/pollux" test; do
  if [[ $command == test ]]; then
    # dpkg-query also lists packages that are not installed, if an installed one refers to them.
    daemons=$(inside "dpkg-query -W -f='\${db:Status-Status} \${Package}\n' \
      krb5-kdc prometheus rpcbind 2>/dev/null | sed -n 's/^installed //p'")
    [[ -z $daemons ]] || {
      echo "$CHECK: tools/dev install must not install daemons: $daemons" >&2
      exit 1
    }
  fi
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
