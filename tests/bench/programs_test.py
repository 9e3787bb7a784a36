"""What tools/dev bench --programs measures comes to its end; its speed is not asserted."""

import json
import shutil
import subprocess
import sys
import unittest

PROGRAM = "tests/bench/programs.py"
POLLUX, NATIVE = "tools/pollux", "tests/bench/native"
PATIENCE_S = 200


class ProgramsTest(unittest.TestCase):
    def test_native_knows_what_it_can_do(self):
        for wrong in (["fetch", "lat", "64", "1"], ["send", "rate", "64", "1"],
                      ["send", "lat", "0", "1"], ["send", "bw", "64", "none"]):
            run = subprocess.run([NATIVE, "here", "there", *wrong], capture_output=True, text=True,
                                 timeout=PATIENCE_S)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertEqual(len(run.stderr.splitlines()), 1)

    def test_programs(self):
        linked = subprocess.run(["ldd", POLLUX], capture_output=True, text=True).stdout
        if any(name in linked for name in ("libasan", "libtsan", "libubsan")):
            self.skipTest("needs libraries that a program without sanitizers can load")
        run = subprocess.run(
            [sys.executable, PROGRAM, POLLUX, NATIVE, "--passes", "1", "--scale", "0.01",
             "--bytes", "64", "--only", "ib_send_lat,ib_write_lat,ib_read_lat,ib_write_bw",
             "--json"],
            capture_output=True, text=True, timeout=PATIENCE_S)
        if "right to make network namespaces" in run.stderr:
            self.skipTest(run.stderr)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        told = json.loads(run.stdout)
        for name in (f"{program} 64 B" for program in
                     ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_write_bw")):
            if shutil.which("ib_send_lat") is None:
                self.assertIn(name, told["missing"])
                continue
            for row in (name, f"{name}, native"):
                self.assertGreater(told["figures"][row]["median"], 0)
            self.assertIn(name, told["verdicts"])
        if shutil.which("ib_send_lat") is not None:
            self.assertGreater(told["figures"]["ib_send_lat -e 64 B"]["median"], 0)
        for row, reason in told["missing"].items():
            self.assertIn("is not installed", reason, row)


if __name__ == "__main__":
    unittest.main()
