"""Reads the RoCEv2 frames of a capture without any of Pollux's code."""

import collections
import dataclasses
import ipaddress
import struct
import zlib

ROCE_PORT = 4791
OPERATIONS = {
    0x00: "SEND FIRST", 0x01: "SEND MIDDLE", 0x02: "SEND LAST", 0x03: "SEND LAST IMM",
    0x04: "SEND ONLY", 0x05: "SEND ONLY IMM", 0x06: "WRITE FIRST", 0x07: "WRITE MIDDLE",
    0x08: "WRITE LAST", 0x09: "WRITE LAST IMM", 0x0A: "WRITE ONLY", 0x0B: "WRITE ONLY IMM",
    0x0C: "READ REQUEST", 0x0D: "READ RESPONSE FIRST", 0x0E: "READ RESPONSE MIDDLE",
    0x0F: "READ RESPONSE LAST", 0x10: "READ RESPONSE ONLY", 0x11: "ACK", 0x12: "ATOMIC ACK",
    0x13: "CMP_SWAP", 0x14: "FETCH_ADD", 0x16: "SEND LAST INV", 0x17: "SEND ONLY INV",
    0x1C: "FLUSH", 0x1D: "ATOMIC WRITE"}
TRANSPORTS = {0: "RC", 1: "UC", 3: "UD"}
CNP = 0x81
WITH_AETH = {0x0D, 0x0F, 0x10, 0x11, 0x12}
RC_REQUESTS = {*range(0x0D), 0x13, 0x14, 0x16, 0x17, 0x1C, 0x1D}
GSI_QPN = 1
MADS = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ",
        0x16: "DREP", 0x17: "SIDR_REQ", 0x18: "SIDR_REP", 0x19: "LAP", 0x1A: "APR"}
NAKS = {0: "NAK SEQUENCE", 1: "NAK INVALID", 2: "NAK ACCESS", 3: "NAK OPERATION"}
BTH_BYTES, DETH_BYTES, ICRC_BYTES = 12, 8, 4
SOURCE_QPN_AT = 5  # in a datagram's extended header
PSN_MASK = 0xFFFFFF
MAD_ATTRIBUTE_AT = 16
PCAP_MAGIC = 0xA1B2C3D4
IGMP, IGMP_REPORT = 2, 0x22


@dataclasses.dataclass
class Frame:
    """A captured RoCEv2 packet. `names` holds the name of its opcode, and of its MAD or syndrome,
    as in ("UD SEND ONLY", "REQ") or ("RC ACK", "NAK ACCESS")."""
    number: int  # of the frame in the capture, from 1
    source: str
    destination: str
    vlan: int
    traffic_class: int  # DSCP and ECN
    opcode: int
    solicited: bool  # the solicited event bit
    psn: int
    qpn: int
    payload: bytes  # from the extended headers to the padding
    names: tuple
    good_icrc: bool


def records(path):
    """Yields the frames of a pcap file as (number, bytes)."""
    with open(path, "rb") as file:
        data = file.read()
    magic = struct.unpack_from("<I", data)[0] if len(data) >= 24 else 0
    if magic != PCAP_MAGIC:
        raise ValueError(f"{path} is no pcap file of this machine")
    at, number = 24, 0
    while at + 16 <= len(data):
        _, _, kept, _ = struct.unpack_from("<IIII", data, at)
        number += 1
        yield number, data[at + 16:at + 16 + kept]
        at += 16 + kept


def icrc(network, udp, transport):
    """Returns the CRC-32 of the packet, with the fields that may change on its way set to ones."""
    ip = bytearray(network)
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = 0xFF
        ip[10:12] = b"\xff\xff"
    else:
        ip[0] |= 0x0F
        ip[1:4] = b"\xff\xff\xff"
        ip[7] = 0xFF
    body = bytearray(transport)
    body[4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + ip + udp[:6] + b"\xff\xff" + body)


def names_of(opcode, qpn, payload):
    if opcode == CNP:
        return ("CNP",)
    transport = TRANSPORTS.get(opcode >> 5, f"{opcode >> 5}")
    found = [f"{transport} {OPERATIONS.get(opcode & 0x1F, hex(opcode))}"]
    if transport == "UD" and qpn == GSI_QPN and len(payload) >= DETH_BYTES + 24:
        attribute, = struct.unpack_from("!H", payload, DETH_BYTES + MAD_ATTRIBUTE_AT)
        found.append(MADS.get(attribute, hex(attribute)))
    if transport == "RC" and opcode & 0x1F in WITH_AETH and payload:
        kind, value = payload[0] >> 5, payload[0] & 0x1F
        if kind == 1:
            found.append("RNR NAK")
        elif kind == 3:
            found.append(NAKS.get(value, f"NAK {value}"))
    return tuple(found)


def parse(number, data):
    """Returns a Frame, or None if the data are not RoCEv2 or too damaged to tell."""
    try:
        kind, at, vlan = struct.unpack_from("!H", data, 12)[0], 14, 0
        if kind == 0x8100:
            vlan, kind, at = struct.unpack_from("!H", data, 14)[0] & 0xFFF, \
                struct.unpack_from("!H", data, 16)[0], 18
        if kind == 0x0800 and data[at] == 0x45 and data[at + 9] == 17:
            network = data[at:at + 20]
            addresses, traffic_class = (network[12:16], network[16:20]), network[1]
        elif kind == 0x86DD and data[at + 6] == 17:
            network = data[at:at + 40]
            addresses = network[8:24], network[24:40]
            traffic_class = struct.unpack_from("!H", network)[0] >> 4 & 0xFF
        else:
            return None
        at += len(network)
        _, port, length, _ = struct.unpack_from("!HHHH", data, at)
        if port != ROCE_PORT or length < 8 + BTH_BYTES + ICRC_BYTES or at + length > len(data):
            return None
        udp, body = data[at:at + 8], data[at + 8:at + length]
    except (struct.error, IndexError):
        return None
    opcode, qpn, psn = body[0], int.from_bytes(body[5:8], "big"), int.from_bytes(body[9:12], "big")
    payload = body[BTH_BYTES:-ICRC_BYTES]
    good = icrc(network, udp, body[:-ICRC_BYTES]) == int.from_bytes(body[-ICRC_BYTES:], "little")
    source, destination = (str(ipaddress.ip_address(address)) for address in addresses)
    solicited = bool(body[1] & 0x80)
    return Frame(number, source, destination, vlan, traffic_class, opcode, solicited, psn, qpn,
                 payload, names_of(opcode, qpn, payload), good)


def reported_groups(data):
    """Returns (source, groups) of an IGMPv3 report (RFC 3376 section 4.2), or None for other
    data."""
    try:
        if struct.unpack_from("!H", data, 12)[0] != 0x0800 or data[23] != IGMP:
            return None
        at = 14 + (data[14] & 0xF) * 4
        if data[at] != IGMP_REPORT:
            return None
        source, groups = str(ipaddress.ip_address(data[26:30])), []
        count, = struct.unpack_from("!H", data, at + 6)
        at += 8
        for _ in range(count):
            _, more, sources, group = struct.unpack_from("!BBH4s", data, at)
            groups.append(str(ipaddress.ip_address(group)))
            at += 8 + 4 * (sources + more)
        return source, groups
    except (struct.error, IndexError):
        return None


class Evidence:
    """The contents of a capture: its RoCEv2 frames, and how often each side sent which."""

    def __init__(self, path, linux_addresses):
        self.path = path
        self.frames = [frame for frame in (parse(*record) for record in records(path)) if frame]
        self.linux_addresses = linux_addresses
        self.counts = collections.Counter(
            (self.sender(frame), name) for frame in self.frames for name in frame.names)

    def sender(self, frame):
        return "linux" if frame.source in self.linux_addresses else "pollux"

    def memberships(self):
        """Returns each (sender, group) that was reported to routers."""
        found = (reported_groups(data) for _, data in records(self.path))
        return {("linux" if source in self.linux_addresses else "pollux", group)
                for source, groups in filter(None, found) for group in groups}

    def count(self, sender, name):
        return self.counts[(sender, name)]

    def packets(self, sender, *names):
        """Returns how many packets of `sender` have one of these names; a repeated one counts
        once."""
        return len({(frame.qpn, frame.psn) for frame in self.frames
                    if frame.names[0] in names and self.sender(frame) == sender})

    def repeats(self):
        """Returns whether a request on an RC queue pair or a CM message was repeated, or a
        repetition was asked for."""
        requests = [(frame.source, frame.qpn, frame.psn) for frame in self.frames
                    if frame.opcode in RC_REQUESTS]
        messages = [(frame.source, frame.payload) for frame in self.frames
                    if frame.names[-1] in MADS.values()]
        return (len(set(requests)) < len(requests) or len(set(messages)) < len(messages)
                or any("NAK SEQUENCE" in frame.names for frame in self.frames))

    def lost_datagrams(self, sender):
        """Returns how many datagrams of `sender` are missing: a queue pair numbers its own,
        whatever their destination."""
        last, lost = {}, 0
        for frame in self.frames:
            if not frame.names[0].startswith("UD ") or self.sender(frame) != sender:
                continue
            whose = frame.source, frame.payload[SOURCE_QPN_AT:DETH_BYTES]
            step = (frame.psn - last.get(whose, frame.psn - 1)) & PSN_MASK
            if step <= PSN_MASK // 2:
                lost += max(step - 1, 0)
                last[whose] = frame.psn
        return lost

    def missing(self, wants):
        """Returns those of (sender, name) that the capture does not show."""
        return [f"{sender}: {name}" for sender, name in wants if not self.counts[(sender, name)]]
