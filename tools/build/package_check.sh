#!/usr/bin/env bash
# Installs packages in a bare Debian of this host's release, uses, upgrades and removes them, and
# runs their services under a systemd of its own.
#
# usage: package_check.sh DIRECTORY
#
# DIRECTORY has what package.sh made of the last commit. Makes a chroot, which it removes at the
# end. Needs root.
set -euo pipefail

readonly DIRECTORY=$1
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VERSION=$("$HERE/version.sh")
DEBIAN_VERSION=$("$HERE/version.sh" --debian)
ABI=$("$HERE/version.sh" --abi)
readonly HERE VERSION DEBIAN_VERSION ABI

lintian --allow-root --fail-on error,warning "$DIRECTORY"/*.changes

# Packages of another version are replaced; other files stay.
again=$(mktemp -d)
mkdir "$again/pollux_src"
touch "$again"/{my-pollux_notes,libpollux0.0_0_amd64.deb,libpollux-verbs-dbgsym_0_amd64.deb} \
  "$again/pollux_0_amd64.changes"
"$HERE/package.sh" "$again" >"$again/log" 2>&1 || {
  tail -n 15 "$again/log" >&2
  exit 1
}
for package in "$DIRECTORY"/*.deb; do
  cmp "$package" "$again/${package##*/}"
done
if [[ ! -e $again/my-pollux_notes || ! -d $again/pollux_src ]] ||
  compgen -G "$again/*_0_*" >&2; then
  echo "package_check: package.sh must remove packages of another version, and nothing else" >&2
  exit 1
fi
rm -r "$again"

source "$HERE/chroot.sh"
mkdir "$root/root/now" "$root/root/later"
cp "$DIRECTORY"/*.deb "$root/root/now"
rm -f "$root"/root/now/*-dbgsym_*
# The same packages as a later version.
for package in "$root"/root/now/*.deb; do
  dpkg-deb -R "$package" "$root/root/unpacked"
  sed -i "s/$DEBIAN_VERSION/$DEBIAN_VERSION.1/" "$root/root/unpacked/DEBIAN/control"
  dpkg-deb -Znone -b "$root/root/unpacked" "$root/root/later" >/dev/null
  rm -r "$root/root/unpacked"
done

readonly INSTALL="apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends"
step() {
  echo "$CHECK: $1" >&2
  inside "set -euo pipefail; ${2:-$1}" </dev/null
}
use() {
  step "pollux --version" "[[ \$(pollux --version | head -n 1) == 'pollux $VERSION' ]]"
  step "man -w pollux pollux-nfsd pollux-run"
  step "pollux run --port net_ring0 --address 192.0.2.1/24 -- ibv_devinfo"
}

# The container image, and a container of it that has the two capabilities.
while read -r instruction arguments; do
  case $instruction in
    # shellcheck disable=SC2086
    COPY) (cd "$root/root/now" && cp ${arguments% *} "$root${arguments##* }") ;;
    RUN) step "RUN $arguments" "$arguments" ;;
    ENTRYPOINT) entry_point=$(python3 -c "import shlex; print(shlex.join($arguments))") ;;
  esac
done <"$HERE/../../docs/Containerfile"
step "install tools" "apt-get -qq update && $INSTALL g++ iproute2 make man-db \
  pkg-config rpcsvc-proto"
step "start a container" "unshare --net bash -ec '
  ip link add eth0 type veth peer name peer
  ip addr add 192.0.2.1/24 dev eth0
  ip link set peer up && ip link set eth0 up
  setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all,+net_admin,+net_raw \
    $entry_point pollux run --netdev eth0 -- ibv_devinfo'"
step "install packages" "$INSTALL /root/now/*.deb"
use
for example in hello_verbs hello_rpc; do
  # With the shared library, then with the static one.
  for static in "" --static; do
    step "compile $example $static" "cd /usr/share/doc/libpollux-dev/examples/$example &&
      g++ -std=c++20 -Werror -o /root/$example $example.cc \
        \$(pkg-config $static --cflags --libs pollux) &&
      [[ \$(ldd /root/$example | grep -c libpollux.so.$ABI) == $((${#static} == 0)) ]]"
    step "/root/$example"
  done
done
step "compile rpcgen" "cp -r /usr/share/doc/libpollux-dev/examples /root &&
  make -C /root/examples/rpcgen"
step "install pollux again" "dpkg -i /root/now/pollux_*.deb"
# The chroot has no systemd yet. This is what the scripts of the packages would make it do.
step "replace systemctl" "[[ ! -e /usr/bin/systemctl ]] && mkdir -p /run/systemd/system &&
  printf '#!/bin/sh\necho \"\$*\" >>/root/systemctl.log\n' >/usr/bin/systemctl &&
  chmod +x /usr/bin/systemctl"
readonly INSTANCES="pollux-nfsd@*.service pollux-port@*.service pollux-serve@*.service"
step "upgrade packages" "$INSTALL /root/later/*.deb"
step "grep -qxF 'try-restart $INSTANCES' /root/systemctl.log"
step "dpkg -s pollux | grep '^Version: $DEBIAN_VERSION.1$'"
use
step "remove packages" "apt-get -qq purge -y pollux libpollux$ABI libpollux-verbs libpollux-dev \
  pollux-doc"
step "grep -qxF 'stop $INSTANCES' /root/systemctl.log"
left=$(find "$root" -mindepth 1 -xdev -name '*pollux*' ! -path "$root/root/*")
[[ -z $left ]] || {
  printf '%s: these files are left:\n%s\n' "$CHECK" "$left" >&2
  exit 1
}

rm -r "$root/usr/bin/systemctl" "$root/run/systemd"
step "install systemd" "$INSTALL systemd /root/now/*.deb"
status=0
"$HERE/systemd_check.sh" "$root" || status=$?
case $status in
  0) echo "$CHECK: passed" ;;
  77) echo "$CHECK: passed, but the services were not tried under systemd" ;;
  *) exit 1 ;;
esac
