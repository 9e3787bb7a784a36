"""Compares the hostile peer's frames with those of Linux and of real adapters."""

import gzip
import ipaddress
import pathlib
import struct
import unittest

from tests.hostile import wire

CAPTURES = pathlib.Path("tests/conformance/captures")


class Parts:
    """The parts of a RoCE frame."""

    def __init__(self, frame):
        if frame[12:14] == b"\x81\x00":
            frame = frame[:12] + frame[16:]
        version = frame[14] >> 4
        header = 20 if version == 4 else 40
        length = struct.unpack_from("!H", frame, 16 if version == 4 else 18)[0]
        end = 14 + length if version == 4 else 14 + 40 + length
        self.ip = frame[14:14 + header]
        self.udp = frame[14 + header:22 + header]
        self.transport = frame[22 + header:end - 4]
        self.icrc = frame[end - 4:end]
        at = 12 if version == 4 else 8
        size = 4 if version == 4 else 16
        self.path = wire.Path(frame[6:12], frame[:6],
                              ipaddress.ip_address(self.ip[at:at + size]),
                              ipaddress.ip_address(self.ip[at + size:at + 2 * size]))


def frames(name):
    data = gzip.decompress((CAPTURES / name).read_bytes())
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at < len(data):
        (length,) = struct.unpack_from(f"{order}I", data, at + 8)
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def is_roce(frame):
    if frame[12:14] == b"\x08\x00":
        return frame[23] == wire.UDP and frame[36:38] == b"\x12\xb7"
    return frame[12:14] == b"\x86\xdd" and frame[20] == wire.UDP and frame[56:58] == b"\x12\xb7"


class WireTest(unittest.TestCase):
    def test_icrc_matches_the_vectors(self):
        count = 0
        for line in (CAPTURES / "icrc-vectors.txt").read_text(encoding="ascii").splitlines():
            if line.startswith("#"):
                continue
            name, code, frame = line.split()
            if name.startswith("rocev1"):
                continue
            parts = Parts(bytes.fromhex(frame))
            made = wire.icrc(parts.ip, parts.udp, parts.transport)
            self.assertEqual(made.hex(), code, name)
            self.assertEqual(made, parts.icrc, name)
            count += 1
        self.assertGreater(count, 20)

    def test_frames_match_those_of_linux(self):
        for capture in ("ucmatose.pcap.gz", "ib_write_bw_ipv6.pcap.gz"):
            checked = 0
            for frame in filter(is_roce, frames(capture)):
                parts = Parts(frame)
                made = Parts(parts.path.roce(parts.transport))
                self.assertEqual(made.transport, parts.transport)
                # Fields that routers may change are not compared: Linux fills them in its own way.
                self.assertEqual(made.udp[2:6], parts.udp[2:6])
                self.assertEqual(wire.icrc(parts.ip, parts.udp, parts.transport), parts.icrc)
                checked += 1
            self.assertGreater(checked, 20, capture)

    def test_cm_messages_round_trip_byte_for_byte(self):
        seen = set()
        for capture in ("ucmatose.pcap.gz", "cm_reject_ucmatose.pcap.gz", "nfs_v3.pcap.gz"):
            for frame in filter(is_roce, frames(capture)):
                transport = Parts(frame).transport
                if transport[0] != wire.UD_SEND_ONLY or transport[21] != 7:
                    continue
                (attribute,) = struct.unpack_from("!H", transport, 36)
                body = transport[44:]
                name = wire.NAMES[attribute]
                if name in ("REP", "MRA"):  # Linux sets reserved bits in these
                    continue
                self.assertEqual(wire.emit(name, **wire.parse(name, body)), body, name)
                seen.add(name)
        self.assertLessEqual({"REQ", "REJ", "RTU", "DREQ", "DREP"}, seen)

    def test_fields_of_a_request_match_linux(self):
        """Checks that our fields are where Linux has them."""
        for frame in filter(is_roce, frames("nfs_v3.pcap.gz")):
            parts = Parts(frame)
            if struct.unpack_from("!H", parts.transport, 36)[0] != 0x10:
                continue
            theirs = wire.parse("REQ", parts.transport[44:])
            self.assertEqual(theirs["service_id"], 0x01060000 + 20049)
            self.assertEqual(theirs["local_gid"],
                             int.from_bytes(wire.gid(parts.path.source), "big"))
            ours = wire.parse("REQ", wire.request(
                parts.path, 20049, theirs["local_comm_id"], theirs["local_qpn"]))
            for field in ("service_id", "local_gid", "remote_gid", "local_lid", "pkey",
                          "transport_type", "local_qpn"):
                self.assertEqual(ours[field], theirs[field], field)
            # The RDMA IP CM header except the port.
            self.assertEqual(ours["private_data"] >> 448 & (1 << 256) - 1,
                             theirs["private_data"] >> 448 & (1 << 256) - 1)
            return
        self.fail("no REQ")
