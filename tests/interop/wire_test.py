"""Tests the capture reader of the interop cases on captures of Linux."""

import contextlib
import dataclasses
import gzip
import os
import pathlib
import struct
import tempfile
import unittest

from tests.interop import wire

CAPTURES = pathlib.Path("tests/conformance/captures")


@contextlib.contextmanager
def unpacked(name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "wire.pcap")
        with gzip.open(CAPTURES / name) as packed, open(path, "wb") as plain:
            plain.write(packed.read())
        yield path


def frames_of(name):
    with unpacked(name) as path:
        return list(wire.records(path))


class WireTest(unittest.TestCase):
    def setUp(self):
        self.records = frames_of("nfs_v3.pcap.gz")
        self.frames = [frame for frame in (wire.parse(*record) for record in self.records) if frame]

    def test_every_icrc_is_valid(self):
        self.assertGreater(len(self.frames), 100)
        self.assertTrue(all(frame.good_icrc for frame in self.frames))

    def test_every_flipped_payload_bit_fails_the_icrc(self):
        number, data = next(record for record in self.records if wire.parse(*record))
        for at in range(14 + 20 + 8 + 12, len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1
            self.assertFalse(wire.parse(number, bytes(damaged)).good_icrc, at)

    def test_fields_that_routers_change_are_ignored(self):
        number, data = next(record for record in self.records if wire.parse(*record))
        changed = bytearray(data)
        changed[14 + 1] = 3  # congestion experienced
        changed[14 + 8] -= 1  # hops left
        self.assertTrue(wire.parse(number, bytes(changed)).good_icrc)

    def test_the_solicited_bit_is_decoded(self):
        number, data = next(record for record in self.records if wire.parse(*record))
        for flags, solicited in ((0x00, False), (0x7F, False), (0x80, True)):
            changed = bytearray(data)
            changed[14 + 20 + 8 + 1] = flags
            self.assertEqual(wire.parse(number, bytes(changed)).solicited, solicited)

    def test_packets_are_named(self):
        names = {name for frame in self.frames for name in frame.names}
        for name in ("REQ", "REP", "RTU", "RC SEND ONLY", "RC READ REQUEST", "RC ACK"):
            self.assertIn(name, names)
        for opcode, syndrome, expected in ((0x11, 0x60, "NAK SEQUENCE"), (0x11, 0x62, "NAK ACCESS"),
                                           (0x11, 0x2C, "RNR NAK")):
            self.assertEqual(wire.names_of(opcode, 77, bytes((syndrome, 0, 0, 1))),
                             ("RC ACK", expected))
        self.assertEqual(wire.names_of(0x11, 77, bytes((0x1F, 0, 0, 1))), ("RC ACK",))

    def test_groups_of_an_igmp_report_are_found(self):
        # An option in the IP header, two records, the first with a source.
        report = bytes.fromhex("01005e000016 020000000001 0800"
                               "46c00034 00004000 01020000 c0000201 e0000016 94040000"
                               "2200 0000 0000 0002"
                               "06000001 ef010203 c6336401 04000000 ef010204")
        self.assertEqual(wire.reported_groups(report),
                         ("192.0.2.1", ["239.1.2.3", "239.1.2.4"]))
        for size in range(len(report)):
            self.assertIsNone(wire.reported_groups(report[:size]), size)
        self.assertTrue(all(wire.reported_groups(data) is None for _, data in self.records))

    def test_truncated_frames_are_not_roce(self):
        number, data = next(record for record in self.records if wire.parse(*record))
        length, = struct.unpack_from("!H", data, 14 + 2)
        for size in range(14 + length):
            self.assertIsNone(wire.parse(number, data[:size]), size)

    def test_packets_and_retransmissions_are_counted(self):
        with unpacked("nfs_v3.pcap.gz") as path:
            evidence = wire.Evidence(path, ())
        sends = evidence.packets("pollux", "RC SEND ONLY", "RC SEND FIRST")
        self.assertEqual(sends, sum(evidence.count("pollux", name)
                                    for name in ("RC SEND ONLY", "RC SEND FIRST")))
        self.assertEqual(evidence.packets("linux", "RC SEND ONLY"), 0)
        self.assertFalse(evidence.repeats())
        first = next(frame for frame in evidence.frames if frame.names[0] == "RC SEND ONLY")
        answer = next(frame for frame in evidence.frames if frame.names[0] == "RC ACK")
        evidence.frames.append(answer)  # a repeated ACK is no retransmission
        self.assertFalse(evidence.repeats())
        evidence.frames.append(first)
        self.assertTrue(evidence.repeats())
        self.assertEqual(evidence.packets("pollux", "RC SEND ONLY", "RC SEND FIRST"), sends)

    def test_repeated_cm_messages_are_found(self):
        with unpacked("nfs_v3.pcap.gz") as path:
            evidence = wire.Evidence(path, ())
        request = next(frame for frame in evidence.frames if "REQ" in frame.names)
        # Each repetition has a PSN of its own.
        evidence.frames.append(dataclasses.replace(request, psn=request.psn + 1))
        self.assertTrue(evidence.repeats())

    def test_lost_datagrams_are_counted(self):
        with unpacked("nfs_v3.pcap.gz") as path:
            evidence = wire.Evidence(path, ())
        datagram = next(frame for frame in evidence.frames if frame.names[0] == "UD SEND ONLY")
        other = datagram.payload[:5] + b"\x00\x00\x99" + datagram.payload[8:]

        def lost(*psns, sender="pollux"):
            evidence.frames = [dataclasses.replace(datagram, psn=psn) for psn in psns]
            # A datagram of another queue pair comes between them.
            evidence.frames[1:1] = [dataclasses.replace(datagram, psn=7, payload=other)]
            return evidence.lost_datagrams(sender)

        self.assertEqual(lost(4, 5, 6), 0)
        self.assertEqual(lost(4, 7, 8, 10), 3)
        self.assertEqual(lost(0xFFFFFE, 0xFFFFFF, 1), 1)
        self.assertEqual(lost(4, 5, 5, 4, 6), 0)  # repeated on the wire
        self.assertEqual(lost(4, 7, sender="linux"), 0)


if __name__ == "__main__":
    unittest.main()
