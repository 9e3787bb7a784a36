"""Tests pollux decode on captures made by Linux and on damaged files."""

import gzip
import json
import os
import struct
import subprocess

from tests.command.harness import POLLUX, CommandTest, Host

CAPTURES = os.path.abspath("tests/conformance/captures")


class DecodeTest(CommandTest):

    def decode(self, *arguments, status=0):
        run = self.finish(Host(), "decode", *arguments)
        self.assertEqual(run.process.returncode, status, run.stdout[-2000:] + run.stderr)
        return run.stdout

    def test_every_capture_passes(self):
        paths = sorted(os.path.join(CAPTURES, name) for name in os.listdir(CAPTURES)
                       if name.endswith(".pcap.gz"))
        self.assertGreater(len(paths), 15)
        total = self.decode("--brief", *paths).splitlines()[-1]
        self.assertRegex(total, r"^\d+ frames, \d+ RoCE, 0 unchecked, 0 cut, 0 failed$")

    def test_an_nfs_mount_is_decoded_as_text(self):
        text = self.decode(f"{CAPTURES}/nfs_v3.pcap.gz")
        for words in ("CM REQ service 0x0000000001064e51 (port 20049)", "        cm: message REQ",
                      "          cma: version 0x00, source ", "          rfc8797: version 1",
                      "CM RTU", "RDMA_MSG XID 0x", "          reply_chunk:", "icrc: value 0x"):
            self.assertIn(words, text)

    def test_json_has_an_object_per_frame(self):
        lines = self.decode("--json", f"{CAPTURES}/udaddy.pcap.gz").splitlines()
        *frames, last = [json.loads(line) for line in lines]
        self.assertEqual(last["totals"], {"frames": len(frames), "unchecked": 0, "cut": 0,
                                          "failed": 0,
                                          "roce": sum(frame["roce"] for frame in frames)})
        self.assertEqual([frame["frame"] for frame in frames], list(range(1, len(frames) + 1)))
        messages = {frame["cm"]["message"] for frame in frames if "cm" in frame}
        self.assertLessEqual({"SIDR_REQ", "SIDR_REP"}, messages)

    def test_a_damaged_frame_fails_and_is_reported(self):
        whole = gzip.decompress(open(f"{CAPTURES}/vectors.pcap.gz", "rb").read())
        flipped = bytearray(whole)
        flipped[-1] ^= 1
        damaged = self.directory / "damaged.pcap"
        damaged.write_bytes(flipped)
        text = self.decode("--brief", damaged, status=1)
        self.assertEqual(text.count("!!"), 1)
        self.assertIn("!! wrong ICRC", text)
        self.assertIn(" 1 failed\n", text)
        short = self.directory / "short.pcap"
        short.write_bytes(whole[:-3])
        run = self.finish(Host(), "decode", "--brief", short)
        self.assert_one_line(run, 1, "short.pcap", "truncated")
        self.assertRegex(run.stdout, r"\n\d+ frames, .* 0 failed\n$")
        run = self.finish(Host(), "decode", "nosuch.pcap")
        self.assert_one_line(run, 1, "nosuch.pcap", "No such file")
        run = self.finish(Host(), "decode")
        self.assert_one_line(run, 2, "usage: pollux decode")

    def vectors(self):
        """Returns the bytes of a classic pcap file with frames of every kind."""
        return gzip.decompress(open(f"{CAPTURES}/vectors.pcap.gz", "rb").read())

    def test_complete_headers_of_truncated_frames_are_shown(self):
        whole = self.vectors()
        cut, at, frames = bytearray(whole[:24]), 24, 0
        while at < len(whole):
            header = struct.unpack_from("<IIII", whole, at)
            kept = min(60, header[2])
            cut += struct.pack("<IIII", *header[:2], kept, header[3])
            cut += whole[at + 16:at + 16 + kept]
            at += 16 + header[2]
            frames += 1
        path = self.directory / "cut.pcap"
        path.write_bytes(cut)
        text = self.decode(path)
        self.assertNotIn("!!", text)
        self.assertIn("(ICRC not checked: cut to 60 of ", text)
        self.assertIn("        bth: opcode ", text)
        totals = json.loads(self.decode("--json", path).splitlines()[-1])["totals"]
        self.assertEqual((totals["frames"], totals["failed"]), (frames, 0))
        self.assertGreater(totals["cut"], frames // 2)

    def test_standard_input_is_decoded(self):
        with open(f"{CAPTURES}/vectors.pcap.gz", "rb") as capture:
            run = subprocess.run([POLLUX, "decode", "--brief", "-"], stdin=capture,
                                 capture_output=True, text=True, check=True)
        self.assertRegex(run.stdout, r"\n\d+ frames, .* 0 failed\n$")
        run = subprocess.run([POLLUX, "decode", "-"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("standard input: ", run.stderr)

    def test_files_after_an_invalid_one_are_decoded(self):
        run = self.finish(Host(), "decode", "--brief", "nosuch.pcap", f"{CAPTURES}/udaddy.pcap.gz")
        self.assert_one_line(run, 1, "nosuch.pcap", "No such file")
        self.assertIn("CM SIDR_REQ", run.stdout)
        self.assertRegex(run.stdout, r"\n[1-9]\d* frames, .* 0 failed\n$")

    def test_a_failed_write_of_the_output_is_reported(self):
        for options in ([], ["--json"]):
            with open("/dev/full", "w") as full:
                run = subprocess.run([POLLUX, "decode", *options, f"{CAPTURES}/udaddy.pcap.gz"],
                                     stdout=full, stderr=subprocess.PIPE, text=True,
                                     check=False)
            self.assertEqual(run.returncode, 1)
            self.assertEqual(run.stderr.splitlines(), [
                "pollux decode: writing the result: No space left on device"])
