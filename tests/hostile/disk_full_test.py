"""Tests a server whose disk is full: the disk of its files, or that of its capture."""

import shutil

from tests.command.harness import POLLUX
from tests.command.networks import TwoHosts

# Mounts a disk of size $1 at the directory $2, copies the file $3 to it, and runs the other
# arguments.
ON_SMALL_DISK = 'mount -t tmpfs -o size="$1" none "$2"; cp "$3" "$2"; shift 3; exec "$@"'


class DiskFullTest(TwoHosts):
    server_port = client_port = "net_af_packet0,iface=wire"

    def setUp(self):
        super().setUp()
        if shutil.which("unshare") is None:
            self.skipTest("needs the command unshare")
        # In a chroot, / may not be a mount point, and its propagation cannot be changed.
        self.own_mounts = (["-m"] if self.server_host.shell("unshare -m true")
                           else ["-m", "--propagation", "unchanged"])
        self.small = self.file("small", 1000)
        self.big = self.file("big", 3 << 20)

    def serve_small(self, directory, *arguments):
        run = self.start(self.server_host, *self.own_mounts, "sh", "-ec", ON_SMALL_DISK, "sh",
                         "1m", directory, self.small, POLLUX, "serve",
                         *self.place(self.server_port, self.server_address), "--root", self.root,
                         "--json", *arguments, program="unshare")
        run.wait_for_line("^serving ")
        return run

    def names(self):
        return sorted(entry["name"] for entry in self.asked("ls")["entries"])

    def test_a_full_disk_fails_writes_only(self):
        server = self.serve_small(self.root)
        for number in range(5):
            self.assert_one_line(self.client("put", self.big, f"big{number}"), 1, "no space left")
            self.asked("get", "small", self.directory / "got")
            self.assertEqual((self.directory / "got").read_bytes(), self.small.read_bytes())
        self.assertIn("small", self.names())
        self.stop(server)

    def test_a_full_disk_makes_a_capture_incomplete(self):
        place = self.directory / "captures"
        place.mkdir()
        server = self.serve_small(place, "--capture", place / "c.pcapng")
        for _ in range(3):
            self.put_and_get(2 << 20)
        server.interrupt()
        self.assertIn("capture", server.stderr)
        self.assertIn("incomplete", server.stderr)
