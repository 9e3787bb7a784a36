"""Tests closed_pipe.py with a program whose reader has closed the pipe."""

import os
import subprocess
import sys
import unittest

from tools.build import closed_pipe

PROGRAM = """
import sys
from tools.build import closed_pipe

def main():
    try:
        for line in range({lines}):
            print(line)
    finally:
        print("cleaned up", file=sys.stderr)
    {end}

closed_pipe.run(main)
"""


class ClosedPipeTest(unittest.TestCase):
    def run_program(self, lines, end, reads):
        reader, writer = os.pipe()
        if not reads:
            os.close(reader)
        # PYTHONUNBUFFERED would write each line at once.
        environment = {name: value for name, value in os.environ.items()
                       if name != "PYTHONUNBUFFERED"}
        done = subprocess.run([sys.executable, "-c", PROGRAM.format(lines=lines, end=end)],
                              stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
                              env=environment)
        os.close(writer)
        if reads:
            os.close(reader)
        return done.returncode, done.stderr

    def test_writing_to_a_closed_pipe_exits_after_cleanup(self):
        # One line fits into the buffer and is written at the end; many lines are written before.
        for lines in (1, 100_000):
            for end in ("return 0", "sys.exit(0)"):
                self.assertEqual(self.run_program(lines, end, reads=False),
                                 (closed_pipe.EXIT_STATUS, "cleaned up\n"))

    def test_an_open_pipe_keeps_the_exit_status(self):
        for status in (0, 3):
            for end in (f"return {status}", f"sys.exit({status})"):
                self.assertEqual(self.run_program(1, end, reads=True), (status, "cleaned up\n"))
        self.assertEqual(self.run_program(1, "sys.exit('why')", reads=True),
                         (1, "cleaned up\nwhy\n"))


if __name__ == "__main__":
    unittest.main()
