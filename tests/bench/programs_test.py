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
    def test_native(self):
        for operation in ("send", "write", "read"):
            for kind in ("lat", "bw"):
                run = subprocess.run([NATIVE, operation, kind, "64", "1000"],
                                     capture_output=True, text=True, timeout=PATIENCE_S)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertGreater(float(run.stdout), 0)
        for wrong in (["fetch", "lat", "64", "1"], ["send", "rate", "64", "1"],
                      ["send", "lat", "0", "1"], ["send", "bw", "64", "none"]):
            run = subprocess.run([NATIVE, *wrong], capture_output=True, text=True,
                                 timeout=PATIENCE_S)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertEqual(len(run.stderr.splitlines()), 1)

    def test_programs(self):
        linked = subprocess.run(["ldd", POLLUX], capture_output=True, text=True).stdout
        if any(name in linked for name in ("libasan", "libtsan", "libubsan")):
            self.skipTest("needs libraries that a program without sanitizers can load")
        run = subprocess.run(
            [sys.executable, PROGRAM, POLLUX, NATIVE, "--passes", "1", "--scale", "0.01",
             "--bytes", "64", "--only", "ib_send_lat,ib_write_bw", "--json"],
            capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        told = json.loads(run.stdout)
        for name in ("ib_send_lat 64 B", "ib_write_bw 64 B"):
            if shutil.which("ib_send_lat") is None:
                self.assertIn(name, told["missing"])
                continue
            for row in (name, f"{name}, native"):
                self.assertGreater(told["figures"][row]["median"], 0)
            self.assertIn(name, told["verdicts"])
        for row, reason in told["missing"].items():
            self.assertTrue("is not installed" in reason or "namespaces" in reason,
                            f"{row}: {reason}")


if __name__ == "__main__":
    unittest.main()
