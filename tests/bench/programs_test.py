"""Tests that tools/dev bench --programs completes its measurements; no speed is asserted."""

import json
import shutil
import subprocess
import sys
import unittest

from tests.bench import programs

PROGRAM = "tests/bench/programs.py"
POLLUX, BENCH = "tools/pollux/pollux", "tests/bench/bench"
# A limit against hanging, not an expected time: several programs run one after the other.
TIMEOUT_S = 1500


class ProgramsTest(unittest.TestCase):
    def test_native_refuses_invalid_arguments(self):
        for wrong in (["fetch", "lat", "64", "1"], ["send", "rate", "64", "1"],
                      ["send", "lat", "0", "1"], ["send", "bw", "64", "none"]):
            run = subprocess.run([BENCH, "native", "here", "there", *wrong], capture_output=True,
                                 text=True, timeout=TIMEOUT_S)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertEqual(len(run.stderr.splitlines()), 1)

    def test_only_refuses_an_unknown_program(self):
        run = subprocess.run([sys.executable, PROGRAM, POLLUX, BENCH, "--only", "ib_send_rate"],
                             capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(run.returncode, 2)
        self.assertIn("ib_send_rate: there are ib_send_lat, ", run.stderr)

    def test_the_limit_of_a_round_trip_depends_on_its_size(self):
        for size, native_us, limit_us in ((64, 6.0, 0.15), (4096, 20.0, 0.15), (4097, 20.0, 2.0),
                                          (65536, 1.0, 0.15), (1 << 20, 1000.0, 100.0)):
            self.assertAlmostEqual(programs.may_add_us(size, native_us), limit_us)

    def test_verdicts_compare_each_pass_with_the_limit_of_its_size(self):
        table = programs.Table()
        table.rows = {"ib_write_lat 64 B": ("us", [6.1, 6.2, 9.0]),
                      "ib_write_lat 64 B, native": ("us", [6.0, 6.0, 6.0]),
                      "ib_write_lat 1048576 B": ("us", [1100.0, 1090.0, 1050.0]),
                      "ib_write_lat 1048576 B, native": ("us", [1000.0, 1000.0, 1000.0])}
        small, large = programs.verdicts(table, ["ib_write_lat"], [64, 1 << 20])
        self.assertEqual((small[0], small[3], small[4]), ("ib_write_lat 64 B", 0.15, False))
        self.assertAlmostEqual(small[2], 0.2)
        self.assertEqual((large[0], large[3], large[4]), ("ib_write_lat 1048576 B", 100.0, True))
        self.assertAlmostEqual(large[2], 90.0)

    def test_a_failed_program_loses_only_its_own_figures(self):
        def fail():
            raise RuntimeError("ib_send_bw ended with 1:\nno luck")

        table = programs.Table()
        name = "ib_send_bw 64 B"
        for ours, native in ((lambda: 9.0, lambda: 10.0), (fail, lambda: 10.0),
                             (lambda: 1.0, lambda: 10.0)):
            table.record(name, "B/s", ours)
            table.record(f"{name}, native", "B/s", native)
            table.record("ib_read_bw 64 B", "B/s", lambda: 1.0)
            table.record("ib_read_bw 64 B, native", "B/s", fail)
        self.assertTrue(table.failed)
        self.assertEqual(table.missing[name], "ib_send_bw ended with 1:; no luck")
        self.assertEqual(len(table.rows["ib_read_bw 64 B"][1]), 3)
        (sent,) = programs.verdicts(table, ["ib_send_bw", "ib_read_bw"], [64])
        self.assertEqual((sent[0], sent[2]), (name, 0.9))

    def test_each_program_gets_figures_and_verdicts(self):
        linked = subprocess.run(["ldd", POLLUX], capture_output=True, text=True).stdout
        if any(name in linked for name in ("libasan", "libtsan", "libubsan")):
            self.skipTest("needs libraries that a program without sanitizers can load")
        run = subprocess.run(
            [sys.executable, PROGRAM, POLLUX, BENCH, "--passes", "1", "--scale", "0.01",
             "--bytes", "64", "--only", "ib_send_lat,ib_write_lat,ib_read_lat,ib_write_bw,ucx",
             "--json"],
            capture_output=True, text=True, timeout=TIMEOUT_S)
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
        if shutil.which("ucx_perftest") is not None:
            self.assertGreater(told["figures"]["UCX posix 64 B round trip"]["median"], 0)
        self.assertIs(told["verdicts_count"], False)  # after only one pass
        for row, reason in told["missing"].items():
            self.assertIn("is not installed", reason, row)


if __name__ == "__main__":
    unittest.main()
