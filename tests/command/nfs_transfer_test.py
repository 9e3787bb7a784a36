"""Tests pollux nfs with pollux nfsd: transfers, errors, loss, restarts, and a power failure."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from tests.command.exports import Exported
from tests.command.harness import SERVER, wait_for

MIB = 1 << 20
USER = 4321


class NfsOnNfsd(Exported):
    def setUp(self):
        super().setUp()
        self.export.chmod(0o777)

    def nfs_argv(self, command, *operands, path="", options=()):
        """Returns a command line; `put` has its operands before the URL, `get` after it."""
        url = f"nfs://{SERVER}{self.export}/{path}"
        order = (*operands, url) if command == "put" else (url, *operands)
        return ("nfs", command, "--netdev", "wire", "--idle", "sleep", "--uid", USER, "--gid", USER,
                "--timeout-ms", "60000", *options, *order)

    def nfs(self, command, *operands, **keywords):
        """Returns the JSON object of a command, which must succeed."""
        argv = self.nfs_argv(command, *operands, **keywords)
        run = self.finish(self.client_host, *argv[:2], "--json", *argv[2:])
        self.assertEqual(run.process.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def refused(self, words, *arguments, **keywords):
        run = self.finish(self.client_host, *self.nfs_argv(*arguments, **keywords))
        self.assert_one_line(run, 1, words)


class NfsTransferTest(NfsOnNfsd):
    def there_and_back(self, size, options=()):
        sent, name = self.file(f"sent{size}", size), f"file{size}"
        put = self.nfs("put", sent, path=name, options=options)
        self.assertEqual((self.export / name).read_bytes(), sent.read_bytes())
        got = self.directory / f"got{size}"
        self.assertEqual(self.nfs("get", got, path=name, options=options)["sha256"],
                         put["sha256"])
        self.assertEqual(got.read_bytes(), sent.read_bytes())
        return put

    def come(self):
        """Returns the number of bytes of the files in the export."""
        return sum(path.stat().st_size for path in self.export.iterdir())

    def test_files_are_put_got_listed_and_removed(self):
        server = self.nfsd("--json")
        for size in (0, 1, 4097, MIB + 5):
            self.there_and_back(size)
        (self.export / "link").symlink_to("file1")
        (self.export / "dir").mkdir()
        listed = {entry["name"]: entry for entry in self.nfs("ls")["entries"]}
        self.assertEqual(set(listed), {"file0", "file1", "file4097", f"file{MIB + 5}", "link",
                                       "dir"})
        self.assertEqual(listed["link"]["target"], "file1")
        self.assertEqual(listed["file4097"]["uid"], USER)
        self.assertEqual(self.nfs("stat", path="file4097")["size"], 4097)
        self.nfs("rm", path="link")
        self.nfs("rm", path="file1")
        self.assertFalse((self.export / "file1").exists())
        self.stop(server)

    def test_errors_name_the_nfs_status(self):
        server = self.nfsd("--json")
        (self.export / "secret").write_text("secret")
        (self.export / "secret").chmod(0o600)
        local = self.file("local", 10)
        self.refused("NFS3ERR_NOENT", "get", path="none")
        self.refused("NFS3ERR_ACCES", "get", path="secret")
        self.export.chmod(0o755)
        self.refused("NFS3ERR_ACCES", "put", local, path="new")
        self.refused("NFS3ERR_ACCES", "rm", path="secret")
        self.stop(server)
        server = self.nfsd("--json", export=f"{self.export}:ro")
        self.refused("NFS3ERR_ROFS", "put", local, path="new")
        self.stop(server)
        server = self.nfsd("--json", export=f"{self.export}:rw,clients=10.0.0.9")
        self.refused("permission denied", "ls")
        self.stop(server)

    def test_a_transfer_survives_a_killed_server(self):
        server = self.nfsd("--json")
        sent = self.file("sent", 16 * MIB)
        # The wire is so lossy that the transfer takes long.
        argv = self.nfs_argv("put", sent, path="file", options=("--impair", "loss=0.1,seed=1"))
        put = self.start(self.client_host, *argv[:2], "--json", *argv[2:])
        wait_for("data", lambda: put.process.poll() is not None or self.come() > 2 * MIB)
        self.assertIsNone(put.process.poll(), "it was done too soon to be disturbed")
        server.interrupt(signal.SIGKILL)
        server = self.nfsd("--json")
        self.assertEqual(put.wait(), 0, put.stderr)
        self.assertGreater(json.loads(put.stdout)["reconnects"], 0)
        with open(self.export / "file", "rb") as there, open(sent, "rb") as here:
            while block := here.read(MIB):
                self.assertEqual(there.read(MIB), block)
            self.assertEqual(there.read(1), b"")
        self.stop(server)

    def test_transfers_survive_packet_loss(self):
        server = self.nfsd("--json", "--impair", "loss=0.01,seed=1")
        self.there_and_back(8 * MIB, options=("--impair", "loss=0.01,seed=2"))
        self.assertGreater(self.stop(server)["retransmitted_packets"], 0)


class PowerFailureTest(NfsOnNfsd):
    """An export on its own file system, in an image file.

    A copy of that file holds the data that a power failure at the moment of copying would leave.

    Source: RFC 1813 section 4.8.
    """

    def setUp(self):
        super().setUp()
        self.mount_points = []
        self.addCleanup(self.unmount)
        mkfs = shutil.which("mkfs.ext4")
        if mkfs is None:
            raise unittest.SkipTest("needs the command mkfs.ext4")
        self.image = self.directory / "image"
        with open(self.image, "wb") as file:
            file.truncate(64 * MIB)
        subprocess.run([mkfs, "-q", self.image], check=True)
        self.mount(self.image, self.export)
        self.export.chmod(0o777)

    def mount(self, image, point):
        # With commit=3600 the file system stores nothing just because time has passed.
        done = subprocess.run(["mount", "-o", "loop,commit=3600", image, point], check=False,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest(f"needs loop devices and the right to mount: {done.stderr}")
        self.mount_points.append(point)

    def unmount(self):
        for point in reversed(self.mount_points):
            subprocess.run(["umount", "-l", point], check=False)

    def left(self):
        """Returns {name: content} of the files that a power failure at this moment would leave."""
        # With a name of its own: an earlier copy's loop device may still exist after umount, and
        # mount would use it again for a file of the same name, with its old content.
        point = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        copy = point.with_suffix(".image")
        shutil.copyfile(self.image, copy)
        self.mount(copy, point)
        left = {path.name: path.read_bytes() for path in point.iterdir() if path.is_file()}
        subprocess.run(["umount", self.mount_points.pop()], check=True)
        return left

    def test_answered_writes_survive_a_power_failure(self):
        server = self.nfsd("--json")
        sent = self.file("sent", 100_001)
        self.nfs("put", sent, path="file")
        # A local write without a sync is lost. If it survived, the file of `put` would prove
        # nothing.
        unsynced = self.export / "unsynced"
        unsynced.write_bytes(b"text")
        self.assertEqual(self.left(), {"file": sent.read_bytes()})
        unsynced.unlink()
        self.nfs("rm", path="file")
        self.assertEqual(self.left(), {})
        self.stop(server)


if __name__ == "__main__":
    unittest.main()
