"""Tests `pollux run` with programs on tap ports that the kernel bridges to the wire."""

from tests.command import run_perftest_test as perftest
from tests.command import run_programs_test as programs
from tests.command import run_test as basic
from tests.command.networks import TAP, BridgedTaps


class OverTap(BridgedTaps):
    """A mixin to be listed before a test class: the kernels have other addresses than the ports."""

    port_options = ()
    address, address6 = "10.0.1.1", "fd01::1"
    gid = "1"  # index 0 is the link-local address

    def make_network(self):
        hosts = super().make_network()
        for host, last in zip(hosts, "12"):
            # Without a configured MAC a bridge takes the lowest of its ports', which come and go.
            self.assertTrue(host.shell(
                f"ip addr flush dev wire; ip link set bridge address 02:00:00:00:01:0{last};"
                f"ip addr add 10.0.0.{last}/24 dev bridge;"
                f"ip addr add fd00::{last}/64 dev bridge nodad"))
        return hosts

    def run_program(self, host, *argv, options=()):
        last = 1 if host is self.server_host else 2
        port = ("--port", f"net_tap0,iface={TAP}", "--address", f"10.0.1.{last}/24", "--address",
                f"fd01::{last}/64")
        return super().run_program(host, *argv, options=(*port, *options))


class PingpongOverTapTest(OverTap, basic.PingpongTest):
    pass


class PerftestOverTapTest(OverTap, perftest.OnAnotherWire, perftest.PerftestTest):
    pass


class CmProgramsOverTapTest(OverTap, basic.CmProgramsTest):
    pass


class UcxOverTapTest(OverTap, programs.UcxTest):
    pass


class OverTapWithTcp(OverTap):
    """For programs that use one address both over TCP and RDMA, as cmtime of rdma-core 56 does.

    So the server's kernel also has the address of its port, and a rule of the client's kernel sends
    TCP for that address to the server's kernel.
    """

    def make_network(self):
        server, client = super().make_network()
        self.assertTrue(server.shell(
            "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; ip link add own type bridge;"
            f"ip addr add {self.address}/32 dev own; ip link set own up"))
        self.assertTrue(client.shell(
            f"ip route add {self.address} via {self.meeting} dev bridge table 100;"
            f"ip rule add to {self.address} ipproto tcp lookup 100"))
        return server, client


class LibfabricOverTapTest(OverTapWithTcp, programs.LibfabricTest):
    pass


class FioOverTapTest(OverTap, programs.FioTest):
    pass


class CmtimeOverTapTest(OverTapWithTcp, programs.CmtimeTest):
    pass
