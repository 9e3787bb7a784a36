"""Linux's NFS client on a directory that Pollux serves: mount, work, look at what came of it."""

import hashlib
import os
import re
import signal
import stat

from case import TO_POLLUX, case, need

SERVICE_PORT, MOUNT_PORT = 20049, 20048
MOUNT_POINT = "/mnt"
USER = 1234
MIB = 1 << 20
# Around what fits a message, a page, a packet and a READ or WRITE; the largest last.
SIZES = (0, 1, 1000, 4095, 4096, 4097, 65_537, MIB, MIB + 1, 3 * MIB + 5)
WANTS = [("linux", "REQ"), ("pollux", "REP"), ("linux", "RTU"), ("linux", "RC SEND ONLY"),
         ("pollux", "RC SEND ONLY")]
# Bulk data go by RDMA READ of what the client writes and RDMA WRITE of what it reads.
BULK = WANTS + [("pollux", "RC READ REQUEST"), ("pollux", "RC WRITE FIRST")]


class Served:
    """pollux nfsd with a directory of the bench's own, and what the guest does to it."""

    def __init__(self, bench, options="", export=None, arguments=()):
        self.bench = bench
        self.root = export or bench.folder / "export"
        self.root.mkdir(exist_ok=True)
        self.root.chmod(0o777)
        self.options = options
        self.arguments = arguments
        self.process = None
        self.start()

    def start(self):
        bench = self.bench
        self.process = bench.program(
            "nfsd", bench.tools["pollux"], "nfsd", "--port", bench.port.devargs, "--address",
            f"{bench.port.address}/24", "--mac", bench.port.mac, "--kernel-path", "plxk",
            "--export", f"{self.root}:rw,no_root_squash{self.options}", "--key-file",
            bench.folder / "nfsd.key", "--json", *self.arguments)
        self.process.wait_for_line("^serving NFS", bench.deadline)
        bench.deadline.wait_for("the port on the bridge", bench.port.plugged)

    def mount_command(self, options=""):
        """What the server says is to be typed."""
        told = re.search(r": (mount -t nfs .*) /mnt$", self.process.stderr, re.MULTILINE)
        need(told, f"no mount command among: {self.process.stderr}")
        return told[1].replace(" -o ", f" -o {options}") + f" {MOUNT_POINT}"

    def mount(self, options="hard,"):
        self.guest(self.mount_command(options))

    def unmount(self):
        self.guest(f"umount {MOUNT_POINT}")

    def guest(self, script):
        """Runs a script in the guest that must succeed."""
        return self.bench.guest.run(f"set -e; mkdir -p {MOUNT_POINT}; {script}",
                                    self.bench.deadline)

    def checksum(self, name):
        with open(self.root / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() \
                if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()

    def guest_checksums(self, *names):
        """What the guest reads from the server: its cache is dropped first."""
        text = self.guest("echo 3 >/proc/sys/vm/drop_caches; "
                          f"cd {MOUNT_POINT}; sha256sum {' '.join(names)}")
        return {line.split()[1]: line.split()[0] for line in text.splitlines()}

    def same(self, *names):
        """That both sides see the same bytes in these files."""
        for name, digest in self.guest_checksums(*names).items():
            need(digest == self.checksum(name), f"{name} differs")

    def stop(self):
        """Its end, in good order: what it says of itself."""
        self.process.signal(signal.SIGINT)
        return self.bench.pollux_json(self.process)


@case("nfsd-files", directions=(TO_POLLUX,), wants=BULK, deadline_s=300)
def nfsd_files(bench):
    """Files of many sizes written and read back, with the command that the server says to type."""
    served = Served(bench)
    served.mount()
    names = [f"file{size}" for size in SIZES]
    served.guest(f"cd {MOUNT_POINT}; " + "".join(
        f"head -c {size} /dev/urandom >{name};" for name, size in zip(names, SIZES)) + "sync")
    for name, size in zip(names, SIZES):
        need((served.root / name).stat().st_size == size, f"{name} has another size")
    served.same(*names)
    served.unmount()
    answer = served.stop()
    need(answer["bytes_written"] >= sum(SIZES) and answer["bytes_read"] >= sum(SIZES), f"{answer}")
