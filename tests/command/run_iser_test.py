"""Tests `pollux run` with tgt's iSER target, on whose disk libiscsi's tests run."""

import os
import shutil
import subprocess

from tests.command.harness import TIMEOUT_S, wait_for
from tests.command.run_test import RunTest

PORT = 3260  # the default: the tgtd of Debian 12 accepts no other by --iser port=
TARGET, INITIATOR = "iqn.2026-01.pollux:disk", "iqn.2026-01.pollux:client"
DISK_SIZE = 16 << 20
# These tests write and read 1 to 256 blocks and compare them. The tests of other commands have a
# case that crashes libiscsi over iSER, because it queues more commands than libiscsi has buffers.
TESTS = ("Read16", "Write16", "WriteVerify16", "Verify16", "OrWrite", "CompareAndWrite",
         "Mandatory", "TestUnitReady")


class IserTest(RunTest):
    timeout_s = 3 * TIMEOUT_S  # for some 2,500 commands in sequence

    def setUp(self):
        super().setUp()
        for tool in ("tgtd", "tgtadm", "iscsi-test-cu"):
            if shutil.which(tool) is None:
                self.skipTest(f"needs the command {tool}")
        self.control = self.directory / "control"
        (self.directory / "disk").write_bytes(bytes(DISK_SIZE))

    def administer(self, mode, operation, *options):
        """Returns whether tgtadm succeeded."""
        return subprocess.run(
            ["tgtadm", "-C", "0", "--lld", "iser", "--mode", mode, "--op", operation, "--tid", "1",
             *options], env={**os.environ, "TGT_IPC_SOCKET": str(self.control)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def start_target(self):
        self.start_server("env", f"TGT_IPC_SOCKET={self.control}", "tgtd", "-f", "-C", 0, "-t", 1,
                          "--iser", "pool_sz_mb=128")
        wait_for("the target", lambda: self.administer("target", "new", "--targetname", TARGET))
        self.assertTrue(self.administer("logicalunit", "new", "--lun", "1", "--backing-store",
                                        str(self.directory / "disk")))
        self.assertTrue(self.administer("target", "bind", "--initiator-address", "ALL"))
        self.assertTrue(self.administer("target", "bind", "--initiator-name", INITIATOR))

    def passes(self, test):
        """Returns whether the test ran: libiscsi gives up an iSER command that takes a second."""
        # It uses a list without initializing it, which works only if malloc() returns zeroed
        # memory; MALLOC_PERTURB_=255 makes malloc() do that.
        run = self.run_program(self.client_host, "env", "MALLOC_PERTURB_=255", "iscsi-test-cu",
                               "--dataloss", "-i", INITIATOR, "--test", f"ALL.{test}",
                               f"iser://{self.address}:{PORT}/{TARGET}/1")
        run.wait(self.timeout_s)
        said = run.stdout + run.stderr
        if "revents is not POLLIN" in said:
            return False
        self.assertEqual(run.process.returncode, 0, said)
        self.assertRegex(said, r"asserts +\d+ +\d+ +\d+ +0 ")
        return True

    def test_an_iser_disk_passes_the_libiscsi_tests(self):
        self.start_target()
        for test in TESTS:
            with self.subTest(test):
                wait_for(test, lambda test=test: self.passes(test))
