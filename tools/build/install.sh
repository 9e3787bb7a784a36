#!/usr/bin/env bash
# Copies what Bazel built to where everybody may read it.
# usage: [DESTDIR=DIR] install.sh BUILT PREFIX, BUILT as Bazel's bazel-bin. `tools/dev install`
# builds first.
set -euo pipefail

umask 022
readonly BUILT=$1 PREFIX=${2%/}
SOURCES=$(readlink -f "${BASH_SOURCE[0]}")
readonly SOURCES=${SOURCES%/tools/build/install.sh} ROOT=${DESTDIR:-}$PREFIX
# Where the command looks for them: kPlaces in tools/pollux/run_command.cc.
readonly LIBRARIES=lib/pollux
# Where the compiler and pkg-config look, below /usr and /usr/local.
ARCHITECTURE=$(gcc -print-multiarch)
readonly ARCHITECTURE DEVELOPMENT=lib/$ARCHITECTURE
# Debian's zsh reads the completions of packages in one directory, the administrator's in another.
ZSH=share/zsh/site-functions
[[ $PREFIX != /usr ]] || ZSH=share/zsh/vendor-completions

# Programs that run go on with what they have mapped: a file is put beside the old one, then in its
# place. Directories that are there keep their owner and mode.
put() {
  local mode=$1 from=$2 to=$ROOT/$3
  install -D -m "$mode" "$from" "$to.new"
  mv -f "$to.new" "$to"
}

# The same for a file that names where others are.
put_text() {
  local text
  text=$(<"$1")
  text=${text//@PREFIX@/"$PREFIX"}
  text=${text//@ARCHITECTURE@/"$ARCHITECTURE"}
  text=${text//@VERSION@/"$(<"$SOURCES/VERSION")"}
  put 0644 <(echo "${text//=\/usr\/bin\//="$PREFIX"/bin/}") "$2"
}

for library in libibverbs.so.1 libpollux_device_file.so libpollux_verbs.so librdmacm.so.1; do
  put 0644 "$BUILT/compat/$library" "$LIBRARIES/$library"
done
put 0755 "$BUILT/compat/pollux_supervisor" "$LIBRARIES/pollux_supervisor"
put 0755 "$BUILT/tools/pollux/pollux" bin/pollux
for page in "$BUILT"/tools/pollux/pollux*.[178]; do
  put 0644 "$page" "share/man/man${page##*.}/${page##*/}"
done
put 0644 "$BUILT/tools/pollux/pollux.bash" share/bash-completion/completions/pollux
put 0644 "$BUILT/tools/pollux/_pollux" "$ZSH/_pollux"
for unit in "$SOURCES"/tools/systemd/*.service; do
  put_text "$unit" "lib/systemd/system/${unit##*/}"
done

soname=libpollux.so.$("$SOURCES/tools/build/version.sh" --abi)
put 0644 "$BUILT/libpollux.a" "$DEVELOPMENT/libpollux.a"
put 0644 "$BUILT/libpollux.so" "$DEVELOPMENT/$soname"
ln -sf "$soname" "$ROOT/$DEVELOPMENT/libpollux.so"
for module in pollux pollux-shared; do
  put_text "$BUILT/$module.pc" "$DEVELOPMENT/pkgconfig/$module.pc"
done
cd "$SOURCES"
mapfile -t headers <<<"$(python3 tools/build/public_headers.py)"
mkdir -p "$ROOT/include/pollux" "$ROOT/share/doc/pollux"
cp --parents --no-preserve=mode "${headers[@]}" "$ROOT/include/pollux"
cp --parents --no-preserve=mode README.md CHANGELOG.md SECURITY.md docs/*.* \
  docs/Containerfile examples/*/{*.{cc,c,h,x},Makefile} "$ROOT/share/doc/pollux"
# DPDK is linked into pollux and the shared libraries; its licence requires this copy.
put 0644 /usr/share/doc/libdpdk-dev/copyright share/doc/pollux/copyright.dpdk
# Where the loader looks by itself, it finds new libraries by its cache alone.
if ((EUID == 0)) && [[ -z ${DESTDIR:-} && $PREFIX =~ ^/usr(/local)?$ ]]; then
  /sbin/ldconfig  # not in the PATH that su keeps
fi
echo "installed $PREFIX/bin/pollux and $PREFIX/$LIBRARIES"
