"""Tests pollux nfsd from the operator's and from the clients' side."""

import contextlib
import ctypes
import json
import os
import re
import select
import shlex
import signal
import socket
import struct
import unittest

from tests.command.exports import Exported
from tests.command.harness import (CLIENT, POLLUX, ROCE_PORT, SERVER, TIMEOUT_S, Host,
                                   wait_for)

RPC_VERSION = 2
PORTMAP_PROGRAM, PORTMAP_V2, PORTMAP_PORT, GETPORT = 100000, 2, 111, 3
MOUNT_PROGRAM, MOUNT_V3, MOUNT_PORT, MNT, EXPORT = 100005, 3, 20048, 1, 5
NLM_PROGRAM, NLM_V4, LOCK, SHARE = 100021, 4, 2, 20
NLM4_GRANTED, NLM4_STALE_FH, NLM4_FAILED = 0, 7, 9
NSM_PROGRAM, NSM_V1, NSM_PORT, NOTIFY = 100024, 1, 662, 6
TCP, UDP = 6, 17
AUTH_SYS = 1
FUSE_VERSION, FUSE_MINOR_VERSION, FUSE_MIN_READ_BUFFER = 7, 31, 8192
MNT_DETACH = 2


def exchange_tcp(host, port, message):
    with host.entered():
        connection = socket.create_connection((SERVER, port), TIMEOUT_S)
    with connection:
        connection.sendall(struct.pack(">I", 1 << 31 | len(message)) + message)
        with connection.makefile("rb") as reader:
            size = struct.unpack(">I", reader.read(4))[0] & 0x7FFFFFFF
            return reader.read(size)


def exchange_udp(host, port, message):
    with host.entered():
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with end:
        end.settimeout(TIMEOUT_S)
        # The socket receives only from the address that was asked.
        end.connect((SERVER, port))
        end.send(message)
        return end.recv(1 << 16)


def call(host, port, program, version, procedure, arguments=b"", credential=(0, b""),
         exchange=exchange_tcp):
    """Calls a procedure of the server and returns its results."""
    flavor, body = credential
    header = struct.pack(">8I", 7, 0, RPC_VERSION, program, version, procedure, flavor, len(body))
    reply = exchange(host, port, header + body + bytes(8) + arguments)
    xid, kind, denied, _, _, accepted = struct.unpack(">6I", reply[:24])
    assert (xid, kind, denied, accepted) == (7, 1, 0, 0), reply
    return reply[24:]


def mount_call(host, procedure, arguments=b""):
    return call(host, MOUNT_PORT, MOUNT_PROGRAM, MOUNT_V3, procedure, arguments)


def port_of(host, program, version, protocol=TCP):
    """Returns the port from the server's portmapper, asked by `protocol`; 0 if there is none."""
    arguments = struct.pack(">4I", program, version, protocol, 0)
    exchange = exchange_tcp if protocol == TCP else exchange_udp
    return struct.unpack(">I", call(host, PORTMAP_PORT, PORTMAP_PROGRAM, PORTMAP_V2, GETPORT,
                                    arguments, exchange=exchange))[0]


def lock_call(host, port, handle):
    """Requests an exclusive lock on a whole file as root and returns the status."""
    lock = (xdr_string("guest") + xdr_string(handle) + xdr_string("owner")
            + struct.pack(">IQQ", 7, 0, 0))
    answer = call(host, port, NLM_PROGRAM, NLM_V4, LOCK,
                  xdr_string("cookie") + struct.pack(">2I", 0, 1) + lock + bytes(8),
                  (AUTH_SYS, bytes(20)))
    return struct.unpack(">I", answer[-4:])[0]


def handle_of(mounted):
    """Returns the file handle in the results of MNT."""
    size, = struct.unpack(">I", mounted[4:8])
    return mounted[8:8 + size]


def share_call(host, port, handle, owner="owner"):
    """Requests a share that denies nothing and returns the status."""
    answer = call(host, port, NLM_PROGRAM, NLM_V4, SHARE,
                  xdr_string("cookie") + xdr_string("guest") + xdr_string(handle)
                  + xdr_string(owner) + struct.pack(">3I", 0, 1, 0), (AUTH_SYS, bytes(20)))
    return struct.unpack(">I", answer[-8:-4])[0]


def xdr_string(text):
    data = os.fsencode(text)
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


class Mounting(Exported):
    """A server whose exports the test mounts."""

    def mount(self, path):
        """Mounts `path`; returns the status and the results with the root's handle."""
        answer = mount_call(self.client_host, MNT, xdr_string(path))
        status, = struct.unpack(">I", answer[:4])
        return status, answer[4:] if status == 0 else b""


@contextlib.contextmanager
def silent_file_system(directory):
    """Mounts a FUSE file system that answers nothing once it is mounted. Yields its device, which
    is readable when a request waits. If the request were read, the process that waits for its
    answer could not be killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        raise unittest.SkipTest(f"needs FUSE: {error}") from None
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
        if libc.mount(b"silent", os.fsencode(directory), b"fuse", 0, options.encode()) != 0:
            raise unittest.SkipTest(f"needs FUSE: mount: {os.strerror(ctypes.get_errno())}")
        try:
            _, _, unique = struct.unpack_from("=IIQ", os.read(device, FUSE_MIN_READ_BUFFER))
            version = struct.pack("=2I", FUSE_VERSION, FUSE_MINOR_VERSION)
            os.write(device, struct.pack("=IiQ", 16 + 64, 0, unique) + version + bytes(56))
            yield device
        finally:
            libc.umount2(os.fsencode(directory), MNT_DETACH)
    finally:
        os.close(device)


class ExportsFileTest(Mounting):
    def setUp(self):
        super().setUp()
        self.other = self.directory / "the other"
        self.other.mkdir()
        self.file = self.directory / "exports"

    def reload(self, server, text, answer):
        """Replaces the file, and waits for the line that the server logs after SIGHUP."""
        before = len(server.stderr)
        self.file.write_text(text, encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        wait_for(f"'{answer}'", lambda: re.search(answer, server.stderr[before:]))

    def put(self, name):
        """Puts a file into the export and returns the run."""
        source = self.directory / "source"
        source.write_text("text", encoding="utf-8")
        return self.finish(self.client_host, "nfs", "put", "--netdev", "wire", *self.idle, source,
                           f"nfs://{SERVER}{self.export}/{name}")

    def holds_open(self, server, directory):
        descriptors = f"/proc/{server.process.pid}/fd"
        for one in os.listdir(descriptors):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if os.readlink(f"{descriptors}/{one}") == str(directory):
                    return True
        return False

    def test_sighup_replaces_the_exports_and_keeps_connections(self):
        self.export.chmod(0o777)
        self.file.write_text(f"{self.export} {CLIENT}(rw,async) 10.0.0.0/24\n", encoding="utf-8")
        server = self.nfsd(exports=self.file)
        self.assertIn(f"{self.file}:1: option 'async' has no effect", server.stderr)
        self.assertIn(f"{self.export}, read-write for some clients: mount", server.stderr)
        self.assertEqual(self.put("first").process.returncode, 0)
        server.wait_for_line(" gone$")
        before = len(server.stderr)
        connected = self.start(self.client_host, *self.client_argv(
            "ping", options=("--program", "100003", "--version", "3", "-i", "0.05")))
        peer, = wait_for("a connection", lambda: re.findall(
            r"^(\S+) connected", server.stderr[before:], re.MULTILINE))
        wait_for("an answer", lambda: "seq=1" in connected.stdout)
        self.assertTrue(self.holds_open(server, self.export))

        # Fewer rights, and another export.
        self.reload(server, f'{self.export} *(ro)\n"{self.other}" {CLIENT}\n',
                    "SIGHUP: serving 2 exports")
        self.assertEqual(self.mount(str(self.other))[0], 0)

        # An invalid file gets one error line, and the exports stay as they are.
        before = len(server.stderr)
        self.reload(server, f"{self.export} *(rw)\n\n{self.other} *(rw)\n", "nothing changed")
        self.assertIn(f"pollux nfsd: SIGHUP: nothing changed: {self.file}:3: ",
                      server.stderr[before:])
        self.assertEqual(self.mount(str(self.other))[0], 0)
        before = len(server.stderr)
        self.reload(server, "/none *(async)\n", "nothing changed: export /none: No such file")
        self.assertIn(f"{self.file}:1: option 'async' has no effect", server.stderr[before:])
        self.assertNotIn(f"{peer} gone", server.stderr)
        self.assertEqual(connected.interrupt(), 0, connected.stderr)
        server.wait_for_line(f"^{re.escape(peer)} gone")
        self.assertRegex(self.put("second").stderr, "(?i)read-only|ROFS")

        # An export that is removed is not kept open.
        self.reload(server, f'"{self.other}" {CLIENT}\n', "SIGHUP: serving 1 exports")
        self.assertEqual(self.mount(str(self.export))[0], 13)
        wait_for("the removed export to be closed",
                 lambda: not self.holds_open(server, self.export))
        self.reload(server, "", "SIGHUP: serving 0 exports")
        self.assertEqual(self.mount(str(self.other))[0], 13)

        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_users_are_squashed_as_the_file_says(self):
        self.export.chmod(0o777)
        self.file.write_text(f"{self.export} -rw,all_squash,anonuid=4711,anongid=4712 {CLIENT}\n",
                             encoding="utf-8")
        server = self.nfsd(exports=self.file)
        self.assertEqual(self.put("put").process.returncode, 0)
        made = (self.export / "put").stat()
        self.assertEqual((made.st_uid, made.st_gid), (4711, 4712))
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_systemd_is_told_of_a_reload(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(self.directory / "notify"))
            manager.settimeout(TIMEOUT_S)
            self.file.write_text(f"{self.export} *\n", encoding="utf-8")
            server = self.nfsd(exports=self.file,
                               environment={"NOTIFY_SOCKET": str(self.directory / "notify")})
            self.assertEqual(manager.recv(4096), b"READY=1")
            for text in (f"{self.export} *(rw)\n", "invalid\n"):
                self.reload(server, text, "SIGHUP: ")
                self.assertRegex(manager.recv(4096), rb"^RELOADING=1\nMONOTONIC_USEC=\d+$")
                self.assertEqual(manager.recv(4096), b"READY=1")
            self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_a_directory_that_cannot_be_opened_delays_only_the_reload(self):
        self.file.write_text(f"{self.export} *\n", encoding="utf-8")
        server = self.nfsd(exports=self.file)
        with silent_file_system(self.other) as device:
            self.file.write_text(f'"{self.other}" *\n', encoding="utf-8")
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(select.select([device], [], [], TIMEOUT_S)[0])
            self.assertEqual(self.mount(str(self.export))[0], 0)
            self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_an_invalid_file_gets_one_error_line(self):
        run = self.finish(self.server_host, *self.nfsd_argv(exports=self.file))
        self.assert_one_line(run, 1, str(self.file), "No such file")
        self.file.write_text("# nothing\n/srv *(sec=krb5)\n", encoding="utf-8")
        run = self.finish(self.server_host, *self.nfsd_argv(exports=self.file))
        self.assert_one_line(run, 2, f"{self.file}:2: ", "sec=krb5")
        run = self.finish(self.server_host, *self.nfsd_argv("--export", self.export,
                                                            exports=self.file))
        self.assert_one_line(run, 2, "--export", "--exports")


class NfsdTest(Mounting):
    def test_idle_worker_sleeps(self):
        server = self.nfsd()
        self.assert_sleeps_when_idle(server)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_shows_the_mount_command_and_serves(self):
        server = self.nfsd("--json")
        self.assertIn(f"mount -t nfs -o vers=3,proto=rdma,port=20049 {SERVER}:{self.export} /mnt",
                      server.stderr)
        status, root = self.mount(str(self.export))
        self.assertEqual(status, 0)
        self.assertEqual(self.mount("/")[0], 13)
        self.assertEqual(self.mount(f"{self.export}/none")[0], 2)
        self.assertIn(os.fsencode(str(self.export)), mount_call(self.client_host, EXPORT))
        ping = self.client("ping", options=("--program", "100003", "--version", "3", "--count",
                                            "5"))
        self.assertEqual(ping.process.returncode, 0, ping.stderr)
        self.assert_one_line(self.client("ping"), 1, "--program 100003 --version 3 asks for NFS")
        (process,) = self.told("stat", "--pid", server.process.pid)
        (worker,) = process["workers"]
        self.assertEqual(worker["nfs"]["calls/null"], 5)
        self.assertEqual(worker["nfs"]["failures/null"], 0)
        shown = self.answered("stat", "--pid", server.process.pid)
        self.assertRegex(shown.stdout, r"calls/null +5")
        answer = self.stop(server)
        self.assertEqual(answer["calls"], 5)
        # Handles are the same after a restart and do not depend on the list of mounts.
        server = self.nfsd("--json")
        self.assertEqual(self.mount(str(self.export)), (0, root))
        self.stop(server)

    def test_the_mount_command_is_quoted_for_a_shell(self):
        export = self.directory / "it's two words"
        export.mkdir()
        server = self.nfsd(export=f"{export}:rw")
        (command,) = re.findall("mount -t nfs .*", server.stderr)
        self.assertEqual(shlex.split(command)[-2:], [f"{SERVER}:{export}", "/mnt"])
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_a_refused_mount_is_logged_once(self):
        server = self.nfsd()
        for _ in range(2):
            self.assertEqual(self.mount("/etc")[0], 13)
            self.assertEqual(self.mount(f"{self.export}/none")[0], 2)
        server.wait_for_line("none.*NFS3ERR_NOENT")
        self.assertEqual(server.interrupt(), 0, server.stderr)
        self.assertEqual(re.findall(f"{CLIENT} may not mount .*", server.stderr), [
            f'{CLIENT} may not mount "/etc": nothing is exported there',
            f'{CLIENT} may not mount "{self.export}/none": no such file or directory '
            "(NFS3ERR_NOENT)"])

    def test_sighup_does_not_end_the_server(self):
        server = self.nfsd("--json")
        for count in (1, 2):
            server.process.send_signal(signal.SIGHUP)
            wait_for("what SIGHUP does", lambda: server.stderr.count("SIGHUP: ignored") == count)
        self.assertEqual(self.mount(str(self.export))[0], 0)
        self.stop(server)

    def test_missing_capabilities_are_named(self):
        run = self.finish(Host(), "--bounding-set=-all", "--inh-caps=-all", POLLUX,
                          *self.nfsd_argv(), program="setpriv")
        self.assert_one_line(run, 1, "needs root", "CAP_SETUID")
        self.assertFalse((self.directory / "key").exists())

    def test_the_server_starts_while_the_interface_has_no_address(self):
        """Removes the addresses during the start: before nfsd shows them, or later if busy."""
        server = self.start(self.server_host, *self.nfsd_argv())
        holds_port = f"grep -q ':{ROCE_PORT:04X} ' /proc/net/udp"
        wait_for("its UDP port", lambda: server.process.poll() is not None
                 or self.server_host.shell(holds_port))
        self.assertTrue(self.server_host.shell("ip addr flush dev wire"))
        server.wait_for_line("^serving NFS ")
        self.assertTrue(self.server_host.shell(f"ip addr add {SERVER}/24 dev wire"))
        ping = self.client("ping", options=("--program", "100003", "--version", "3"))
        self.assertEqual(ping.process.returncode, 0, ping.stderr)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_portmap_finds_the_lock_service(self):
        server = self.nfsd("--json", "--lock-port", "4046")
        self.assertEqual(port_of(self.client_host, MOUNT_PROGRAM, MOUNT_V3), MOUNT_PORT)
        self.assertEqual(port_of(self.client_host, NLM_PROGRAM, NLM_V4), 4046)
        self.assertEqual(port_of(self.client_host, NLM_PROGRAM, 3), 0)
        # The handle of a directory is known, but a directory cannot be locked.
        handle = self.mount(str(self.export))[1]
        size, = struct.unpack(">I", handle[:4])
        known = handle[4:4 + size]
        self.assertEqual(lock_call(self.client_host, 4046, known), NLM4_FAILED)
        forged = known[:-1] + bytes([known[-1] ^ 1])
        self.assertEqual(lock_call(self.client_host, 4046, forged), NLM4_STALE_FH)
        self.stop(server)

    def test_a_client_with_a_link_local_address_is_called_after_a_restart(self):
        for host, address in ((self.server_host, "fe80::1"), (self.client_host, "fe80::2")):
            self.assertTrue(host.shell(f"ip addr add {address}/64 dev wire nodad"))
        locks = self.directory / "locks"
        locks.write_text("state 1\nhost fe80::2\n", encoding="utf-8")
        with self.client_host.entered():
            rpcbind = socket.create_server(("::", PORTMAP_PORT), family=socket.AF_INET6)
        with rpcbind:
            rpcbind.settimeout(TIMEOUT_S)
            server = self.nfsd("--json", "--lock-file", locks)
            # nfsd asks for the status monitor's port.
            rpcbind.accept()[0].close()
        self.stop(server)

    def test_locks_are_listed_and_dropped(self):
        server = self.nfsd("--json")

        def run(*arguments):
            return self.answered("locks", "--pid", server.process.pid, *arguments)

        def locks():
            process, = json.loads(run("--json").stdout)["processes"]
            return process["locks"]

        self.assertEqual(locks(), [])
        handle = self.mount(str(self.export))[1]
        size, = struct.unpack(">I", handle[:4])
        self.assertEqual(share_call(self.client_host, 4045, handle[4:4 + size]), NLM4_GRANTED)
        self.assertEqual(locks(), [{"address": CLIENT, "name": "guest", "files": 0, "ranges": 0,
                                    "awaited": 0, "shares": 1}])
        self.assertRegex(run().stdout, f"{CLIENT} +guest")
        self.assertIn("0 clients at 192.0.2.77", run("--drop", "192.0.2.77").stderr)
        self.assertIn(f"1 clients at {CLIENT}", run("--drop", CLIENT).stderr)
        wait_for("locks to be dropped", lambda: locks() == [])
        self.assert_one_line(self.finish(Host(), "locks", "--drop", "nobody"), 2, "nobody")
        self.stop(server)

    # RFC 8267 section 5.1
    def test_mount_nlm_and_nsm_are_served_by_tcp(self):
        server = self.nfsd("--json")
        for program, version, port in ((MOUNT_PROGRAM, MOUNT_V3, MOUNT_PORT),
                                       (NLM_PROGRAM, NLM_V4, 4045),
                                       (NSM_PROGRAM, NSM_V1, NSM_PORT)):
            self.assertEqual(port_of(self.client_host, program, version, TCP), port)
            self.assertEqual(call(self.client_host, port, program, version, 0,
                                  exchange=exchange_tcp), b"")
        self.stop(server)

    def test_mount_nlm_and_nsm_are_served_by_udp(self):
        server = self.nfsd("--json", "--mount-port", "20050")
        for program, version, port in ((MOUNT_PROGRAM, MOUNT_V3, 20050),
                                       (NLM_PROGRAM, NLM_V4, 4045),
                                       (NSM_PROGRAM, NSM_V1, NSM_PORT)):
            self.assertEqual(port_of(self.client_host, program, version, UDP), port)
            self.assertEqual(call(self.client_host, port, program, version, 0,
                                  exchange=exchange_udp), b"")
        exports = call(self.client_host, 20050, MOUNT_PROGRAM, MOUNT_V3, EXPORT,
                       exchange=exchange_udp)
        self.assertIn(os.fsencode(str(self.export)), exports)
        self.assertEqual(call(self.client_host, NSM_PORT, NSM_PROGRAM, NSM_V1, NOTIFY,
                              xdr_string("guest") + struct.pack(">I", 5), exchange=exchange_udp),
                         b"")
        self.assertEqual(self.stop(server)["dropped_datagrams"], 0)

    def test_only_listed_client_addresses_may_mount(self):
        server = self.nfsd("--json", export=f"{self.export}:rw,clients=10.0.0.9")
        self.assertEqual(self.mount(str(self.export))[0], 13)
        self.stop(server)
        server = self.nfsd("--json", export=f"{self.export}:ro,clients=10.0.0.0/24")
        self.assertEqual(self.mount(str(self.export))[0], 0)
        self.assertRegex(server.stderr, f"{re.escape(str(self.export))}, read-only: mount")
        self.stop(server)

    def test_invalid_exports_get_one_error_line(self):
        for export, status, words in (
                (f"{self.export}:rw,sync", 2, ("'sync'", "no_root_squash")),
                ("relative:rw", 2, ("absolute",)),
                (f"{self.directory}/none", 1, ("none", "No such file"))):
            self.assert_one_line(self.finish(self.server_host, *self.nfsd_argv(export=export)),
                                 status, *words)
        self.assert_one_line(self.finish(self.server_host, "nfsd", "--netdev", "wire",
                                         "--key-file", self.directory / "key"), 2, "--export")
        (self.directory / "key").chmod(0o644)
        self.assert_one_line(self.finish(self.server_host, *self.nfsd_argv()), 1, "chmod 600")
        (self.directory / "key").chmod(0o600)
        server = self.nfsd("--json")
        second = self.finish(self.server_host, *self.nfsd_argv("--service-port", "20050"))
        self.assertEqual(second.process.returncode, 1, second.stderr)
        self.stop(server)
