"""Tests the control socket of a memif port. Any process that may open it can write to it."""

import contextlib
import os
import random
import socket
import struct

from tests.command.harness import TIMEOUT_S, wait_for
from tests.command.networks import NetworkTest
from tests.hostile.victim import Bounded

MESSAGE_BYTES = 128
# None, ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT, and another.
TYPES = range(10)
# Of device 0, in version 2.0.
INIT = struct.pack("=HHIB", 3, 0x200, 0, 0).ljust(MESSAGE_BYTES, b"\0")
# The flag that the client sends on it, ring 0, region 0, offset 0, 512 entries, no private header.
ADD_RING = struct.pack("=HHHHIBH", 5, 1, 0, 0, 0, 9, 0).ljust(MESSAGE_BYTES, b"\0")


class HostileMemifTest(Bounded, NetworkTest):
    """Tests of messages only. A process that also maps memory into the port's own can end it, as is
    documented."""

    def setUp(self):
        super().setUp()
        self.path = str(self.directory / "m")
        self.server_port = f"net_memif0,role=server,socket={self.path}"
        self.client_port = f"net_memif0,role=client,socket={self.path}"
        (self.root / "there").write_bytes(b"x" * 1000)
        self.server = self.serve()
        descriptors = self.costs()[1]
        self.check_service()
        # The server keeps the file open. It may close the client's memory and socket only after the
        # client has ended.
        wait_for("the client's end", lambda: self.costs()[1] <= descriptors + 1)
        self.remember_costs()

    @contextlib.contextmanager
    def connect(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
            # Waits while the server has not accepted others; with a time-out it would fail instead.
            control.connect(self.path)
            control.settimeout(TIMEOUT_S)
            yield control

    def say(self, *messages):
        with self.connect() as control:
            control.settimeout(0.05)
            for message in messages:
                # The server may have hung up.
                with contextlib.suppress(OSError):
                    control.send(message)
                    control.recv(MESSAGE_BYTES)

    def check_service(self):
        self.asked("ping")
        self.asked("get", "there", self.directory / "got")

    def test_malformed_messages_do_no_harm(self):
        chance = random.Random(1)
        for kind in TYPES:
            for length in (1, 2, 3, 64, MESSAGE_BYTES, MESSAGE_BYTES + 1):
                message = struct.pack("=H", kind) + chance.randbytes(200)
                self.say(message[:length])
                self.say(message[:length], message[:length])
        self.assertIsNone(self.server.process.poll(), self.server.stderr)
        self.check_service()
        self.check_costs("malformed messages")
        self.stop(self.server)

    def test_clients_that_leave_at_once_do_no_harm(self):
        for _ in range(100):
            with self.connect():
                pass
        self.check_service()
        self.check_costs("clients that left at once")
        self.stop(self.server)

    def test_server_ends_while_clients_connect(self):
        with contextlib.ExitStack() as stack:
            for i in range(10):
                client = stack.enter_context(self.connect())
                if i % 2:
                    client.close()
            self.stop(self.server)

    def test_client_that_reads_nothing_is_disconnected(self):
        ring = os.eventfd(0)
        self.addCleanup(os.close, ring)
        with self.connect() as client:
            client.send(INIT)
            # Each message is answered, until no more answers fit into the socket.
            with self.assertRaises(ConnectionError):
                while True:
                    socket.send_fds(client, [ADD_RING], [ring])
        self.check_service()
        self.stop(self.server)
