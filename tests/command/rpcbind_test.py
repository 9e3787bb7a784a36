"""Tests services that register with a real rpcbind and are found by it."""

import shutil
import socket
import struct
import subprocess
import unittest

from tests.command.blocks import Blocks
from tests.command.harness import CLIENT, SERVER, TIMEOUT_S, MountedHost, wait_for
from tests.command.networks import SharedInterface

STATUS_PROGRAM = "100024"  # of NSM
MOUNT_PROGRAM = "100005"
LOCK_PROGRAM = "100021"  # of NLM
TCP, UDP = 6, 17  # for the portmapper


class WithRpcbind(SharedInterface):
    """Two hosts, with an rpcbind on the kernel's sockets of the server."""

    def make_network(self):
        for tool in ("rpcbind", "rpcinfo"):
            if shutil.which(tool) is None:
                raise unittest.SkipTest(f"needs the command {tool}")
        server, client = super().make_network()
        # rpcbind's socket has a fixed path below /run, so the host gets a /run of its own.
        script = "mount -t tmpfs none /run; echo there; exec rpcbind -f"
        holder = subprocess.Popen(server.argv(["unshare", "-m", "sh", "-ec", script]),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        if holder.stdout.readline() != "there\n":
            raise unittest.SkipTest("needs the right to mount")
        # unshare and sh have replaced themselves by exec: the process is rpcbind itself.
        served = MountedHost(holder)

        def ready():
            if holder.poll() is not None:
                raise unittest.SkipTest("needs the right to become rpcbind's user")
            return served.shell("rpcinfo")

        wait_for("rpcbind", ready)
        return served, client

    def registered(self, netid="rdma"):
        """Returns the registrations whose netid begins with `netid`, sorted.

        Each is (program, version, netid, universal address).
        """
        rpcinfo = shutil.which("rpcinfo")
        text = subprocess.run(self.server_host.argv([rpcinfo]), capture_output=True, text=True,
                              check=True).stdout
        rows = [line.split() for line in text.splitlines()[1:]]
        return sorted(tuple(row[:4]) for row in rows if row[2].startswith(netid))


class RpcbindTest(WithRpcbind):
    """The services of the pollux commands."""

    def test_a_registered_service_is_found(self):
        server = self.serve("--service-port", "4660", "--rpcbind")
        program = str(0x20504C58)
        self.assertEqual(self.registered(), [(program, "1", "rdma", "10.0.0.1.18.52"),
                                             (program, "1", "rdma6", "fd00::1.18.52")])
        for address in (SERVER, "fd00::1"):
            run = self.client("ping", options=("--rpcbind",), server=address)
            self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assert_one_line(self.client("ping", options=("--rpcbind", "--program", "100003",
                                                          "--version", "3")),
                             1, "no registration of program 100003 version 3", "rdma")
        # The next server takes over the registrations that a killed one leaves behind.
        server.process.kill()
        server.process.wait()
        self.assertEqual(len(self.registered()), 2)
        server = self.serve("--service-port", "4661", "--rpcbind")
        self.asked("ping", options=("--rpcbind",))
        self.stop(server)
        self.assertEqual(self.registered(), [])

    def test_registered_nfs_and_mount_are_found(self):
        server = self.start_registered_nfsd()
        self.assertNotIn("mountport", server.stderr)
        self.assertEqual(self.registered(), [("100003", "3", "rdma", "10.0.0.1.78.81"),
                                             ("100003", "3", "rdma6", "fd00::1.78.81")])
        for program, version, port in (("100005", "3", "78.80"), ("100021", "4", "15.205"),
                                       (STATUS_PROGRAM, "1", "2.150")):
            for netid in ("tcp", "udp"):
                rows = [row for row in self.registered(netid) if row[0] == program]
                # At all addresses: they may change while nfsd runs.
                self.assertEqual(rows, [(program, version, netid, f"0.0.0.0.{port}"),
                                        (program, version, f"{netid}6", f"::.{port}")])
        self.stop(server)
        self.assertEqual(self.registered(), [])
        left = {row[0] for netid in ("tcp", "udp") for row in self.registered(netid)}
        self.assertFalse(left & {"100005", "100021", STATUS_PROGRAM}, left)

    def test_getaddr_does_not_return_rdma_addresses(self):
        """Shows why services are looked up by DUMP.

        GETADDR returns the address for the transport of the query, whatever netid it asks for
        (RFC 1833 section 2.2.1).
        """
        server = self.start_registered_nfsd()
        mount, nfs = 100005, 100003
        self.assertIn((str(nfs), "3", "rdma", "10.0.0.1.78.81"), self.registered())
        self.assertEqual(self.getaddr(nfs, 3, "rdma"), "")
        self.assertEqual([row for row in self.registered() if row[0] == str(mount)], [])
        self.assertEqual(self.getaddr(mount, 3, "rdma"), self.getaddr(mount, 3, "tcp"))
        self.assertIn(".78.80", self.getaddr(mount, 3, "rdma"))
        self.stop(server)

    def getaddr(self, program, version, netid):
        """Calls RPCBPROC_GETADDR of the server host's rpcbind by TCP and returns the address."""
        def string(text):
            data = text.encode()
            return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)

        call = struct.pack(">10I", 7, 0, 2, 100000, 3, 3, 0, 0, 0, 0)
        call += struct.pack(">2I", program, version) + string(netid) + string("") + string("")
        with self.server_host.entered():
            end = socket.create_connection(("127.0.0.1", 111), timeout=TIMEOUT_S)
        with end, end.makefile("rb") as replies:
            end.sendall(struct.pack(">I", 1 << 31 | len(call)) + call)
            size, = struct.unpack(">I", replies.read(4))
            reply = replies.read(size & ~(1 << 31))
        accepted_header = 24
        length, = struct.unpack_from(">I", reply, accepted_header)
        return reply[accepted_header + 4:accepted_header + 4 + length].decode()

    def test_second_status_monitor_keeps_its_registration(self):
        with self.server_host.entered():
            self.addCleanup(socket.create_server(("0.0.0.0", 9999)).close)
        self.register(STATUS_PROGRAM, 1, 9999, TCP, UDP)
        server = self.start_registered_nfsd()
        self.assertIn("another status monitor", server.stderr)
        self.stop(server)
        self.assertEqual(self.rows_of(STATUS_PROGRAM),
                         [(STATUS_PROGRAM, "1", "tcp", "0.0.0.0.39.15"),
                          (STATUS_PROGRAM, "1", "udp", "0.0.0.0.39.15")])

    def start_registered_nfsd(self):
        """Starts nfsd --rpcbind with one export."""
        export = self.directory / "export"
        export.mkdir()
        server = self.start(self.server_host, "nfsd", "--netdev", "wire", "--idle", "sleep",
                            "--export", export,
                            "--key-file", self.directory / "key", "--rpcbind", "--json")
        server.wait_for_line("^serving NFS")
        return server

    def rows_of(self, program):
        """Returns the registrations of a program by TCP and UDP."""
        return [row for netid in ("tcp", "udp") for row in self.registered(netid)
                if row[0] == program]

    def test_services_that_run_keep_their_registrations(self):
        kept = {}
        for program, version in ((MOUNT_PROGRAM, 3), (LOCK_PROGRAM, 4)):
            with self.server_host.entered():
                listener = socket.create_server(("0.0.0.0", 0))
            self.addCleanup(listener.close)
            port = listener.getsockname()[1]
            self.register(program, version, port, TCP)
            kept[program] = port, [(program, str(version), "tcp",
                                    f"0.0.0.0.{port >> 8}.{port & 255}")]
        server = self.start_registered_nfsd()
        for (program, (port, rows)), own in zip(kept.items(), (20048, 4045)):
            server.wait_for_line(f"not registered at port {own} .*program {program} "
                                 rf"version \d at 0\.0\.0\.0:{port},.*stop it")
            self.assertEqual(self.rows_of(program), rows)
        self.assertRegex(server.stderr, "mount .*,mountport=20048,nolock ")
        self.stop(server)
        for program, (_, rows) in kept.items():
            self.assertEqual(self.rows_of(program), rows)

    def test_a_registration_at_which_nothing_listens_is_replaced(self):
        with self.server_host.entered():
            unused = socket.create_server(("0.0.0.0", 0))
        port = unused.getsockname()[1]
        unused.close()
        self.register(LOCK_PROGRAM, 4, port, TCP)
        self.register(STATUS_PROGRAM, 1, port, TCP, UDP)
        server = self.start_registered_nfsd()
        self.assertNotIn("not registered", server.stderr)
        self.assertNotIn("another status monitor", server.stderr)
        self.assertIn((LOCK_PROGRAM, "4", "tcp", "0.0.0.0.15.205"), self.rows_of(LOCK_PROGRAM))
        self.assertIn((STATUS_PROGRAM, "1", "udp", "0.0.0.0.2.150"), self.rows_of(STATUS_PROGRAM))
        self.stop(server)
        for program in (LOCK_PROGRAM, STATUS_PROGRAM):
            self.assertEqual(self.rows_of(program), [])

    def test_at_its_end_nfsd_leaves_what_others_have_registered(self):
        server = self.start_registered_nfsd()
        self.register(LOCK_PROGRAM, 4, 9999, TCP)
        self.stop(server)
        self.assertEqual([row for row in self.rows_of(LOCK_PROGRAM) if row[2] == "tcp"],
                         [(LOCK_PROGRAM, "4", "tcp", "0.0.0.0.39.15")])

    def register(self, program, version, port, *protocols):
        """Registers a program in the server host's rpcbind, as rpc.statd or knfsd would.

        Calls PMAPPROC_UNSET, which removes the program for all protocols, and then PMAPPROC_SET for
        each protocol, by UDP from a privileged port.
        """
        unset, set_mapping = 2, 1
        with self.server_host.entered():
            end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with end:
            end.settimeout(TIMEOUT_S)
            end.bind(("127.0.0.1", 700))
            end.connect(("127.0.0.1", 111))
            for procedure, protocol in ((unset, 0), *((set_mapping, each) for each in protocols)):
                header = struct.pack(">10I", procedure, 0, 2, 100000, 2, procedure, 0, 0, 0, 0)
                end.send(header + struct.pack(">4I", int(program), version, protocol, port))
                reply = end.recv(100)
                if procedure == set_mapping:
                    self.assertEqual(struct.unpack(">I", reply[-4:]), (1,))

    def test_without_rpcbind_option_the_lock_service_is_not_registered(self):
        export = self.directory / "export"
        export.mkdir()
        server = self.start(self.server_host, "nfsd", "--netdev", "wire", "--idle", "sleep",
                            "--export", export,
                            "--key-file", self.directory / "key", "--json")
        server.wait_for_line("^serving NFS")
        self.assertRegex(server.stderr, "this host's rpcbind uses TCP port 111.*--rpcbind")
        self.assertRegex(server.stderr, "mount .*,mountport=20048,nolock ")
        self.stop(server)

    def test_a_missing_rpcbind_is_an_error(self):
        self.server_host.holder.kill()
        self.server_host = self.client_host
        server = self.finish(self.client_host, "serve", "--netdev", "wire", "--root", self.root,
                             "--rpcbind")
        self.assert_one_line(server, 1, "rpcbind", "running?")
        self.assert_one_line(self.client("ping", options=("--rpcbind",), server=CLIENT), 1,
                             f"the rpcbind of {CLIENT}", "refused")


class RpcgenTest(WithRpcbind, Blocks):
    """The rpcgen example."""

    def test_a_registered_service_is_found(self):
        self.start_server(port="--netdev wire --service-port 4660 --rpcbind")
        program = str(0x20504C59)
        self.assertEqual(self.registered(), [(program, "1", "rdma", "10.0.0.1.18.52"),
                                             (program, "1", "rdma6", "fd00::1.18.52")])
        self.put_and_get(100_000, port="--netdev wire --rpcbind")
        self.assertIn("nobody", self.ask("who", server="fd00::1", port="--netdev wire --rpcbind"))
        # A client without --rpcbind uses the default port, on which nothing listens.
        self.assertIn("nothing listens there", self.ask("who", status=1))
