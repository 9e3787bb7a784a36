"""pollux run: programs on ports of their own, taps that the kernel bridges to the wire."""

from tests.command import run_perftest_test as perftest
from tests.command import run_programs_test as programs
from tests.command import run_test as basic
from tests.command.networks import TAP, BridgedTaps


class OverTap(BridgedTaps):
    """Before a class of tests: the kernels have other addresses than the ports, on the bridges."""

    port_options = ()
    address, address6 = "10.0.1.1", "fd01::1"
    gid = "1"  # the link-local address comes first

    def make_network(self):
        hosts = super().make_network()
        for host, last in zip(hosts, "12"):
            # A bridge that was not told has the least MAC of its ports, and they come and go.
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


class LibfabricOverTapTest(OverTap, programs.LibfabricTest):
    """fi_pingpong uses one address over TCP and over RDMA: the server's kernel has that of its port
    too, and the client's alone sends TCP there."""

    def make_network(self):
        server, client = super().make_network()
        self.assertTrue(server.shell(
            "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; ip link add own type bridge;"
            f"ip addr add {self.address}/32 dev own; ip link set own up"))
        self.assertTrue(client.shell(
            f"ip route add {self.address} via {self.meeting} dev bridge table 100;"
            f"ip rule add to {self.address} ipproto tcp lookup 100"))
        return server, client


class FioOverTapTest(OverTap, programs.FioTest):
    pass


class CmtimeOverTapTest(OverTap, programs.CmtimeTest):
    pass
