#!/usr/bin/env bash
# usage: portable.sh BENCH DIR
#
# Makes DIR with the benchmark, every shared library that it needs, and the loader, so that it runs
# on a machine of the same architecture with any Linux distribution. DIR/run measures how the rate
# grows with the number of cores. It is not one static binary because Debian has no static
# libsystemd, libgssapi_krb5, libisal and libcap.
set -euo pipefail

bench=$1 directory=$2
if ldd "$bench" | grep "not found"; then
  echo "portable.sh: these libraries of $bench are missing" >&2
  exit 1
fi
mkdir -p "$directory/lib"
cp --dereference "$bench" "$directory/bench"
chmod u+w "$directory/bench"
# Lines of ldd: "NAME => PATH (ADDRESS)", and the loader's "PATH (ADDRESS)".
ldd "$bench" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' |
  xargs cp --dereference --target-directory="$directory/lib"
cat >"$directory/run" <<'RUN'
#!/bin/sh
# Prints the rate of SENDs and WRITEs by number of cores. Options: those of the benchmark (--help).
cd "$(dirname "$0")" || exit
exec lib/ld-linux-x86-64.so.2 --library-path lib \
  ./bench --ring-only --part workers,shared-port "$@"
RUN
chmod +x "$directory/run"
