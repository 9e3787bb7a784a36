"""Tests which cases of a file unittest_main.py runs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

CASES = """import unittest
class First(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): pass
    def test_c(self): pass
class Second(First):
    pass
"""


class UnittestMainTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.directory / "cases.py").write_text(CASES, encoding="ascii")

    def run_cases(self, **shard):
        """Returns the exit status, and the names of the cases that ran."""
        report = self.directory / "report.xml"
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("TEST_")}
        done = subprocess.run(
            [sys.executable, "-B", "tools/build/unittest_main.py", self.directory / "cases.py"],
            env={**environment, **shard, "XML_OUTPUT_FILE": str(report)}, capture_output=True,
            check=False)
        return done.returncode, [case.get("name") for case in
                                 xml.etree.ElementTree.parse(report).iter("testcase")]

    def shard(self, index, total):
        status_file = self.directory / f"shard{index}"
        ran = self.run_cases(TEST_SHARD_INDEX=str(index), TEST_TOTAL_SHARDS=str(total),
                             TEST_SHARD_STATUS_FILE=str(status_file))
        self.assertTrue(status_file.exists())
        return ran

    def test_without_shards_all_cases_run(self):
        status, names = self.run_cases()
        self.assertEqual(status, 0)
        self.assertEqual(names, [f"tested.{of}.test_{case}"
                                 for of in ("First", "Second") for case in "abc"])

    def test_each_case_runs_in_one_shard(self):
        _, everything = self.run_cases()
        for total in (2, 5):
            shards = [self.shard(index, total) for index in range(total)]
            self.assertEqual({status for status, _ in shards}, {0})
            self.assertEqual(sorted(name for _, names in shards for name in names), everything)
            sizes = [len(names) for _, names in shards]
            self.assertLessEqual(max(sizes) - min(sizes), 1)

    def test_leaving_out_an_unknown_case_fails(self):
        cases = self.directory / "cases.py"
        for left_out, status in (("test_b", 0), ("test_d", 1)):
            text = CASES.replace("    pass\n", f"    {left_out} = None\n")
            cases.write_text(text, encoding="ascii")
            done = subprocess.run(
                [sys.executable, "-B", "tools/build/unittest_main.py", cases],
                capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual("Second.test_d = None" in done.stderr, status == 1, done.stderr)

    def test_a_class_without_cases_fails(self):
        """Unless another class is derived from it."""
        cases = self.directory / "cases.py"
        cases.write_text("import unittest\nclass Base(unittest.TestCase):\n    pass\n" +
                         CASES.replace("class First(unittest.TestCase)", "class First(Base)"),
                         encoding="ascii")
        self.assertEqual(self.run_cases()[0], 0)
        cases.write_text(CASES + "class Third(unittest.TestCase):\n    pass\n", encoding="ascii")
        done = subprocess.run([sys.executable, "-B", "tools/build/unittest_main.py", cases],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Third has no cases", done.stderr)

    def test_a_shard_without_a_case_fails(self):
        self.assertNotEqual(self.shard(6, 7)[0], 0)


if __name__ == "__main__":
    unittest.main()
