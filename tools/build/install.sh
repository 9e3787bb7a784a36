#!/usr/bin/env bash
# Copies the pollux command and the libraries of `pollux run` to where everybody may read them.
# usage: install.sh BUILT PREFIX, BUILT as Bazel's bazel-bin. `tools/dev install` builds first.
set -euo pipefail

umask 022
readonly BUILT=$1 PREFIX=$2
# Where the command looks for them: kPlaces in tools/pollux/run_command.cc.
readonly LIBRARIES=$PREFIX/lib/pollux

# Programs that run go on with what they have mapped: a file is put beside the old one, then in its
# place.
put() {
  local mode=$1 from=$2 to=$3
  install -m "$mode" "$from" "$to.new"
  mv -f "$to.new" "$to"
}

# Directories that are there keep their owner and mode.
mkdir -p "$PREFIX/bin" "$LIBRARIES"
for library in libibverbs.so.1 libpollux_device_file.so libpollux_verbs.so librdmacm.so.1; do
  put 0644 "$BUILT/compat/$library" "$LIBRARIES/$library"
done
put 0755 "$BUILT/compat/pollux_supervisor" "$LIBRARIES/pollux_supervisor"
put 0755 "$BUILT/tools/pollux/pollux" "$PREFIX/bin/pollux"
# DPDK is linked into pollux and libpollux_verbs.so; its licence requires this copy.
mkdir -p "$PREFIX/share/doc/pollux"
put 0644 /usr/share/doc/libdpdk-dev/copyright "$PREFIX/share/doc/pollux/copyright.dpdk"
echo "installed $PREFIX/bin/pollux and $LIBRARIES"
