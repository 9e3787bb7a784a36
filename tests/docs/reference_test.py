"""Tests the reference of the public headers."""

import html
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

# The source tree itself, as in documents_test.py.
REFERENCE = pathlib.Path(os.path.realpath("README.md")).parent / "tools/build/reference.py"


class ReferenceTest(unittest.TestCase):
    def setUp(self):
        if shutil.which("doxygen") is None:
            self.skipTest("needs the command doxygen")
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def words(self, page):
        text = re.sub("<[^>]+>", "", (self.directory / page).read_text(encoding="utf-8"))
        return " ".join(html.unescape(text).split())

    def test_is_made_without_warnings_from_the_comments(self):
        done = subprocess.run(["python3", REFERENCE, self.directory], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        # At the head of a header, before a declaration, and behind one.
        self.assertIn("A device: an open port, the workers that share it, and their network",
                      self.words("device_8h.html"))
        options = self.words("structpollux_1_1engine_1_1DeviceOptions.html")
        self.assertIn("#include <stack/engine/device.h>", options)
        for comment in ("netdev An interface that stays with the kernel",
                        "mac replaces the port's own MAC address"):
            self.assertIn(comment, options)
