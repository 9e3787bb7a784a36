"""Runs rdma-core's own tests, which Debian ships with pyverbs, on one port that loops back.

The two sides of an RDMA CM case are two processes, each on a port of its own.
"""

import glob
import gzip
import multiprocessing.managers
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import xml.etree.ElementTree

from tests.command.harness import CLIENT, SERVER, TIMEOUT_S, wait_for
from tests.command.run_test import RunTest

PYTHON = "/usr/bin/python3"  # the version for which Debian builds its modules
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
DRIVER = os.path.abspath("tests/command/rdma_core_suite.py")
CM_SIDE = os.path.abspath("tests/command/rdma_core_cm_side.py")
PASSING = pathlib.Path("tests/command/rdma_core_passing.txt")
# The suite looks in sysfs, which has only the kernel's devices, for the address that the two
# processes of its RDMA CM cases use.
NO_INTERFACE = "Device pollux0 doesn't have net interface"
CM_CASES = {f"test_rdmacm_{name}" for name in (
    "sync_traffic", "async_traffic", "async_reject_traffic", "async_multicast_traffic",
    "async_ex_multicast_traffic", "async_traffic_external_qp", "async_udp_traffic", "async_read",
    "async_write")}
LEAVING_CASE = "test_rdmacm_async_ex_leave_multicast_traffic"
FAILED = 2  # the exit status of a side that failed
LEFT = "left the multicast group\n"  # printed by a side when leave_multicast() has returned
# Accepted reasons for a skipped case. First: features that Pollux does not announce.
NOT_ANNOUNCED = (
    "Create Extended CQ is not supported",  # with timestamps
    "Create QP type 8 is not supported",  # raw packets
    "Create Raw Packet QP with",
    "Create XRCD is not supported",
    "Device memory is not supported",
    NO_INTERFACE,
    "Extended CQ is not supported",  # with tag matching
    "Extended QP is not supported on this device",  # with atomic writes
    "ODP is not supported",
    "Parent Domain is not supported",
    "Query device real time is not supported",
)
# Second: features that this machine, or the network of this test, lacks.
NOT_THERE = (
    "Allocating dmabuf is not supported",
    "Device /dev/dri/renderD128 is not present",
    "PCI device must be passed",
    "There are no huge pages",
    "cuda-python",
)
# Third: cases for the drivers of certain devices.
OTHER_DEVICES = re.compile("MLX5|mlx5|EFA")
# Reads the P_Key from sysfs, which has only the kernel's devices. Of rdma-core 56.
SYSFS_CASE = "tests.test_device.DeviceTest.test_get_pkey_index"


def version():
    """Returns the version of rdma-core that is installed."""
    (library,) = glob.glob("/usr/lib/*/libibverbs.so.1.14.*")
    return int(library.split(".so.1.14.")[1].split(".")[0])


def has_pyverbs():
    return subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def copy_suite(directory):
    """Copies the suite and unpacks its larger files, which Debian compresses as documentation."""
    directory.mkdir()
    for path in SUITE.iterdir():
        if path.suffix == ".gz":
            (directory / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, directory)


def results(path):
    """Returns {case: (outcome, reason)}; the outcome is passed, skipped or failure."""
    found = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        outcome = next(iter(case), None)
        found[case.get("name")] = (("passed", "") if outcome is None
                                   else (outcome.tag, outcome.get("message")))
    return found


def may_be_skipped(reason):
    return reason.startswith(NOT_ANNOUNCED + NOT_THERE) or OTHER_DEVICES.search(reason)


class RdmaCoreTest(RunTest):
    def setUp(self):
        super().setUp()
        if not SUITE.is_dir() or not has_pyverbs():
            self.skipTest("needs pyverbs and its tests (Debian: python3-pyverbs)")
        copy_suite(self.directory / "tests")
        # rdma-core 56's suite asks iproute2 for the interfaces of devices, which fails where the
        # kernel has no InfiniBand.
        no_devices = self.directory / "rdma"
        no_devices.write_text("#!/bin/sh\necho []\n")
        no_devices.chmod(0o755)
        self.python = ("env", f"PATH={self.directory}:{os.environ['PATH']}", PYTHON)


class SuiteTest(RdmaCoreTest):
    def test_all_expected_cases_of_rdma_core_pass(self):
        report = self.directory / "report.xml"
        run = self.finish_program(self.server_host, *self.python, DRIVER, self.directory / "tests",
                                  "pollux0", report)
        self.assertTrue(report.exists(), run.stdout + run.stderr)
        found = results(report)
        passed = {case for case, (outcome, _) in found.items() if outcome == "passed"}
        skipped = {case: why for case, (outcome, why) in found.items() if outcome == "skipped"}
        print(f"rdma-core's tests: {len(passed)} of {len(found)} pass, {len(skipped)} are skipped")
        self.assertEqual({case: why for case, (outcome, why) in found.items()
                          if outcome not in ("passed", "skipped") and case != SYSFS_CASE}, {},
                         run.stderr)
        self.assertEqual({case: why for case, why in skipped.items() if not may_be_skipped(why)},
                         {})
        by_cm = {case.rpartition(".")[2] for case, why in skipped.items()
                 if ".test_rdmacm." in case and why == NO_INTERFACE}
        self.assertEqual(by_cm, CM_CASES | {LEAVING_CASE}, "those that have a port for each side")
        lines = PASSING.read_text(encoding="utf-8").splitlines()
        cases = (line.split() for line in lines if not line.startswith("#"))
        listed = {name for name, *since in cases if not since or int(since[0]) <= version()}
        self.assertEqual(listed - passed, set(), "cases that passed before")
        self.assertEqual(passed - listed, set(), f"cases that pass now: add them to {PASSING}")


class CmCasesTest(RdmaCoreTest):
    def start_sides(self, case):
        """Starts and returns the passive and the active side."""
        meeting = self.enterContext(multiprocessing.managers.SyncManager(authkey=self.key))
        path = self.directory / f"{case}.meeting"
        # The manager deletes objects without a reference, even if a side is about to take one.
        self.meeting = meeting.Barrier(2, timeout=TIMEOUT_S), meeting.Queue()
        path.write_bytes(pickle.dumps(self.meeting))
        return [self.run_program(host, *self.python, CM_SIDE, self.directory / "tests", "pollux0",
                                 case, side, own, SERVER, self.key.hex(), path)
                for host, side, own in ((self.server_host, "passive", SERVER),
                                        (self.client_host, "active", CLIENT))]

    def setUp(self):
        super().setUp()
        self.key = os.urandom(16)
        self.meeting = None

    def test_cm_cases_of_rdma_core_pass(self):
        for case in sorted(CM_CASES):
            with self.subTest(case):
                sides = self.start_sides(case)
                status = [side.wait() for side in sides]
                self.assertEqual(status, [0, 0], [side.stdout + side.stderr for side in sides])

    def test_no_multicast_message_arrives_after_leaving(self):
        passive, active = self.start_sides(LEAVING_CASE)
        self.assertEqual(active.wait(), FAILED, active.stdout + active.stderr)
        # Without these lines a side could fail before it leaves, and nothing would be tested.
        self.assertIn(LEFT, active.stdout, active.stderr)
        wait_for("the passive side to leave",
                 lambda: LEFT in passive.stdout or passive.process.poll() is not None)
        self.assertIn(LEFT, passive.stdout, passive.stderr)
        # It still waits for a datagram, or on a busy machine it came too late to wait, and failed.
        self.assertIn(passive.process.poll(), (None, FAILED), passive.stdout + passive.stderr)
