"""Tests --capture, which writes the frames of a run to a pcapng file for other programs."""

import json
import os
import pathlib
import subprocess

from tests.command.harness import CLIENT, SERVER, CommandTest, Host

CONFORMANCE = os.path.abspath("tests/conformance/conformance")


class CaptureTest(CommandTest):

    def checked(self, path):
        """Returns the counts of a capture, in which every RoCE frame must pass the check.

        The check reads the file by libpcap and compares two implementations of each ICRC.
        """
        done = subprocess.run([CONFORMANCE, "--json", path], stdout=subprocess.PIPE, check=False)
        report = json.loads(done.stdout)
        self.assertTrue(report["ok"], report)
        return report["files"][0]["counts"]

    def serve_and_put(self, *client_options, server_capture=None):
        root = self.directory / "root"
        root.mkdir()
        capture = ("--capture", server_capture) if server_capture else ()
        server = self.start(Host(), "serve", "--port",
                            f"net_memif0,role=server,socket={self.directory}/m", "--address",
                            f"{SERVER}/24", "--root", root, "--json", *capture)
        server.wait_for_line("^serving ")
        sent = self.file("sent", 300_001)
        client = self.finish(Host(), "put", "--port",
                             f"net_memif0,role=client,socket={self.directory}/m", "--address",
                             f"{CLIENT}/24", "--json", *client_options, SERVER, sent, "there")
        self.assertEqual(client.process.returncode, 0, client.stderr)
        self.assertEqual((root / "there").read_bytes(), sent.read_bytes())
        return server, client

    def test_both_sides_capture_the_same_transfer(self):
        at_server, at_client = (self.directory / name for name in ("s.pcapng", "c.pcapng"))
        server, client = self.serve_and_put("--capture", at_client, server_capture=at_server)
        self.assertEqual(server.interrupt(), 0, server.stderr)
        seen, also = self.checked(at_client), self.checked(at_server)
        # The MADs are REQ, REP, RTU, DREQ and DREP; the file travels in READ responses of at most
        # 4,096 bytes.
        for mad in ("0x0010", "0x0013", "0x0014", "0x0015", "0x0016"):
            self.assertGreaterEqual(seen[f"mad.{mad}"], 1)
            self.assertEqual(also[f"mad.{mad}"], seen[f"mad.{mad}"])
        responses = sum(seen.get(f"opcode.0x{opcode:02x}", 0) for opcode in (13, 14, 15, 16))
        self.assertGreaterEqual(responses, 300_001 // 4096)
        # Each capture has the frames of both sides: the wire lost none.
        self.assertEqual(seen["roce"], also["roce"])
        self.assertLess(json.loads(client.stdout)["packets_sent"], seen["frames"])

    def test_an_interrupted_run_leaves_a_complete_capture(self):
        path = self.directory / "c.pcapng"
        run = self.start(Host(), "demo", "--calls", "1000000000", "--capture", path)
        run.wait_for_line("inline thresholds")
        self.assertEqual(run.interrupt(), 1)
        counts = self.checked(path)
        # Each of the two ports sees every message; a busy machine may have repeated some.
        for mad in ("0x0010", "0x0016"):
            self.assertGreaterEqual(counts[f"mad.{mad}"], 2)

    def test_two_processes_with_one_file_name_have_two_files(self):
        path = self.directory / "c.pcapng"
        first = self.start(Host(), "demo", "--calls", "1000000000", "--capture", path)
        first.wait_for_line("inline thresholds")
        second = self.finish(Host(), "demo", "--json", "--calls", "10", "--capture", path)
        self.assertEqual(second.process.returncode, 0, second.stderr)
        own = pathlib.Path(f"{path}.{second.process.pid}")
        self.assertIn(f"another process writes {path}; this one captures into {own}",
                      second.stderr)
        self.assertEqual(first.interrupt(), 1)
        for capture in (path, own):
            self.assertGreaterEqual(self.checked(capture)["mad.0x0010"], 2)

    def test_a_server_outlives_the_reader_of_its_capture(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        # Its reader takes nothing of the first transfer, which is longer than a pipe.
        server, _ = self.serve_and_put(server_capture=pipe)
        os.close(reader)
        listed = self.finish(Host(), "ls", "--port",
                             f"net_memif0,role=client,socket={self.directory}/m", "--address",
                             f"{CLIENT}/24", SERVER)
        self.assertEqual(listed.process.returncode, 0, listed.stderr)
        self.assertEqual(server.interrupt(), 0, server.stderr)
        self.assertIn(f"capture {pipe} is incomplete", server.stderr)
        self.assertIn("Broken pipe", server.stderr)

    def test_full_disk_is_reported(self):
        if not pathlib.Path("/dev/full").exists():
            self.skipTest("needs /dev/full")
        run = self.finish(Host(), "demo", "--json", "--calls", "10", "--capture", "/dev/full")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assertIn("capture /dev/full is incomplete", run.stderr)
        self.assertIn("No space left", run.stderr)
