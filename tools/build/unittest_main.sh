#!/bin/sh
# Runs a Python test file as a Bazel sh_test: py_test of Bazel 4.2 asks for a command `python`,
# which Debian does not have. PATH also gets the directories in which Debian installs programs for
# root, and HOME is the test's own directory: Bazel sets none, and Open MPI 5 needs one.
PATH=$PATH:/usr/sbin:/sbin
export HOME="$TEST_TMPDIR"
exec python3 -B tools/build/unittest_main.py "$1"
