"""Makes RoCEv2 frames, CM datagrams, ARP and neighbour discovery from the specifications alone.

It shares no code with the receiver under test, since it would then make the same mistakes.
"""

import dataclasses
import ipaddress
import struct
import zlib

ETHER_IPV4, ETHER_ARP, ETHER_VLAN, ETHER_IPV6 = 0x0800, 0x0806, 0x8100, 0x86DD
ICMP, IGMP, UDP, ICMPV6 = 1, 2, 17, 58
ROCE_PORT = 4791
GSI_QPN, GSI_QKEY = 1, 0x80010000
BROADCAST = b"\xff" * 6

RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST, RC_SEND_ONLY = 0x00, 0x01, 0x02, 0x04
RC_WRITE_FIRST, RC_WRITE_MIDDLE, RC_WRITE_LAST, RC_WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
RC_READ_REQUEST, RC_READ_RESPONSE_ONLY, RC_ACKNOWLEDGE = 0x0C, 0x10, 0x11
RC_COMPARE_SWAP, RC_FETCH_ADD, RC_FLUSH, RC_ATOMIC_WRITE = 0x13, 0x14, 0x1C, 0x1D
UD_SEND_ONLY = 0x64
ACK_SYNDROME, NAK_PSN_SEQUENCE, NAK_REMOTE_ACCESS = 0x1F, 0x60, 0x62


def checksum(data):
    """Returns the Internet checksum (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def icrc(ip, udp, transport):
    """Returns the ICRC (IB specification, annex A17): fields that routers may change count as
    ones."""
    ip, udp, transport = bytearray(ip), bytearray(udp), bytearray(transport)
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = 0xFF  # type of service, time to live
        ip[10:12] = b"\xff\xff"  # header checksum
    else:
        ip[0] |= 0x0F  # traffic class and flow label
        ip[1:4] = b"\xff\xff\xff"
        ip[7] = 0xFF  # hop limit
    udp[6:8] = b"\xff\xff"
    transport[4:5] = b"\xff"  # FECN, BECN, reserved bits
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + transport))


def gid(address):
    if address.version == 6:
        return address.packed
    return b"\0" * 10 + b"\xff\xff" + address.packed


def ipv4(source, destination, protocol, payload, **changes):
    """Returns an IPv4 header. `changes`: first, tos, length, fragment, ttl, options."""
    options = changes.get("options", b"")
    first = changes.get("first", 0x40 | (20 + len(options)) // 4)
    header = struct.pack("!BBHHHBBH4s4s", first, changes.get("tos", 0),
                         changes.get("length", 20 + len(options) + len(payload)), 0,
                         changes.get("fragment", 0x4000), changes.get("ttl", 64), protocol, 0,
                         source.packed, destination.packed) + options
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:]


def ipv6(source, destination, next_header, payload_bytes, hop_limit=64):
    return struct.pack("!IHBB16s16s", 6 << 28, payload_bytes, next_header, hop_limit,
                       source.packed, destination.packed)


def icmpv6(source, destination, message):
    """Returns the message with its checksum, which is in bytes 2 and 3."""
    pseudo = source.packed + destination.packed + struct.pack("!II", len(message), ICMPV6)
    return message[:2] + struct.pack("!H", checksum(pseudo + message)) + message[4:]


@dataclasses.dataclass(frozen=True)
class Path:
    """The claimed source and the destination of a frame."""

    source_mac: bytes
    destination_mac: bytes
    source: ipaddress.IPv4Address | ipaddress.IPv6Address
    destination: ipaddress.IPv4Address | ipaddress.IPv6Address
    vlan: int | None = None

    def ethernet(self, ether_type, payload):
        tag = b"" if self.vlan is None else struct.pack("!HH", ETHER_VLAN, self.vlan)
        frame = (self.destination_mac + self.source_mac + tag + struct.pack("!H", ether_type)
                 + payload)
        return frame.ljust(60, b"\0")

    def ip(self, protocol, payload, hop_limit=64, **changes):
        if self.source.version == 4:
            header = ipv4(self.source, self.destination, protocol, payload, **changes)
            return self.ethernet(ETHER_IPV4, header + payload)
        header = ipv6(self.source, self.destination, protocol,
                      changes.get("length", len(payload)), hop_limit)
        return self.ethernet(ETHER_IPV6, header + payload)

    def roce(self, transport, good_icrc=True, source_port=0xC123, **changes):
        """Returns a RoCE frame. `transport`: from the BTH to the last byte before the ICRC."""
        udp = struct.pack("!HHHH", source_port, ROCE_PORT, 8 + len(transport) + 4, 0)
        if self.source.version == 4:
            header = ipv4(self.source, self.destination, UDP, udp + transport + bytes(4),
                          **changes)
            ether_type = ETHER_IPV4
        else:
            header = ipv6(self.source, self.destination, UDP, len(udp) + len(transport) + 4)
            ether_type = ETHER_IPV6
        code = icrc(header, udp, transport)
        if not good_icrc:
            code = bytes(byte ^ 0x5A for byte in code)
        return self.ethernet(ether_type, header + udp + transport + code)

    def datagram(self, attribute, transaction, body, psn=0, qkey=GSI_QKEY, mad_bytes=256):
        """Returns a frame with a MAD to queue pair 1."""
        mad = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, transaction, attribute, 0, 0) + body
        return self.roce(bth(UD_SEND_ONLY, GSI_QPN, psn) + struct.pack("!II", qkey, GSI_QPN)
                         + mad[:mad_bytes].ljust(mad_bytes, b"\0"))


def bth(opcode, qpn, psn, ack=False, pad=0, pkey=0xFFFF, version=0):
    return struct.pack("!BBHII", opcode, pad << 4 | version, pkey, qpn, ack << 31 | psn)


def reth(address, key, length):
    return struct.pack("!QII", address, key, length)


# ---- CM messages: (name, bits) of the fields in order; reserved fields have no name.

_PATH = (("local_lid", 16), ("remote_lid", 16), ("local_gid", 128), ("remote_gid", 128),
         ("flow_label", 20), ("", 6), ("packet_rate", 6), ("traffic_class", 8), ("hop_limit", 8),
         ("service_level", 4), ("subnet_local", 1), ("", 3), ("ack_timeout", 5), ("", 3))
_IDS = (("local_comm_id", 32), ("remote_comm_id", 32))
LAYOUTS = {
    "REQ": (0x10, (("local_comm_id", 32), ("", 8), ("vendor_id", 24), ("service_id", 64),
                   ("local_ca_guid", 64), ("", 32), ("local_qkey", 32), ("local_qpn", 24),
                   ("responder_resources", 8), ("local_eecn", 24), ("initiator_depth", 8),
                   ("remote_eecn", 24), ("remote_cm_response_timeout", 5), ("transport_type", 2),
                   ("flow_control", 1), ("starting_psn", 24), ("local_cm_response_timeout", 5),
                   ("retry_count", 3), ("pkey", 16), ("path_mtu", 4), ("rdc_exists", 1),
                   ("rnr_retry_count", 3), ("max_cm_retries", 4), ("srq", 1), ("", 3), *_PATH,
                   ("alternate_path", 352), ("private_data", 736))),
    "MRA": (0x11, (*_IDS, ("message", 2), ("", 6), ("service_timeout", 5), ("", 3),
                   ("private_data", 1776))),
    "REJ": (0x12, (*_IDS, ("message", 2), ("", 6), ("info_length", 7), ("", 1), ("reason", 16),
                   ("info", 576), ("private_data", 1184))),
    "REP": (0x13, (*_IDS, ("local_qkey", 32), ("local_qpn", 24), ("", 8), ("local_eecn", 24),
                   ("", 8), ("starting_psn", 24), ("", 8), ("responder_resources", 8),
                   ("initiator_depth", 8), ("target_ack_delay", 5), ("failover_accepted", 2),
                   ("flow_control", 1), ("rnr_retry_count", 3), ("srq", 1), ("", 4),
                   ("local_ca_guid", 64), ("private_data", 1568))),
    "RTU": (0x14, (*_IDS, ("private_data", 1792))),
    "DREQ": (0x15, (*_IDS, ("remote_qpn", 24), ("", 8), ("private_data", 1760))),
    "DREP": (0x16, (*_IDS, ("private_data", 1792))),
    "SIDR_REQ": (0x17, (("request_id", 32), ("pkey", 16), ("", 16), ("service_id", 64),
                        ("private_data", 1728))),
    "LAP": (0x19, (*_IDS, ("", 32), ("remote_qpn", 24), ("", 8), ("rest", 1696))),
}
NAMES = {attribute: name for name, (attribute, _) in LAYOUTS.items()}
MAD_BODY_BYTES = 232


def emit(name, **values):
    """Returns the body of a MAD."""
    number = 0
    for field, bits in LAYOUTS[name][1]:
        number = number << bits | values.pop(field, 0) & (1 << bits) - 1
    assert not values, values
    return number.to_bytes(MAD_BODY_BYTES, "big")


def parse(name, body):
    number = int.from_bytes(body, "big")
    fields = {}
    for field, bits in reversed(LAYOUTS[name][1]):
        if field:
            fields[field] = number & (1 << bits) - 1
        number >>= bits
    return fields


# RFC 8797 private data: remote invalidation, and Send and Receive sizes of 4 KiB.
RPC_PRIVATE_DATA = bytes.fromhex("f6ab0e1801010303")


def private_data(source, destination, port, more=RPC_PRIVATE_DATA):
    """Returns a REQ's private data: the RDMA IP CM header of annex A11, and the consumer's data."""
    pad = b"\0" * (12 if source.version == 4 else 0)
    header = (bytes([0, source.version << 4]) + struct.pack("!H", port) + pad + source.packed + pad
              + destination.packed)
    return int.from_bytes((header + more).ljust(92, b"\0"), "big")


def request(path, service_port, comm_id, qpn, **changes):
    """Returns the body of a REQ that a listener accepts."""
    values = {
        "local_comm_id": comm_id, "service_id": 0x01060000 + service_port,
        "local_ca_guid": 0x0200_00FF_FE00_0000 + comm_id, "local_qpn": qpn,
        "responder_resources": 4, "initiator_depth": 4, "remote_cm_response_timeout": 20,
        "starting_psn": 0x1000, "local_cm_response_timeout": 20, "retry_count": 7, "pkey": 0xFFFF,
        "path_mtu": 3, "rnr_retry_count": 7, "max_cm_retries": 15, "local_lid": 0xFFFF,
        "remote_lid": 0xFFFF, "local_gid": int.from_bytes(gid(path.source), "big"),
        "remote_gid": int.from_bytes(gid(path.destination), "big"), "hop_limit": 64,
        "ack_timeout": 16, "private_data": private_data(path.source, path.destination, 12345),
    }
    return emit("REQ", **{**values, **changes})


# ---- ARP and neighbour discovery.

def arp(operation, sender_mac, sender, target_mac, target, destination=BROADCAST, vlan=None):
    path = Path(sender_mac, destination, sender, target, vlan)
    return path.ethernet(ETHER_ARP, struct.pack("!HHBBH6s4s6s4s", 1, ETHER_IPV4, 6, 4, operation,
                                                sender_mac, sender.packed, target_mac,
                                                target.packed))


def solicited_node(address):
    return ipaddress.IPv6Address(b"\xff\x02" + bytes(9) + b"\x01\xff" + address.packed[13:])


def multicast_mac(group):
    return b"\x33\x33" + group.packed[12:]


def solicitation(sender_mac, sender, target, vlan=None):
    group = solicited_node(target)
    path = Path(sender_mac, multicast_mac(group), sender, group, vlan)
    message = struct.pack("!BBHI", 135, 0, 0, 0) + target.packed + b"\1\1" + sender_mac
    return path.ip(ICMPV6, icmpv6(sender, group, message), hop_limit=255)


def advertisement(sender_mac, target, destination, destination_mac, flags, vlan=None):
    """Returns a neighbour advertisement. `flags`: 0x40 = solicited, 0x20 = override."""
    path = Path(sender_mac, destination_mac, target, destination, vlan)
    message = struct.pack("!BBHI", 136, 0, 0, flags << 24) + target.packed + b"\2\1" + sender_mac
    return path.ip(ICMPV6, icmpv6(target, destination, message), hop_limit=255)
