#!/usr/bin/env bash
# Makes Debian packages of the source tree. Those of the same commit have the same bytes.
# usage: package.sh OUT, the directory for the packages. `tools/dev package` installs tools first.
set -euo pipefail

OUT=$(realpath "$1")
POLLUX=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly OUT POLLUX
git() { command git -c safe.directory="$POLLUX" -C "$POLLUX" "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export POLLUX SOURCE_DATE_EPOCH TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
maintainer="Pollux authors <$(git log -1 --format=%ae)>"  # as SECURITY.md says
umask 022
mkdir "$work/pollux"
cp -r "$POLLUX/tools/debian" "$work/pollux/debian"
cd "$work/pollux/debian"
abi=$("$POLLUX/tools/build/version.sh" --abi)
sed -i "s/@MAINTAINER@/$maintainer/; s/@ABI@/$abi/" control
sed "s/@ABI@/$abi/" libpollux.install >"libpollux$abi.install"
rm libpollux.install
mkdir source
echo "3.0 (native)" >source/format
python3 "$POLLUX/tools/build/debian_changelog.py" "$("$POLLUX/tools/build/version.sh" --debian)" \
  "$maintainer" "$SOURCE_DATE_EPOCH" <"$POLLUX/CHANGELOG.md" >changelog
{
  cat <<'HEAD'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Pollux
Comment:
 pollux, libpollux.so and libpollux_verbs.so contain parts of DPDK, whose
 copyright is in copyright.dpdk of their packages.

Files: *
HEAD
  sed -n 's/^Copyright (c) /Copyright: /p' "$POLLUX/LICENSE"
  echo "License: BSD-3-Clause"
  sed '1,/^Copyright/d; s/^$/./; s/^/ /' "$POLLUX/LICENSE"
} >copyright
cd ..
dpkg-buildpackage --build=binary --no-sign
# Removes only packages of another version: the user may keep other files in the directory.
rm -f "$OUT"/{pollux,libpollux[0-9]*,libpollux-dev,libpollux-verbs,pollux-doc}{,-dbgsym}_*.deb \
  "$OUT"/pollux_*.{buildinfo,changes}
mv ../*.deb ../*.changes ../*.buildinfo "$OUT"
