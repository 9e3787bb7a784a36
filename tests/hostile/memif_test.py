"""Tests the control socket of a memif port. Any process that may open it can write to it."""

import contextlib
import random
import socket
import struct

from tests.command.harness import TIMEOUT_S, wait_for
from tests.command.networks import NetworkTest
from tests.hostile.victim import Bounded

MESSAGE_BYTES = 128
TYPES = range(10)  # ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT, 2 more


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

    def say(self, *messages):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
            # On a busy machine the server may be slow to accept.
            control.settimeout(TIMEOUT_S)
            control.connect(self.path)
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
