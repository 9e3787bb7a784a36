"""Runs the example and checks its output."""

import subprocess
import unittest


class HelloVerbsTest(unittest.TestCase):

    def test_writes_into_the_other_ends_memory(self):
        done = subprocess.run(["examples/hello_verbs/hello_verbs"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "success: hello, verbs\n"),
                         done.stderr)
