"""Tests pollux demo on a good wire and on a lossy one."""

import hashlib
import json

from tests.command.harness import CommandTest, Host


class DemoTest(CommandTest):

    def demo(self, *arguments):
        run = self.finish(Host(), "demo", "--json", "--calls", "500", *arguments)
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assertEqual(len(run.stdout.splitlines()), 1, run.stdout)
        return json.loads(run.stdout)

    def check(self, answer, data):
        digest = hashlib.sha256(data).hexdigest()
        self.assertIs(answer["ok"], True)
        self.assertEqual(answer["file_bytes"], len(data))
        self.assertEqual(answer["sha256_sent"], digest)
        self.assertEqual(answer["sha256_received"], digest)
        self.assertEqual(answer["client_to_server_inline"], 4096)
        self.assertEqual(answer["server_to_client_inline"], 4096)
        latency = answer["latency_us"]
        self.assertGreater(latency["p50"], 0)
        self.assertLessEqual(latency["p50"], latency["p99"])
        self.assertLessEqual(latency["p99"], latency["p999"])
        for rate in ("calls_per_second", "put_bytes_per_second", "get_bytes_per_second"):
            self.assertGreater(answer[rate], 0)
        # The file goes both ways in packets of at most 4,096 bytes. Each of the 500 calls takes two
        # packets, call and reply.
        self.assertGreater(answer["packets_sent"], 2 * len(data) // 4096 + 2 * 500)

    def test_a_file_is_transferred_and_read_back(self):
        path = self.file("data", (3 << 20) + 4321)
        self.check(self.demo("--file", path), path.read_bytes())

    def test_lost_packets_are_retransmitted(self):
        path = self.file("data", (3 << 20) + 4321)
        answer = self.demo("--file", path, "--impair", "loss=0.01,seed=7")
        self.check(answer, path.read_bytes())
        self.assertGreater(answer["retransmitted_packets"], 0)

    def test_the_default_demo_prints_messages_and_latencies(self):
        run = self.finish(Host(), "demo", "--calls", "100")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        for words in ("-> REQ", "<- REP", "-> RTU", "RFC 8797 private data: version 1",
                      "inline thresholds: client to server 4096"):
            self.assertIn(words, run.stderr)
        for words in ("latency 99.9 %", "retransmitted", "SHA-256 sent", "SHA-256 received"):
            self.assertIn(words, run.stdout)

    def test_a_missing_file_is_an_error(self):
        run = self.finish(Host(), "demo", "--json", "--file", "nosuch")
        self.assertEqual(run.process.returncode, 1)
        self.assertIn("nosuch", run.stderr)
        self.assertFalse(json.loads(run.stdout)["ok"])

    def test_an_interrupt_ends_the_demo(self):
        run = self.start(Host(), "demo", "--calls", "1000000000")
        run.wait_for_line("inline thresholds")
        self.assertEqual(run.interrupt(), 1)
        self.assertIn("interrupted", run.stderr)
        self.assertIn("-> DREQ", run.stderr)
