"""Tests what an interrupted build of the guest's disk leaves."""

import fcntl
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, "tests/interop")  # where the cases run, and import from

# pylint: disable=wrong-import-position
import image
from process import Deadline

TIMEOUT_S = 300  # a limit against hanging, not an expected time
# Mounts something in its target and never ends, the first time; fails the second time. It holds a
# lock while it or the program that it runs exists.
DEBOOTSTRAP = """#!/bin/sh
test ! -e {folder}/begun || exit 3
exec 9>{folder}/lock
flock 9
for target; do :; done
mkdir -p $target/proc
mount -t tmpfs fake $target/proc
touch $target/proc/file
touch {folder}/begun
sleep infinity
"""


class InterruptedBuildTest(unittest.TestCase):
    def setUp(self):
        if subprocess.run(["unshare", "--mount", "--pid", "--kill-child", "--mount-proc", "true"],
                          check=False).returncode != 0:
            self.skipTest("needs the right to make namespaces")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        fake = self.folder / "debootstrap"
        fake.write_text(DEBOOTSTRAP.format(folder=self.folder))
        fake.chmod(0o755)
        self.enterContext(mock.patch.dict(os.environ, {
            "PATH": f"{self.folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.folder)}))

    def build(self):
        return image.build(mock.Mock(), image.SUITES[0])

    def is_free(self):
        """Returns whether no program of debootstrap is left."""
        with open(self.folder / "lock", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def test_a_killed_build_leaves_no_mounts_and_no_processes(self):
        builder = multiprocessing.get_context("fork").Process(target=self.build)
        builder.start()
        Deadline(TIMEOUT_S).wait_for("debootstrap", (self.folder / "begun").exists)
        builder.kill()
        builder.join()
        self.assertNotIn(str(self.folder), pathlib.Path("/proc/self/mounts").read_text())
        Deadline(TIMEOUT_S).wait_for("debootstrap to end", self.is_free)
        with self.assertRaisesRegex(image.ImageError, "ended with 3"):
            self.build()

    def test_mounts_in_the_folder_are_named(self):
        """Builds of former versions may have left them."""
        work = image.cache_root() / f"{image.recipe_hash(image.SUITES[0])}.building"
        (work / "root").mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "fake", work / "root"], check=True)
        try:
            with self.assertRaisesRegex(image.ImageError, f"umount {work}/root"):
                self.build()
        finally:
            subprocess.run(["umount", work / "root"], check=True)
