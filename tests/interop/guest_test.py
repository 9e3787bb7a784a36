"""Tests how the guest is prepared for the next case, in a mount namespace of this host."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/interop")  # where the cases run, and import from

# pylint: disable=wrong-import-position
import guest
from process import CaseFailure

# Two mounts that failed cases have left, one over the other.
LEFT = "mount -t tmpfs first /mnt && mount -t tmpfs second /mnt || exit 99"
NO_NETWORK = "ip() { :; }; tc() { :; }"


class HostedGuest(guest.Guest):
    """A guest whose scripts run in a new mount namespace each."""

    def __init__(self, folder):
        super().__init__(None, folder, "guest0", {})
        self.mounts = folder / "mounts"

    def run(self, script, deadline):
        del deadline
        done = subprocess.run(["unshare", "--mount", "bash", "-c",
                               f"{LEFT}; {NO_NETWORK}; {script} && "
                               f"cat /proc/self/mounts >{self.mounts}"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise CaseFailure(done.stdout)

    def wait_for_no_cm(self, deadline):
        pass

    def healthy(self):
        return True

    def stop(self):
        raise AssertionError("the guest was to be rebooted")


class ResetTest(unittest.TestCase):
    def test_no_mount_of_a_failed_case_is_left(self):
        if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
            self.skipTest("needs the right to make mount namespaces")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        HostedGuest(folder).reset(9000)
        left = (folder / "mounts").read_text()
        for name in ("first", "second"):  # the host may have a mount of its own there
            self.assertNotIn(f"{name} /mnt ", left)
