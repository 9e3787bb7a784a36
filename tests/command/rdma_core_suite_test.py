"""rdma-core's own tests, as Debian ships them with pyverbs, on one port that loops back."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

from tests.command.run_test import RunTest

PYTHON = "/usr/bin/python3"  # the one that Debian's modules are for
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
DRIVER = os.path.abspath("tests/command/rdma_core_suite.py")
PASSING = pathlib.Path("tests/command/rdma_core_passing.txt")
# Why cases may be skipped. What Pollux does not announce:
NOT_ANNOUNCED = (
    "Create Extended CQ is not supported",  # with timestamps
    "Create QP type 8 is not supported",  # raw packets
    "Create Raw Packet QP with",
    "Create XRCD is not supported",
    "Device memory is not supported",
    # In sysfs. Of those of RDMA CM, whose two sides are processes of their own: a port has one.
    "Device pollux0 doesn't have net interface",
    "Extended CQ is not supported",  # with tag matching
    "Extended QP is not supported on this device",  # with atomic writes
    "ODP is not supported",
    "Parent Domain is not supported",
    "Query device real time is not supported",
)
# What the machine lacks, or the network that this test makes:
NOT_THERE = (
    "Allocating dmabuf is not supported",
    "PCI device must be passed",
    "There are no huge pages",
    "cuda-python",
)
# And what is about the drivers of certain devices.
OTHER_DEVICES = re.compile("MLX5|mlx5|EFA")


def has_pyverbs():
    return subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def copy_suite(directory):
    """Debian compresses the larger files of what it ships as documentation."""
    directory.mkdir()
    for path in SUITE.iterdir():
        if path.suffix == ".gz":
            (directory / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, directory)


def results(path):
    """{case: (what became of it: passed, skipped or failure; why)}"""
    found = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        outcome = next(iter(case), None)
        found[case.get("name")] = (("passed", "") if outcome is None
                                   else (outcome.tag, outcome.get("message")))
    return found


def may_be_skipped(reason):
    return reason.startswith(NOT_ANNOUNCED + NOT_THERE) or OTHER_DEVICES.search(reason)


class RdmaCoreSuiteTest(RunTest):
    def test_suite(self):
        if not SUITE.is_dir() or not has_pyverbs():
            self.skipTest("needs pyverbs and its tests (Debian: python3-pyverbs)")
        copy_suite(self.directory / "tests")
        report = self.directory / "report.xml"
        run = self.finish_program(self.server_host, PYTHON, DRIVER, self.directory / "tests",
                                  "pollux0", report)
        self.assertTrue(report.exists(), run.stdout + run.stderr)
        found = results(report)
        passed = {case for case, (outcome, _) in found.items() if outcome == "passed"}
        skipped = {case: why for case, (outcome, why) in found.items() if outcome == "skipped"}
        print(f"rdma-core's tests: {len(passed)} of {len(found)} pass, {len(skipped)} are skipped")
        self.assertEqual({case: why for case, (outcome, why) in found.items()
                          if outcome not in ("passed", "skipped")}, {}, run.stderr)
        self.assertEqual({case: why for case, why in skipped.items() if not may_be_skipped(why)},
                         {})
        lines = PASSING.read_text(encoding="utf-8").splitlines()
        listed = {line for line in lines if not line.startswith("#")}
        self.assertEqual(listed - passed, set(), "cases that passed before")
        self.assertEqual(passed - listed, set(), f"cases that pass now: add them to {PASSING}")
