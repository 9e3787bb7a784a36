"""A server with a well-behaved client and a hostile host, and checks of what the attack costs
it."""

import ipaddress
import os
import pathlib
import re
import struct
import unittest

from tests.command.harness import SERVICE_PORT, TIMEOUT_S, wait_for
from tests.command.networks import TwoHosts
from tests.hostile.peer import Peer, Tap

CPUS = sorted(os.sched_getaffinity(0))
# The address sanitizer keeps freed memory, 256 MiB of it by default, which is no growth here.
os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8")


class Bounded:
    """A mixin for tests of one server, `self.server`, which bounds what it costs."""

    # The most that the server's memory use may grow during a case.
    MAX_GROWTH_MIB = 64

    def remember_costs(self):
        """Call it after the server has served a first client, whose costs are no growth."""
        self.before = self.costs()

    def costs(self):
        """Returns the server's memory in use, in MiB, and its number of descriptors."""
        process = pathlib.Path(f"/proc/{self.server.process.pid}")
        status = (process / "status").read_text(encoding="ascii")
        return (int(re.search(r"VmRSS:\s+(\d+)", status)[1]) >> 10,
                len(list((process / "fd").iterdir())))

    def check_costs(self, attack):
        """Checks that the server has released what the attack took; `attack` says what it was."""
        memory, descriptors = self.before
        wait_for(f"at most {descriptors} descriptors, as before",
                 lambda: self.costs()[1] <= descriptors)
        after = self.costs()[0]
        print(f"{self.id().rpartition('.')[2]}: {memory} MiB in use before, {after} after; "
              f"{attack}")
        self.assertLessEqual(after - memory, self.MAX_GROWTH_MIB)


class Victim(Bounded, TwoHosts):
    """A test of a server with clients, at the ends of a wire. The hostile host has a raw socket at
    each end: `self.to_server` sends to the server, `self.to_client` to the client.

    The server is `pollux serve`. For another one, a subclass overrides start_victim() to
    check_connection(). Subclasses repeat some of their cases over IPv6, in a VLAN, and on two
    cores.
    """

    server_port = client_port = "net_af_packet0,iface=wire"
    service_port = SERVICE_PORT
    hostile_address = "10.0.0.66"
    vlan = None
    serve_options = ()

    def setUp(self):
        super().setUp()
        self.to_server, self.to_client = Tap(self.client_host), Tap(self.server_host)
        self.addCleanup(self.to_server.close)
        self.addCleanup(self.to_client.close)
        self.hostile = Peer(self.to_server, self.hostile_address, self.server_address, self.vlan)
        self.content = self.file("content", 300_000)
        self.server = self.start_victim()
        self.check_service()
        self.remember_costs()

    # ---- Methods that depend on the server.

    def start_victim(self):
        (self.root / "there").write_bytes(self.content.read_bytes())
        return self.serve(*self.serve_options)

    def start_client(self):
        """Starts a client that ends when it has been served."""
        return self.start(self.client_host,
                          *self.client_argv("get", "there", self.directory / "got"))

    def check_client(self, run):
        """Checks that a client, which has ended, was served."""
        self.assertEqual(run.process.returncode, 0, run.stdout + run.stderr)
        self.assertEqual((self.directory / "got").read_bytes(), self.content.read_bytes())

    def check_calls_during(self, attack):
        """Checks that all calls of a connection are answered during the attack, 1,000 of them in
        two seconds or more. Without the limited rate they would end too soon on an idle machine,
        and last for minutes on a busy one."""
        before = self.server.stderr.count(" connected")
        run = self.start(self.client_host, *self.client_argv("bench", options=(
            "--measure", "null", "--seconds", "0", "--count", "500", "--passes", "1", "--rate",
            "500")))
        wait_for("a connection", lambda: self.server.stderr.count(" connected") > before)
        self.repeat_during(attack, run)
        self.assertEqual(run.process.returncode, 0, run.stderr)

    def message(self):
        """Returns a valid message: an RPC-over-RDMA call of procedure 0 of the file service."""
        header = struct.pack("!7I", 7, 1, 32, 0, 0, 0, 0)
        return header + struct.pack("!10I", 7, 0, 2, 0x20504C58, 1, 0, 0, 0, 0, 0)

    def check_connection(self, connection):
        """Checks that the server answers a message on a connection of the hostile host."""
        self.assertEqual(connection.ask(self.message())[0], "message")

    # ---- Methods that are the same for every server.

    def client_argv(self, command, *arguments, options=(), **keywords):
        # A flood may make a busy server lose frames, which are sent again only after seconds.
        return super().client_argv(command, *arguments, options=(
            "--timeout-ms", 1000 * TIMEOUT_S, *options), **keywords)

    def check_service(self):
        """Checks that a new client is served."""
        run = self.start_client()
        run.wait()
        self.check_client(run)

    def check_service_during(self, attack):
        """Checks that a client is served while `attack()` is called repeatedly, at least once."""
        run = self.start_client()
        self.repeat_during(attack, run)
        self.check_client(run)

    def repeat_during(self, attack, run):
        attack()
        while run.process.poll() is None:
            attack()

    def tearDown(self):
        """Checks that the server is alive, serves, and has released what the attack took."""
        self.assertIsNone(self.server.process.poll(), self.server.stderr)
        self.check_service()
        self.check_costs(f"{self.to_server.sent + self.to_client.sent} hostile frames")
        self.stop(self.server)
        super().tearDown()


def only(*names):
    """Returns a decorator that keeps only these cases of a class variant: those in which it
    differs."""
    def trim(variant):
        unknown = [name for name in names if not callable(getattr(variant, f"test_{name}", None))]
        if unknown:
            raise ValueError(f"{variant.__name__} has no cases {', '.join(unknown)}")
        for name in dir(variant):
            if name.startswith("test_") and name.removeprefix("test_") not in names:
                setattr(variant, name, None)
        return variant

    return trim


class OverIpv6:
    """A mixin for IPv6; it precedes Victim or a subclass of it among the bases."""

    server_address, client_address, prefix = "fd00::1", "fd00::2", "/64"
    hostile_address = "fd00::66"


class InVlan:
    server_address, client_address, prefix = "10.7.0.1", "10.7.0.2", "/24,vlan=7"
    hostile_address = "10.7.0.66"
    vlan = 7


class OnTwoCores:
    def setUp(self):
        if len(CPUS) < 2:
            raise unittest.SkipTest("needs two CPUs")
        self.serve_options = ("--cores", f"{CPUS[0]},{CPUS[1]}")
        super().setUp()


def invented(address, count, first=1000):
    """Returns addresses of nonexistent hosts on the link of `address`."""
    base = ipaddress.ip_address(address)
    if base.version == 6:
        return [base + first + number for number in range(count)]
    return [ipaddress.ip_address(int(base) & ~0xFF | 70 + number % 180) for number in range(count)]
