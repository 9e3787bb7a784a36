"""Tests a server whose disk is full: the disk of its files, or that of its capture."""

import shutil

from tests.command.harness import POLLUX
from tests.command.networks import TwoHosts
from tests.hostile.victim import Bounded

# Mounts a disk of size $1 at the directory $2, copies the file $3 to it, and runs the other
# arguments.
ON_SMALL_DISK = 'mount -t tmpfs -o size="$1" none "$2"; cp "$3" "$2"; shift 3; exec "$@"'


class DiskFullTest(Bounded, TwoHosts):
    server_port = client_port = "net_af_packet0,iface=wire"
    # Less than each case writes: a server that kept what it cannot store would take more.
    MAX_GROWTH_MIB = 32

    def setUp(self):
        super().setUp()
        if shutil.which("unshare") is None:
            self.skipTest("needs the command unshare")
        # In a chroot, / may not be a mount point, and its propagation cannot be changed.
        self.own_mounts = (["-m"] if self.server_host.shell("unshare -m true")
                           else ["-m", "--propagation", "unchanged"])
        self.small = self.file("small", 1000)
        self.big = self.file("big", 12 << 20)

    def serve_small(self, directory, *arguments):
        run = self.start(self.server_host, *self.own_mounts, "sh", "-ec", ON_SMALL_DISK, "sh",
                         "1m", directory, self.small, POLLUX, "serve",
                         *self.place(self.server_port, self.server_address), "--root", self.root,
                         "--json", *arguments, program="unshare")
        run.wait_for_line("^serving ")
        return run

    def names(self):
        return sorted(entry["name"] for entry in self.asked("ls")["entries"])

    def check_a_put_fails(self, name):
        self.assert_one_line(self.client("put", self.big, name), 1, "no space left")
        self.asked("get", "small", self.directory / "got")
        self.assertEqual((self.directory / "got").read_bytes(), self.small.read_bytes())

    def test_a_full_disk_fails_writes_only(self):
        self.server = self.serve_small(self.root)
        self.check_a_put_fails("big")
        self.remember_costs()
        for number in range(3):
            self.check_a_put_fails(f"big{number}")
        self.assertIn("small", self.names())
        self.check_costs("3 failed writes of 12 MiB")
        self.stop(self.server)

    def test_a_full_disk_makes_a_capture_incomplete(self):
        place = self.directory / "captures"
        place.mkdir()
        self.server = self.serve_small(place, "--capture", place / "c.pcapng")
        self.put_and_get(2 << 20)
        self.remember_costs()
        for _ in range(2):
            self.put_and_get(9 << 20)
        self.check_costs("36 MiB not captured")
        self.server.interrupt()
        self.assertIn("capture", self.server.stderr)
        self.assertIn("incomplete", self.server.stderr)
