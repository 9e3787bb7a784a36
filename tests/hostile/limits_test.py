"""Tests the limits that an administrator sets for servers, with clients that exceed them."""

from tests.command.exports import Exported
from tests.command.harness import SERVER, wait_for
from tests.command.networks import TwoHosts
from tests.command.nfsd_test import (MNT, NLM4_GRANTED, handle_of, mount_call, share_call,
                                     xdr_string)
from tests.hostile.peer import Peer, Tap

RPC_PORT = 20049
NLM4_DENIED_NOLOCKS = 2
NO_RESOURCES = 28  # IB specification, 12.6.7.2: rejected by the consumer
LOCK_PORT = 4045


class ConnectionLimits:
    """A mixin for tests of one server."""

    def peer(self, address):
        tap = Tap(self.client_host)
        self.addCleanup(tap.close)
        return Peer(tap, address, SERVER)

    def counter(self, server, name):
        (process,) = self.told("stat", "--pid", server.process.pid)
        (worker,) = process["workers"]
        return worker["rpc"][f"server/{name}"]

    def wait_for_established(self, server, count):
        """Waits until `count` connections have been established, including those that have ended
        since."""
        wait_for(f"{count} established connections",
                 lambda: self.counter(server, "connections_established") == count)

    def assert_refused(self, peer):
        with self.assertRaisesRegex(AssertionError, f"REJ, reason {NO_RESOURCES}$"):
            peer.connect(RPC_PORT)

    def check_connections_are_limited_in_all_and_per_address(self, start):
        server = start("--max-connections", "2", "--max-connections-per-client", "1")
        first, second, third = (self.peer(f"10.0.0.{last}") for last in (66, 67, 68))
        connection = first.connect(RPC_PORT)
        self.wait_for_established(server, 1)
        self.assert_refused(first)
        second.connect(RPC_PORT)
        self.wait_for_established(server, 2)
        self.assert_refused(third)

        def has_ended():
            connection.disconnect()  # a frame may be lost
            return self.counter(server, "connections") == 1

        wait_for("the end of a connection", has_ended)
        third.connect(RPC_PORT)
        self.wait_for_established(server, 3)
        self.assertEqual(server.interrupt(), 0, server.stderr)


class ServeLimitsTest(ConnectionLimits, TwoHosts):
    server_port = client_port = "net_af_packet0,iface=wire"

    def test_connections_are_limited_in_all_and_per_address(self):
        self.check_connections_are_limited_in_all_and_per_address(self.serve)


class NfsdLimitsTest(ConnectionLimits, Exported):
    def test_connections_are_limited_in_all_and_per_address(self):
        self.check_connections_are_limited_in_all_and_per_address(self.nfsd)

    def share(self, owner):
        answer = mount_call(self.client_host, MNT, xdr_string(str(self.export)))
        return share_call(self.client_host, LOCK_PORT, handle_of(answer), owner)

    def test_locks_are_limited_in_all(self):
        server = self.nfsd("--max-locks", "1")
        self.assertEqual(self.share("one"), NLM4_GRANTED)
        self.assertEqual(self.share("another"), NLM4_DENIED_NOLOCKS)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_locks_are_limited_per_address(self):
        server = self.nfsd("--max-locks-per-client", "2")
        self.assertEqual(self.share("one"), NLM4_GRANTED)
        self.assertEqual(self.share("another"), NLM4_GRANTED)
        self.assertEqual(self.share("a third"), NLM4_DENIED_NOLOCKS)
        self.assertEqual(server.interrupt(), 0, server.stderr)
