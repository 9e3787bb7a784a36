"""pollux bench with its server over shared memory, and its page in a browser."""

import json
import os
import signal

from tests.command.browser import Browser
from tests.command.harness import CLIENT, SERVER, CommandTest, Host

# No limit of time: each measurement comes to its end.
QUICK = ("--count", "100", "--seconds", "0", "--mib", "2", "--sizes", "2,4096,1048576")


class BenchTest(CommandTest):
    def port(self, role):
        return ("--port", f"net_memif0,role={role},socket={self.directory}/m", "--address",
                f"{SERVER if role == 'server' else CLIENT}/24")

    def serve(self, *arguments):
        run = self.start(Host(), "bench", "--server", *self.port("server"), *arguments)
        run.wait_for_line("^serving measurements ")
        return run

    def client(self, *arguments):
        return self.finish(Host(), "bench", *self.port("client"), *arguments, SERVER)

    def asked(self, *arguments):
        run = self.client("--json", *arguments)
        self.assertEqual(run.process.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def end(self, server):
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_every_operation_in_every_size(self):
        server = self.serve()
        answer = self.asked(*QUICK)
        self.assertIs(answer["ok"], True)
        kinds = [(one["operation"], one.get("bytes")) for one in answer["measurements"]]
        sizes = (2, 4096, 1 << 20)
        self.assertEqual(kinds, [("null", None)] + [
            (operation, size) for operation in ("send", "write", "read") for size in sizes])
        for one in answer["measurements"]:
            self.assertEqual(one["latency"]["operations"], 100, one)
            self.assertGreater(one["rate"]["operations"], 0, one)
            latency = one["latency"]["latency_us"]
            self.assertLessEqual(latency["p50"], latency["p99"])
            self.assertLessEqual(latency["p99"], latency["max"])
            self.assertGreater(latency["p50"], 0)
        for key in ("write_bytes_per_second", "read_bytes_per_second", "packets_sent"):
            self.assertGreater(answer[key], 0)
        if len(os.sched_getaffinity(0)) > 1:
            for when in ("before", "after"):
                self.assertGreater(answer["core_to_core_ns"][when], 0)
        self.end(server)
        self.assertIn("the client of the measurements has gone", server.stderr)

    def test_one_client_after_another(self):
        # Whoever leaves closes the shared memory, which begins anew with the next.
        for _ in range(2):
            server = self.serve()
            self.asked("--measure", "write", *QUICK)
            self.end(server)

    def test_open_loop_keeps_its_rate(self):
        server = self.serve()
        answer = self.asked("--measure", "null,send", "--rate", "1000", "--count", "100",
                            "--seconds", "0", "--sizes", "64")
        self.assertEqual(answer["asked_per_second"], 1000)
        for one in answer["measurements"]:
            self.assertEqual(one["latency"]["operations"], 100)
            # Not faster than asked for, however fast the server: the last is due after 99 ms.
            self.assertLessEqual(one["latency"]["per_second"], 1011)
        self.end(server)

    def test_text(self):
        server = self.serve()
        run = self.client("--measure", "null,read", *QUICK)
        self.assertEqual(run.process.returncode, 0, run.stderr)
        lines = run.stdout.splitlines()
        self.assertIn("median us", lines[0])
        self.assertEqual([line.split()[0] for line in lines[1:5]],
                         ["null", "read", "read", "read"])
        self.assertLessEqual({line.split(":")[0].split()[0] for line in lines[5:]}, {"core"})
        self.end(server)

    def test_bad_wire(self):
        server = self.serve("--impair", "loss=0.02,corrupt=0.02")
        answer = self.asked("--measure", "send,write,read", "--count", "50", "--seconds", "0",
                            "--sizes", "64,65536")
        for one in answer["measurements"]:
            self.assertEqual(one["latency"]["operations"], 50, one)
        self.assertGreater(answer["retransmitted_packets"], 0)
        self.end(server)

    def test_server_without_verbs(self):
        server = self.start(Host(), "serve", *self.port("server"), "--root", self.directory)
        server.wait_for_line("^serving ")
        self.assert_one_line(self.client(), 1, "pollux bench --server", "--measure null,blocks")
        self.end(server)

    def test_interrupted(self):
        server = self.serve()
        client = self.start(Host(), "bench", *self.port("client"), "--measure", "send",
                            "--seconds", "0", "--count", "1000000000", SERVER)
        server.wait_for_line("a client is connected")
        self.assertEqual(client.interrupt(signal.SIGTERM), 1)
        self.assertIn("interrupted", client.stderr)
        server.wait_for_line("the client of the measurements has gone")
        self.end(server)

    def test_wrong_options(self):
        for arguments, words in (
                (("--server", SERVER), ("--server",)),
                (("--measure", "frob", SERVER), ("frob", "null, blocks")),
                (("--sizes", "0", SERVER), ("1048576",))):
            run = self.finish(Host(), "bench", *self.port("client"), *arguments)
            self.assert_one_line(run, 2, *words)
        run = self.finish(Host(), "bench", *self.port("client"), "--html", "/nonexistent/x", SERVER)
        self.assert_one_line(run, 1, "/nonexistent/x")

    def test_page_in_a_browser(self):
        browser = Browser(self.directory)
        server = self.serve()
        page = self.directory / "bench.html"
        self.asked(*QUICK, "--html", page)
        self.end(server)
        dom, console = browser.open(page)
        self.assertEqual(console, [])
        # Two of each operation's latency, two of throughput, each with axes and a curve a series.
        self.assertEqual(dom.count("figure", "chart"), 10)
        self.assertEqual(dom.count("path", "axis"), 10)
        self.assertEqual(dom.count("text", "label"), 20)
        # One of NULL, three sizes of each verb, in both kinds; three verbs in two of throughput.
        # Each once more in its legend.
        self.assertEqual(dom.count("path", "curve"), 2 * (2 * (1 + 9) + 2 * 3))
        for text in ("pollux bench", "Conditions", "processor", "kernel", "path MTU of the port",
                     "Throughput by message size", "throughput, Gb/s", "percentile",
                     "latency, \u00b5s", "1 MiB", "All figures"):
            self.assertIn(text, dom.texts)
        for figure in (one for one in dom.elements if one[0] == "path"):
            self.assertNotIn("nan", figure[1].get("d", ""))
        self.assertNotIn("script", [name for name, _ in dom.elements])
        png = browser.screenshot(page, self.directory / "page.png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
