"""pollux decode over captures of Linux and over damaged files."""

import gzip
import json
import os

from tests.command.harness import CommandTest, Host

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
        self.assertRegex(total, r"^\d+ frames, \d+ RoCE, 0 failed$")

    def test_an_nfs_mount_in_words(self):
        text = self.decode(f"{CAPTURES}/nfs_v3.pcap.gz")
        for words in ("CM REQ service 0x0000000001064e51 (port 20049)", "        cm: message REQ",
                      "          cma: version 0x00, source ", "          rfc8797: version 1",
                      "CM RTU", "RDMA_MSG XID 0x", "          reply_chunk:", "icrc: value 0x"):
            self.assertIn(words, text)

    def test_json_is_an_object_a_frame(self):
        lines = self.decode("--json", f"{CAPTURES}/udaddy.pcap.gz").splitlines()
        frames = [json.loads(line) for line in lines]
        self.assertEqual([frame["frame"] for frame in frames], list(range(1, len(frames) + 1)))
        messages = {frame["cm"]["message"] for frame in frames if "cm" in frame}
        self.assertLessEqual({"SIDR_REQ", "SIDR_REP"}, messages)

    def test_damage_fails_and_is_named(self):
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
        run = self.finish(Host(), "decode", "nosuch.pcap")
        self.assert_one_line(run, 1, "nosuch.pcap", "No such file")
        run = self.finish(Host(), "decode")
        self.assert_one_line(run, 2, "usage: pollux decode")
