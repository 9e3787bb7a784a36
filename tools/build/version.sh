#!/usr/bin/env bash
# Prints the version of a tree: by its tag and the commits since then; before the first tag, and
# outside git, by VERSION.
# usage: version.sh [--debian | --abi]; as Debian's packages are versioned, or only as much of it as
# programs must be compiled again for, which the name of the shared library contains: before version
# 1.0 each minor version may change the API
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
number=$(<VERSION)
readonly number
if [[ ${1:-} == --abi ]]; then
  IFS=. read -r major minor _ <<<"$number"
  ((major)) && echo "$major" || echo "$major.$minor"
  exit
fi
git() { command git -c safe.directory="$PWD" "$@"; }

version=$number
# Not that of a repository around an unpacked archive.
if [[ $(git rev-parse --show-toplevel 2>/dev/null) == "$(pwd -P)" ]]; then
  if described=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null); then
    version=${described#v}
  else
    commit=$(git describe --always --dirty --exclude='*')
    version=$number-dev-$(git rev-list --count HEAD)-g$commit
  fi
fi
if [[ ${1:-} == --debian ]]; then
  # A "~" sorts before the release that it leads to, a "+" behind the one that it follows.
  version=${version/-dev-/\~dev}
  version=${version//-/+}
fi
echo "$version"
