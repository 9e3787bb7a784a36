"""A host on a raw socket that follows a protocol rule only if a test asks for it."""

import contextlib
import dataclasses
import ipaddress
import random
import socket
import struct
import time

from tests.command.harness import PACKET_IGNORE_OUTGOING, SOL_PACKET, TIMEOUT_S
from tests.hostile import wire

ETH_P_ALL = 3
PSN_MASK = 0xFFFFFF
REPEAT_S = 2


class Tap:
    """A raw socket at one end of a wire. Frames that it sends arrive at the other end."""

    def __init__(self, host, interface="wire"):
        with host.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind((interface, ETH_P_ALL))
        self.socket.settimeout(0.05)
        self.sent = 0

    def send(self, frame):
        # The queue of a veth is short. Frames that do not fit are lost, as on any wire.
        with contextlib.suppress(BlockingIOError, TimeoutError, OSError):
            self.socket.send(frame)
            self.sent += 1

    def receive(self):
        """Returns one frame, or None if none arrives within 50 ms."""
        with contextlib.suppress(TimeoutError, BlockingIOError):
            return self.socket.recv(1 << 16)
        return None

    def close(self):
        self.socket.close()


@dataclasses.dataclass
class Packet:
    """A received RoCE packet."""

    path: wire.Path
    transport: bytes

    opcode = property(lambda self: self.transport[0])
    qpn = property(lambda self: int.from_bytes(self.transport[5:8], "big"))
    asks = property(lambda self: bool(self.transport[8] >> 7))
    psn = property(lambda self: int.from_bytes(self.transport[9:12], "big"))
    pad = property(lambda self: self.transport[1] >> 4 & 3)

    @classmethod
    def of(cls, frame):
        """Returns the packet in a frame, or None for a frame of another kind. Asserts that the ICRC
        is right, since the sender is not the hostile host."""
        vlan = None
        source_mac, destination_mac = frame[6:12], frame[:6]
        if frame[12:14] == b"\x81\x00":
            vlan = int.from_bytes(frame[14:16], "big") & 0xFFF
            frame = frame[:12] + frame[16:]
        if frame[12:14] == b"\x08\x00" and frame[23] == wire.UDP:
            ip, address = frame[14:34], ((26, 30), (30, 34))
        elif frame[12:14] == b"\x86\xdd" and frame[20] == wire.UDP:
            ip, address = frame[14:54], ((22, 38), (38, 54))
        else:
            return None
        at = 14 + len(ip)
        udp = frame[at:at + 8]
        if udp[2:4] != b"\x12\xb7":
            return None
        end = at + int.from_bytes(udp[4:6], "big")
        transport = frame[at + 8:end - 4]
        assert wire.icrc(ip, udp, transport) == frame[end - 4:end], "ICRC"
        source, destination = (ipaddress.ip_address(frame[begin:stop]) for begin, stop in address)
        return cls(wire.Path(source_mac, destination_mac, source, destination, vlan), transport)

    def mad(self):
        """Returns (name, transaction, fields) of a CM message, or None for any other packet."""
        if self.opcode != wire.UD_SEND_ONLY or len(self.transport) != 20 + 256:
            return None
        transaction, attribute = struct.unpack_from("!QH", self.transport, 28)
        name = wire.NAMES.get(attribute)
        return name and (name, transaction, wire.parse(name, self.transport[44:]))


class Peer:
    """A host at `address` that answers ARP and neighbour discovery for it, and sends from any other
    address that a test names."""

    def __init__(self, tap, address, server, vlan=None, seed=1, mac=None):
        self.tap = tap
        self.random = random.Random(seed)
        self.mac = mac or bytes([2, 0x66]) + self.random.randbytes(4)
        self.address, self.server = ipaddress.ip_address(address), ipaddress.ip_address(server)
        self.vlan = vlan
        self.server_mac = None
        self.waiting = []  # packets received during a wait for another one
        self.names = iter(self.random.sample(range(0x100, PSN_MASK), 100_000))

    # ---- Receiving.

    def _answer(self, frame):
        """Answers ARP and neighbour discovery for its own address."""
        if frame[12:14] == b"\x81\x00":
            frame = frame[:12] + frame[16:]
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1":
            if frame[38:42] == self.address.packed:
                self.tap.send(wire.arp(2, self.mac, self.address, frame[22:28],
                                       ipaddress.ip_address(frame[28:32]), frame[6:12], self.vlan))
        elif frame[12:14] == b"\x86\xdd" and frame[20] == wire.ICMPV6 and frame[54] == 135:
            if frame[62:78] == self.address.packed:
                self.tap.send(wire.advertisement(self.mac, self.address,
                                                 ipaddress.ip_address(frame[22:38]), frame[6:12],
                                                 0x60, self.vlan))

    def receive(self, wanted, seconds=TIMEOUT_S):
        """Returns the first RoCE packet to this host for which `wanted(packet)` is true, or None if
        none arrives in time."""
        for packet in self.waiting:
            if wanted(packet):
                self.waiting.remove(packet)
                return packet
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            packet = self.next_packet()
            if packet is not None:
                if wanted(packet):
                    return packet
                self.waiting = self.waiting[-100:] + [packet]
        return None

    def next_packet(self):
        frame = self.tap.receive()
        if frame is None:
            return None
        self._answer(frame)
        packet = Packet.of(frame)
        if packet is None or packet.path.destination != self.address:
            return None
        return packet

    def find_server(self):
        """Returns the server's MAC address, which it learns by ARP or neighbour discovery."""
        question = (wire.arp(1, self.mac, self.address, bytes(6), self.server, vlan=self.vlan)
                    if self.address.version == 4 else
                    wire.solicitation(self.mac, self.address, self.server, self.vlan))
        give_up = time.monotonic() + TIMEOUT_S
        while time.monotonic() < give_up:
            self.tap.send(question)
            for _ in range(20):
                frame = self.tap.receive()
                if frame is None:
                    break
                tag = 4 if frame[12:14] == b"\x81\x00" else 0
                kind = frame[12 + tag:14 + tag]
                answers = (kind == b"\x08\x06" and frame[20 + tag:22 + tag] == b"\0\2"
                           and frame[28 + tag:32 + tag] == self.server.packed)
                answers |= (kind == b"\x86\xdd" and frame[54 + tag:55 + tag] == b"\x88"
                            and frame[62 + tag:78 + tag] == self.server.packed)
                if answers:
                    self.server_mac = frame[6:12]
                    return self.server_mac
        raise AssertionError("the server answers neither ARP nor neighbour discovery")

    # ---- Sending.

    def path(self, source=None, mac=None):
        """Returns a path to the server, from this host or from an invented one."""
        return wire.Path(mac or self.mac, self.server_mac or self.find_server(),
                         source or self.address, self.server, self.vlan)

    def say(self, name, path=None, transaction=None, **values):
        """Sends a CM message."""
        transaction = self.random.getrandbits(64) if transaction is None else transaction
        self.tap.send((path or self.path()).datagram(wire.LAYOUTS[name][0], transaction,
                                                     wire.emit(name, **values)))

    def connect(self, service_port, **changes):
        """Returns an established connection; asserts that the server accepts it."""
        ours = Connection(self, next(self.names), next(self.names))
        body = wire.request(self.path(), service_port, ours.comm_id, ours.qpn, **changes)
        transaction = self.random.getrandbits(64)

        def answers(packet):
            mad = packet.mad()
            return (mad is not None and mad[0] in ("REP", "REJ")
                    and mad[2]["remote_comm_id"] == ours.comm_id)

        give_up = time.monotonic() + TIMEOUT_S
        while time.monotonic() < give_up:
            self.tap.send(self.path().datagram(0x10, transaction, body))
            packet = self.receive(answers, REPEAT_S)
            if packet is not None:
                break
        else:
            raise AssertionError("no answer to a REQ")
        name, _, fields = packet.mad()
        if name == "REJ":
            raise AssertionError(f"REJ, reason {fields['reason']}")
        ours.remote_comm_id, ours.remote_qpn = fields["local_comm_id"], fields["local_qpn"]
        ours.psn = fields["starting_psn"]
        self.say("RTU", local_comm_id=ours.comm_id, remote_comm_id=ours.remote_comm_id)
        return ours


class Connection:
    """A reliable connection of a Peer. It sends and acknowledges messages, and refuses RDMA."""

    def __init__(self, peer, comm_id, qpn):
        self.peer, self.comm_id, self.qpn = peer, comm_id, qpn
        self.remote_comm_id = self.remote_qpn = self.psn = self.heard_psn = None

    def send_raw(self, opcode, more=b"", ack=False, psn=None, **keywords):
        """Sends one packet; advances the PSN unless it is given."""
        used = self.psn if psn is None else psn & PSN_MASK
        pad = -len(more) % 4
        header = wire.bth(opcode, self.remote_qpn, used, ack, pad,
                          **{key: keywords.pop(key) for key in ("pkey", "version")
                             if key in keywords})
        self.peer.tap.send(self.peer.path().roce(header + more + bytes(pad), **keywords))
        if psn is None:
            self.psn = self.psn + 1 & PSN_MASK

    def send(self, message):
        """Sends a SEND that fits in one packet and asks for an acknowledgement."""
        self.send_raw(wire.RC_SEND_ONLY, message, ack=True)

    def acknowledge(self, packet, syndrome=wire.ACK_SYNDROME):
        self.send_raw(wire.RC_ACKNOWLEDGE, struct.pack("!I", syndrome << 24), psn=packet.psn)

    def ask(self, message):
        """Returns the answer to a SEND that fits in one packet, as next() does, but skips ACKs.
        Repeats the SEND until the answer comes, since a queue on its way may be full."""
        psn = self.psn
        give_up = time.monotonic() + TIMEOUT_S
        while time.monotonic() < give_up:
            self.send_raw(wire.RC_SEND_ONLY, message, ack=True, psn=psn)
            self.psn = psn + 1 & PSN_MASK
            while (heard := self.next(REPEAT_S)) is not None:
                if heard[0] != "ack" or heard[1] >= wire.NAK_PSN_SEQUENCE:
                    return heard
        raise AssertionError("no answer to a SEND")

    def disconnect(self):
        self.peer.say("DREQ", local_comm_id=self.comm_id, remote_comm_id=self.remote_comm_id,
                      remote_qpn=self.remote_qpn)

    def next(self, seconds=TIMEOUT_S):
        """Returns the next event: ("ack", syndrome), ("message", bytes), or ("end", name of the CM
        message); None if there is none within `seconds`. Refuses RDMA READs and WRITEs."""
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            packet = self.peer.receive(self._is_mine, left)
            if packet is None:
                return None
            mad = packet.mad()
            if mad is not None:
                if mad[0] == "DREQ":
                    self.peer.say("DREP", transaction=mad[1], local_comm_id=self.comm_id,
                                  remote_comm_id=self.remote_comm_id)
                if mad[0] in ("DREQ", "REJ"):
                    return "end", mad[0]
                if mad[0] == "REP":  # the RTU was lost
                    self.peer.say("RTU", local_comm_id=self.comm_id,
                                  remote_comm_id=self.remote_comm_id)
            elif packet.opcode == wire.RC_ACKNOWLEDGE:
                return "ack", packet.transport[12]
            elif packet.opcode in (wire.RC_SEND_ONLY, 0x17):  # with invalidate
                self.acknowledge(packet)
                if self._heard_before(packet.psn):
                    continue
                self.heard_psn = packet.psn
                skip = 12 if packet.opcode == wire.RC_SEND_ONLY else 16
                return "message", packet.transport[skip:len(packet.transport) - packet.pad]
            else:
                self.acknowledge(packet, wire.NAK_REMOTE_ACCESS)
        return None

    def _heard_before(self, psn):
        """Returns whether a SEND is a repetition: the server repeats a SEND that a busy machine
        acknowledges late."""
        return self.heard_psn is not None and (psn - self.heard_psn - 1) & PSN_MASK > PSN_MASK // 2

    def _is_mine(self, packet):
        mad = packet.mad()
        if mad is not None:
            return mad[2].get("remote_comm_id") == self.comm_id
        return packet.qpn == self.qpn
