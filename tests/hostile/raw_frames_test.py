"""Tests frames of every layer that are wrong in one place, or in random ones, while a client
works."""

import ipaddress
import struct

from tests.hostile import wire
from tests.hostile.victim import InVlan, OnTwoCores, OverIpv6, Victim, only


def checked(message):
    """Returns an ICMP or IGMP message with its checksum."""
    return message[:2] + struct.pack("!H", wire.checksum(message)) + message[4:]


class HostileFramesTest(Victim):
    def setUp(self):
        super().setUp()
        self.random = self.hostile.random
        self.path = self.hostile.path()

    def send_all(self, frames):
        """Sends frames while a client works, in bursts of 50, and the remaining ones afterwards."""
        rest = iter(frames)

        def burst():
            # In this order zip() takes no frame from `rest` that it then drops.
            for _, frame in zip(range(50), rest):
                self.to_server.send(frame)

        self.check_service_during(burst)
        for frame in rest:
            self.to_server.send(frame)

    def mutations(self, frame, count):
        """Yields `count` copies of a frame with bytes after the MAC addresses changed, cut off and
        appended."""
        for _ in range(count):
            changed = bytearray(frame)
            for _ in range(self.random.randrange(1, 6)):
                changed[self.random.randrange(12, len(changed))] = self.random.getrandbits(8)
            if self.random.random() < 0.3:
                del changed[self.random.randrange(14, len(changed)):]
            if self.random.random() < 0.1:
                changed += self.random.randbytes(self.random.randrange(1, 1500))
            yield bytes(changed)

    def sealed_mutations(self, rounds):
        """Yields packets of new connections with bytes changed before the ICRC was computed; other
        mutations are dropped for their ICRC."""
        for _ in range(rounds):
            connection = self.hostile.connect(self.service_port)
            for packet in self.packets(connection):
                changed = bytearray(packet)
                for _ in range(self.random.randrange(1, 4)):
                    # Not the queue pair number and the PSN, which would make the rest unseen.
                    at = self.random.choice([0, 1, 8, *range(12, len(changed))])
                    changed[at] = self.random.getrandbits(8)
                yield self.path.roce(bytes(changed))

    def packets(self, connection):
        """Yields packets of each operation to an existing queue pair."""
        to, psn = connection.remote_qpn, connection.psn
        yield wire.bth(wire.RC_SEND_ONLY, to, psn, True) + self.message()
        for opcode in (wire.RC_SEND_FIRST, wire.RC_SEND_MIDDLE, wire.RC_SEND_LAST):
            yield wire.bth(opcode, to, psn) + bytes(1024)
        for opcode in (wire.RC_WRITE_FIRST, wire.RC_WRITE_ONLY):
            yield wire.bth(opcode, to, psn, True) + wire.reth(0x1000, 0x1234, 1024) + bytes(1024)
        yield wire.bth(wire.RC_WRITE_MIDDLE, to, psn) + bytes(1024)
        yield wire.bth(wire.RC_WRITE_LAST, to, psn) + bytes(8)
        yield wire.bth(wire.RC_READ_REQUEST, to, psn) + wire.reth(0x1000, 0x1234, 1 << 31)
        aeth = struct.pack("!I", 31 << 24)
        yield wire.bth(wire.RC_READ_RESPONSE_ONLY, to, psn) + aeth + bytes(64)
        yield wire.bth(wire.RC_ACKNOWLEDGE, to, psn) + struct.pack("!I", 31 << 24 | 5)
        yield wire.bth(wire.RC_COMPARE_SWAP, to, psn) + struct.pack("!QIQQ", 0x1000, 1, 2, 3)
        yield wire.bth(wire.RC_FETCH_ADD, to, psn) + struct.pack("!QIQQ", 0x1001, 1, 2, 3)
        for address, size in ((0x1000, 8), (0x1001, 8), (0x1000, 4), (0x1000, 0)):
            yield (wire.bth(wire.RC_ATOMIC_WRITE, to, psn) + wire.reth(address, 0x1234, 8)
                   + bytes(size))
        for feth in (0x01, 0x02, 0x11, 0x00, 0x0C, 0x31):  # placement, and selectivity << 4
            yield (wire.bth(wire.RC_FLUSH, to, psn) + struct.pack("!I", feth)
                   + wire.reth(0x1000, 0x1234, 64))

    def test_service_survives_any_opcode_to_any_queue_pair(self):
        """Sends all 256 opcodes to a connection's queue pair, to another number, to queue pairs 0
        and 1, and to the multicast queue pair. The first packet that a connection refuses ends it,
        so each opcode of RC has one of its own."""
        def frames():
            connection = self.hostile.connect(self.service_port)
            for opcode in range(256):
                if opcode < 0x20:
                    connection = self.hostile.connect(self.service_port)
                other = connection.remote_qpn ^ 0x800
                for qpn in (other, 0, 1, 0xFFFFFF, connection.remote_qpn):
                    for pad, length in ((0, 0), (3, 4), (3, 0)):
                        yield self.path.roce(wire.bth(opcode, qpn, connection.psn, pad=pad)
                                             + bytes(length))

        self.send_all(frames())

    def test_service_survives_invalid_lengths_of_every_operation(self):
        """Cuts off packets, and makes them too long. A connection takes only one packet with the
        PSN that it expects, so each packet has a connection of its own."""
        count = len([*self.packets(self.hostile.connect(self.service_port))])

        def frames():
            for number in range(count):
                for change in (lambda packet: packet[:11], lambda packet: packet[:12],
                               lambda packet: packet[:16], lambda packet: packet[:28],
                               lambda packet: packet[:-4], lambda packet: packet + bytes(3000)):
                    connection = self.hostile.connect(self.service_port)
                    packet = [*self.packets(connection)][number]
                    yield self.path.roce(change(packet))
                    connection.disconnect()

        self.send_all(frames())

    def test_bad_icrc_changes_nothing(self):
        """Checks that the connection keeps working, too."""
        connection = self.hostile.connect(self.service_port)
        self.send_all([self.path.roce(packet, good_icrc=False)
                       for _ in range(100) for packet in self.packets(connection)])
        self.check_connection(connection)
        connection.disconnect()

    def test_service_survives_sequence_numbers_at_any_distance(self):
        connection = self.hostile.connect(self.service_port)
        frames = []
        for distance in (1, 2, 100, 1 << 10, 1 << 22, (1 << 23) - 1, 1 << 23, (1 << 23) + 1, -1, -2,
                         -1000):
            for packet in self.packets(connection):
                psn = connection.psn + distance & 0xFFFFFF
                frames.append(self.path.roce(packet[:9] + psn.to_bytes(3, "big") + packet[12:]))
        self.send_all(frames * 5)

    def test_service_survives_unexpected_acknowledgements_and_naks(self):
        connection = self.hostile.connect(self.service_port)
        header = [wire.bth(wire.RC_ACKNOWLEDGE, connection.remote_qpn, psn)
                  for psn in (0, 0x1000, 0x1001, 0x0FFF, 0x800FFF, 0xFFFFFF)]
        self.send_all([self.path.roce(one + struct.pack("!I", syndrome << 24 | msn))
                       for one in header for syndrome in range(256) for msn in (0, 0xFFFFFF)])

    def test_service_survives_guessed_keys_and_addresses(self):
        """Checks that no guess of a key does harm; each guess may end its connection."""
        frames = []
        for number in range(45):
            connection = self.hostile.connect(self.service_port)
            opcode = (wire.RC_WRITE_ONLY, wire.RC_READ_REQUEST, wire.RC_FETCH_ADD)[number % 3]
            address = self.random.choice([0, 8, 0x1000, (1 << 64) - 8, 1 << 63,
                                          self.random.getrandbits(44) << 3])
            key = self.random.choice([0, 1, 0xFFFFFFFF, self.random.getrandbits(32)])
            data = bytes(64) if opcode == wire.RC_WRITE_ONLY else b""
            # A WRITE of another length than its packet's is refused before its key is looked at.
            length = len(data) or self.random.choice([0, 1, 8, 0x7FFFFFFF, 0x80000000])
            more = (struct.pack("!QIQQ", address, key, 1, 1) if opcode == wire.RC_FETCH_ADD
                    else wire.reth(address, key, length))
            frames.append(self.path.roce(
                wire.bth(opcode, connection.remote_qpn, connection.psn, True) + more + data))
        self.send_all(frames)

    def test_clients_survive_spoofed_packets(self):
        """Sends packets that seem to come from the client, with guessed queue pair numbers."""
        client = self.hostile.path(ipaddress.ip_address(self.client_address))
        self.send_all(client.roce(wire.bth(self.random.choice((0x04, 0x0A, 0x11, 0x0C)),
                                           self.random.getrandbits(24),
                                           self.random.getrandbits(24), True) + bytes(64))
                      for _ in range(3000))

    def test_service_survives_mutated_valid_frames(self):
        connection = self.hostile.connect(self.service_port)
        body = wire.request(self.path, self.service_port, 3, 0x3333)
        good = [self.path.roce(packet) for packet in self.packets(connection)]
        good.append(self.path.datagram(0x10, 1, body))
        self.send_all(changed for frame in good for changed in self.mutations(frame, 200))
        self.send_all(self.sealed_mutations(20))

    def noise(self):
        """Yields frames of protocols other than RoCE, valid ones among them, and RoCE frames with
        unusual IPv4 headers."""
        source, own = self.path.source, self.path.destination
        if own.version == 4:
            for kind in range(256):
                yield self.path.ip(wire.ICMP, checked(struct.pack("!BBHI", kind, 0, 0, 0)
                                                      + bytes(kind)))
            for kind in (0x11, 0x12, 0x16, 0x17, 0x22, 0xFF):
                for size in (0, 4, 8, 12, 1400):
                    message = checked(struct.pack("!BBHI", kind, 0xFF, 0, 0xFFFFFFFF)
                                      + b"\xff" * size)
                    yield self.path.ip(wire.IGMP, message, ttl=1, options=b"\x94\4\0\0")
            for changes in ({"first": 0x44}, {"first": 0x4F}, {"first": 0x55}, {"length": 0},
                            {"length": 19}, {"length": 0xFFFF}, {"fragment": 0x2000},
                            {"fragment": 0x1FFF}, {"ttl": 0}, {"options": bytes(40)},
                            {"options": b"\x07\x27\x04" + bytes(37)}):
                yield self.path.roce(wire.bth(4, 2, 0) + bytes(64), **changes)
                yield self.path.ip(wire.ICMP, checked(struct.pack("!BBHI", 8, 0, 0, 0)), **changes)
        else:
            for kind in range(256):
                message = struct.pack("!BBHI", kind, 0, 0, 0) + own.packed + bytes(kind % 64)
                for hop_limit in (1, 255):
                    yield self.path.ip(wire.ICMPV6, wire.icmpv6(source, own, message),
                                       hop_limit=hop_limit)
            # Options of length 0, and longer than the message.
            for option in (b"\1\0" + bytes(6), b"\1\xff" + bytes(6), b"\2\1", bytes(8)):
                message = struct.pack("!BBHI", 135, 0, 0, 0) + own.packed + option
                yield self.path.ip(wire.ICMPV6, wire.icmpv6(source, own, message), hop_limit=255)
            # Chains of hop-by-hop, routing, fragment, destination options, no next header and other
            # headers, each followed by its own kind or by UDP or ICMPv6.
            for header in (0, 43, 44, 60, 59, 50, 51, 135):
                for follows in (header, wire.UDP, wire.ICMPV6):
                    for size in (0, 1, 255):
                        extension = bytes([follows, size]) + bytes(6)
                        yield self.path.ip(header, extension * 20)
        for protocol in range(256):
            yield self.path.ip(protocol, self.random.randbytes(self.random.randrange(200)))
        for ether_type in (0, 1, 1500, 0x0806, 0x8100, 0x88A8, 0x8808, 0x8915, 0x86DD, 0xFFFF):
            for size in (0, 1, 27, 28, 46, 1500):
                yield self.path.ethernet(ether_type, self.random.randbytes(size))

    def test_service_survives_frames_of_other_protocols(self):
        self.send_all([*self.noise()])

    def test_service_survives_mutated_frames_of_other_protocols(self):
        noise = [*self.noise()]
        self.send_all(changed for frame in self.random.sample(noise, 300)
                      for changed in self.mutations(frame, 5))

    def test_service_survives_random_bytes(self):
        to = self.path.destination_mac + self.path.source_mac
        self.send_all(to + self.random.randbytes(self.random.randrange(2, 1500))
                      for _ in range(2000))


@only("service_survives_frames_of_other_protocols",
      "service_survives_mutated_frames_of_other_protocols", "service_survives_mutated_valid_frames")
class HostileFramesOverIpv6Test(OverIpv6, HostileFramesTest):
    pass


@only("service_survives_frames_of_other_protocols", "service_survives_mutated_valid_frames")
class HostileFramesInVlanTest(InVlan, HostileFramesTest):
    pass


@only("service_survives_any_opcode_to_any_queue_pair", "service_survives_mutated_valid_frames")
class HostileFramesOnTwoCoresTest(OnTwoCores, HostileFramesTest):
    pass
