"""Tests `pollux port`: programs share a port that only one process can open."""

import pathlib
import signal

from tests.command import run_shared_test as shared
from tests.command.harness import CLIENT, SERVER, wait_for

GONE = 'interface "wire" is gone'


class MemifWire:
    """A mixin to be listed before a subclass of TwoHosts: memif instead of a veth pair."""

    SERVED = ("server", "client")  # the hosts whose interface `wire` is that of a service

    def memif(self, role):
        return f"net_memif0,role={role},socket={self.directory}/memif"

    def make_wire(self, server, client):
        if not pathlib.Path("/dev/net/tun").exists():
            self.skipTest("needs /dev/net/tun")
        self.services = []
        for host, role in zip((server, client), ("server", "client")):
            self.assertTrue(host.shell("ip link set lo up"))
            if role not in self.SERVED:
                # Takes the addresses that the kernel would have.
                if not host.shell("ip link add wire type bridge"):
                    self.skipTest("needs a kernel and a right to make a bridge")
                continue
            service = self.start(host, "port", "--port", self.memif(role), "--interface", "wire",
                                 "--idle", "sleep")
            service.wait_for_line("is interface wire$")
            self.services.append(service)


class SharedPortTest(MemifWire, shared.SharedByProgramsTest):
    """What programs can do on an interface, they can do on that of the service."""

    PROGRAMS = 4

    def test_the_kernels_use_the_port_too(self):
        self.client_host.await_answer(f"ping -n -c 1 -W 1 -s 1000 {SERVER}")
        self.server_host.await_answer(f"ping -n -c 1 -W 1 -s 1000 {CLIENT}")


class ServiceTest(MemifWire, shared.SharedTest):
    SERVED = ("server",)

    def peer(self, number, *options):
        """Returns a client that has the other end of the memif to itself."""
        return self.start(self.client_host, "run", "--port", self.memif("client"), "--address",
                          f"{CLIENT}/24", "--idle", "sleep", "--", "rping", "-c", "-a", SERVER,
                          "-p", shared.PORT + number, *options)

    def test_a_plain_peer_reaches_each_program(self):
        servers = [self.rping_server(i, "-C", 10) for i in range(2)]
        for i, server in enumerate(servers):
            self.assert_succeeds(self.peer(i, "-C", 10))
            self.assert_succeeds(server)

    def test_the_interface_has_the_carrier_of_the_port(self):
        no_carrier = "ip link show wire | grep -q NO-CARRIER"
        wait_for("no carrier", lambda: self.server_host.shell(no_carrier))
        self.rping_server(0)
        peer = self.peer(0)  # for ever
        wait_for("a carrier", lambda: not self.server_host.shell(no_carrier))
        peer.process.kill()
        wait_for("no carrier", lambda: self.server_host.shell(no_carrier))

    def serve(self):
        serve = self.start(self.server_host, "serve", "--netdev", "wire", "--idle", "sleep",
                           "--root", self.directory)
        serve.wait_for_line("^serving ")
        return serve

    def test_the_end_of_the_service_ends_the_programs(self):
        serve = self.serve()
        service, = self.services
        self.assertEqual(service.interrupt(signal.SIGTERM), 0, service.stderr)
        self.assertFalse(self.server_host.shell("ip link show wire"))
        self.assertEqual(serve.wait(), 1)
        self.assertIn(GONE, serve.stderr)

    def test_a_deleted_interface_ends_the_service(self):
        self.assertTrue(self.server_host.shell("ip link del wire"))
        service, = self.services
        self.assertEqual(service.wait(), 1)
        self.assertIn(GONE, service.stderr)

    def test_wrong_command_lines_are_usage_errors(self):
        for arguments, word in (((), "--interface NAME"),
                                (("--interface", "plx0"), "--port DEVARGS"),
                                (("--interface", "plx0", "--port", "net_null0", "--address",
                                  f"{SERVER}/24,vlan=7"), "type vlan"),
                                (("--netdev", "wire"), "--netdev")):
            with self.subTest(arguments):
                self.assert_one_line(self.finish(self.server_host, "port", *arguments), 2, word)
        taken = self.finish(self.server_host, "port", "--port", "net_memif0,role=server,socket="
                            f"{self.directory}/other", "--interface", "wire")
        self.assert_one_line(taken, 1, '"wire"', "exists already")

    def test_statistics_count_frames_in_both_directions(self):
        self.rping_server(0, "-C", 10)
        self.assert_succeeds(self.peer(0, "-C", 10))
        (process,) = self.told("stat", "--pid", self.services[0].process.pid)
        port = process["workers"][0]["ports"][0]
        for name in ("tap/to_kernel", "tap/from_kernel"):
            self.assertGreaterEqual(port[name], 20)
