"""Runs pollux nfsd on a directory of the test."""

import unittest

from tests.command.networks import SharedInterface


class Exported(SharedInterface):
    """An exported directory and its nfsd, which needs the real root (no user namespace)."""

    def setUp(self):
        super().setUp()
        with open("/proc/self/uid_map", encoding="ascii") as file:
            if int(file.read().split()[2]) < 1 << 31:
                raise unittest.SkipTest("needs root outside a user namespace")
        self.export = self.directory / "export"
        self.export.mkdir()

    def nfsd_argv(self, *arguments, export=None, exports=None):
        """Returns a command line that serves `export`, or those that the file `exports` lists."""
        served = ("--exports", exports) if exports else ("--export", export or f"{self.export}:rw")
        return ("nfsd", "--netdev", "wire", *served, "--key-file", self.directory / "key",
                "--idle", "sleep", *arguments)

    def nfsd(self, *arguments, environment=None, **keywords):
        run = self.start(self.server_host, *self.nfsd_argv(*arguments, **keywords),
                         environment=environment)
        run.wait_for_line("^serving NFS at ")
        return run
