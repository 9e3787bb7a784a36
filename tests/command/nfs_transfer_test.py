"""pollux nfs on pollux nfsd: files there and back, errors, loss, restarts, a power failure, and a
file system that stalls."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import unittest

from tests.command.exports import Exported
from tests.command.harness import SERVER, Host, wait_for

MIB = 1 << 20
USER = 4321
STORAGE_THREADS = 8  # of each export (nfs/server/storage.h)
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
# Where Debian has what only root needs.
SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"


class NfsOnNfsd(Exported):
    def setUp(self):
        super().setUp()
        self.export.chmod(0o777)

    def nfs_argv(self, command, *operands, path="", options=(), export=None):
        """Operands before the URL are a put's, those behind it a get's."""
        url = f"nfs://{SERVER}{export or self.export}/{path}"
        order = (*operands, url) if command == "put" else (url, *operands)
        return ("nfs", command, "--netdev", "wire", "--uid", USER, "--gid", USER,
                "--timeout-ms", "60000", *options, *order)

    def nfs(self, command, *operands, **keywords):
        """Its JSON object; it must succeed."""
        argv = self.nfs_argv(command, *operands, **keywords)
        run = self.finish(self.client_host, *argv[:2], "--json", *argv[2:])
        self.assertEqual(run.process.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def refused(self, words, *arguments, **keywords):
        run = self.finish(self.client_host, *self.nfs_argv(*arguments, **keywords))
        self.assert_one_line(run, 1, words)

    def there_and_back(self, size, export=None, **keywords):
        sent, name = self.file(f"sent{size}", size), f"file{size}"
        put = self.nfs("put", sent, path=name, export=export, **keywords)
        self.assertEqual(((export or self.export) / name).read_bytes(), sent.read_bytes())
        got = self.directory / f"got{size}"
        self.assertEqual(self.nfs("get", got, path=name, export=export, **keywords)["sha256"],
                         put["sha256"])
        self.assertEqual(got.read_bytes(), sent.read_bytes())


class NfsTransferTest(NfsOnNfsd):
    def come(self):
        """Bytes of files in the export."""
        return sum(path.stat().st_size for path in self.export.iterdir())

    def test_files(self):
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

    def test_errors(self):
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

    def test_server_killed_in_mid_transfer(self):
        server = self.nfsd("--json")
        sent = self.file("sent", 128 * MIB)
        argv = self.nfs_argv("put", sent, path="file")
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

    def test_loss(self):
        server = self.nfsd("--json", "--impair", "loss=0.01,seed=1")
        self.there_and_back(8 * MIB, options=("--impair", "loss=0.01,seed=2"))
        self.assertGreater(self.stop(server)["retransmitted_packets"], 0)


class OnItsOwnFileSystem(NfsOnNfsd):
    """An export on a file system that is the test's own."""

    def setUp(self):
        super().setUp()
        self.mount_points = []
        self.addCleanup(self.unmount)
        mkfs = shutil.which("mkfs.ext4", path=SYSTEM_PATH)
        if mkfs is None:
            raise unittest.SkipTest("needs the command mkfs.ext4")
        self.image = self.directory / "image"
        with open(self.image, "wb") as file:
            file.truncate(64 * MIB)
        subprocess.run([mkfs, "-q", self.image], check=True)
        self.mount(self.image, self.export)
        self.export.chmod(0o777)

    def mount(self, image, point):
        # Nothing is stored because a while has passed.
        done = subprocess.run(["mount", "-o", "loop,commit=3600", image, point], check=False,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest(f"needs loop devices and the right to mount: {done.stderr}")
        self.mount_points.append(point)

    def unmount(self):
        for point in reversed(self.mount_points):
            subprocess.run(["umount", "-l", point], check=False)


class PowerFailureTest(OnItsOwnFileSystem):
    """What a power failure leaves is a copy of the file system."""

    def left(self):
        """What is there after a power failure at this moment, by name."""
        copy = self.directory / "copy"
        shutil.copyfile(self.image, copy)
        point = self.directory / "left"
        point.mkdir(exist_ok=True)
        self.mount(copy, point)
        left = {path.name: path.read_bytes() for path in point.iterdir() if path.is_file()}
        subprocess.run(["umount", self.mount_points.pop()], check=True)
        return left

    def test_what_is_answered_is_stored(self):
        server = self.nfsd("--json")
        sent = self.file("sent", 100_001)
        self.nfs("put", sent, path="file")
        # What nobody has answered for is lost: without this the other would prove nothing.
        unsynced = self.export / "unsynced"
        unsynced.write_bytes(b"text")
        self.assertEqual(self.left(), {"file": sent.read_bytes()})
        unsynced.unlink()
        self.nfs("rm", path="file")
        self.assertEqual(self.left(), {})
        self.stop(server)


class StalledFileSystemTest(OnItsOwnFileSystem):
    """Who changes a frozen file system waits, in whatever call that is."""

    def setUp(self):
        super().setUp()
        self.other = self.directory / "other"
        self.other.mkdir()
        self.other.chmod(0o777)

    def freeze(self):
        folder = os.open(self.export, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        fcntl.ioctl(folder, FIFREEZE, 0)

        def thaw():
            nonlocal folder
            if folder is not None:
                fcntl.ioctl(folder, FITHAW, 0)
            folder = None

        self.addCleanup(thaw)
        return thaw

    def calls(self, server):
        """How many calls it has answered, and how many it has not."""
        def asked():
            told = self.finish(Host(), "stat", "--json", "--pid", server.process.pid)
            return told.process.returncode == 0 and json.loads(told.stdout)["processes"]

        process, = wait_for("an answer of the server's", asked)
        nfs = process["workers"][0]["nfs"]
        return sum(nfs[name] for name in nfs if name.startswith("calls/")), nfs["busy"]

    def leave_waiting(self, server, name, calls):
        """A client that makes so many calls to remove a file leaves while the last one stalls."""
        answered, busy = self.calls(server)
        client = self.start(self.client_host, *self.nfs_argv("rm", path=name))
        wait_for("a call that stalls",
                 lambda: self.calls(server) == (answered + calls - 1, busy + 1))
        self.assertIsNone(client.process.poll(), client.stderr)
        client.interrupt(signal.SIGKILL)

    def test_other_calls_go_on(self):
        server = self.nfsd("--json", "--export", f"{self.other}:rw")
        names = [f"file{number}" for number in range(STORAGE_THREADS)]
        for name in ("first", *names):
            (self.export / name).write_bytes(bytes(MIB))
        before, _ = self.calls(server)
        self.nfs("rm", path="first")
        calls = self.calls(server)[0] - before
        thaw = self.freeze()
        for name in names[:-1]:
            self.leave_waiting(server, name, calls)
        # Who changes nothing needs but a thread that is left.
        self.assertEqual({entry["name"] for entry in self.nfs("ls")["entries"]},
                         {*names, "lost+found"})
        self.assertEqual(self.nfs("get", self.directory / "got", path=names[0])["bytes"], MIB)
        self.leave_waiting(server, names[-1], calls)
        for size in (0, 4097, MIB + 5):
            self.there_and_back(size, export=self.other)
        self.assertEqual(len(self.nfs("ls", export=self.other)["entries"]), 3)
        self.assertEqual(self.calls(server)[1], STORAGE_THREADS)
        thaw()
        wait_for("what was waited for", lambda: self.calls(server)[1] == 0)
        self.assertEqual(os.listdir(self.export), ["lost+found"])
        self.there_and_back(MIB)
        self.stop(server)


if __name__ == "__main__":
    unittest.main()
