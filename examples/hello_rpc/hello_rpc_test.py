"""Runs the example and checks its output."""

import subprocess
import unittest


class HelloRpcTest(unittest.TestCase):

    def test_reverses_bytes_that_travel_in_chunks(self):
        done = subprocess.run(["examples/hello_rpc/hello_rpc"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout),
                         (0, "100000 bytes reversed: yes; 100000 came by RDMA WRITE\n"),
                         done.stderr)
