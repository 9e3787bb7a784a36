"""Tests pollux bench with its server over shared memory, and its page in a browser."""

import json
import os
import signal
from xml.etree import ElementTree

from tests.command.browser import Browser
from tests.command.harness import CLIENT, SERVER, CommandTest, Host, wait_for

# No time limit: each measurement makes all its operations.
SHORT = ("--count", "100", "--seconds", "0", "--mib", "2")
QUICK = (*SHORT, "--passes", "2", "--sizes", "2,4096,1048576", "--pairs", "1,5")


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

    def test_every_operation_is_measured_in_every_size(self):
        server = self.serve()
        answer = self.asked(*QUICK)
        self.assertIs(answer["ok"], True)
        # If the distance between the cores changes, some passes are reported separately ("apart").
        passes = answer["passes"]
        self.assertEqual(passes + sum(one["passes"] for one in answer.get("apart", ())), 2)
        kinds = [(one["operation"], one.get("bytes")) for one in answer["measurements"]]
        sizes = (2, 4096, 1 << 20)
        self.assertEqual(kinds, [("null", None)] + [
            (operation, size) for operation in ("send", "write", "read") for size in sizes])
        for one in answer["measurements"]:
            self.assertEqual(one["latency"]["operations"], 100 * passes, one)
            self.assertGreater(one["rate"]["operations"], 0, one)
            for spread in (one["latency"]["p50_us"], one["latency"]["p99_us"]):
                self.assertLessEqual(spread["low"], spread["median"])
                self.assertLessEqual(spread["median"], spread["high"])
            self.assertLessEqual(one["rate"]["per_second_low"], one["rate"]["per_second_high"])
            latency = one["latency"]["latency_us"]
            self.assertLessEqual(latency["p50"], latency["p99"])
            self.assertLessEqual(latency["p99"], latency["max"])
            self.assertGreater(latency["p50"], 0)
        for key in ("write_bytes_per_second", "read_bytes_per_second", "packets_sent"):
            self.assertGreater(answer[key], 0)
        if len(os.sched_getaffinity(0)) > 1:
            for of in (answer, *answer["measurements"], *answer["pairs"]):
                self.assertGreater(of["core_to_core_ns"]["low"], 0)
        self.assertEqual([(one["queue_pairs"], one["cores"]) for one in answer["pairs"]],
                         [(1, 1), (5, 1)])
        for one in answer["pairs"]:
            self.assertGreater(one["per_second"]["low"], 0)
        # 25 messages in each pass on each of the four queue pairs without bulk transfer.
        self.assertEqual(answer["beside_bulk"]["queue_pairs"], 4)
        for load in ("alone", "beside"):
            self.assertEqual(answer["beside_bulk"][load]["operations"], 100 * passes)
        self.assertIs(answer["verdicts_count"], False)
        read = answer["ratios"]["1 MiB READ / WRITE"]
        self.assertEqual((read["at_least"], read["aim"]), (0.85, 0.95))
        self.assertIn("met", answer["ratios"][
            "64 B on 4 queue pairs beside bulk / alone, p99"])
        self.end(server)
        self.assertIn("the measurement client has disconnected", server.stderr)

    def test_successive_clients_are_served(self):
        # The end that leaves closes the shared memory; the next two processes set it up again.
        for _ in range(2):
            server = self.serve()
            self.asked("--measure", "write", *QUICK)
            self.end(server)

    def test_open_loop_keeps_its_rate(self):
        server = self.serve()
        answer = self.asked("--measure", "null,send", "--rate", "1000", "--count", "100",
                            "--seconds", "0", "--sizes", "64", "--passes", "1")
        self.assertEqual(answer["asked_per_second"], 1000)
        for one in answer["measurements"]:
            self.assertEqual(one["latency"]["operations"], 100)
            # The rate is not above the requested one, however fast the server is: the last call is
            # due after 99 ms.
            self.assertLessEqual(one["latency"]["per_second"], 1011)
        self.end(server)

    def test_text_output_has_a_line_for_each_measurement(self):
        server = self.serve()
        run = self.client("--measure", "null,read", *QUICK)
        self.assertEqual(run.process.returncode, 0, run.stderr)
        lines = run.stdout.splitlines()
        # If passes are reported separately, a line with their cores precedes each table.
        if lines[0].startswith("cores "):
            del lines[0]
        self.assertIn("median us", lines[0])
        self.assertIn("low to high", lines[0])
        self.assertEqual([line.split()[0] for line in lines[1:5]],
                         ["null", "read", "read", "read"])
        self.end(server)

    def test_a_lossy_wire_loses_no_operation(self):
        server = self.serve("--impair", "loss=0.02,corrupt=0.02")
        answer = self.asked("--measure", "send,write,read", "--count", "50", "--seconds", "0",
                            "--sizes", "64,65536", "--passes", "1")
        for one in answer["measurements"]:
            self.assertEqual(one["latency"]["operations"], 50, one)
        self.assertGreater(answer["retransmitted_packets"], 0)
        self.end(server)

    def test_verbs_need_a_bench_server(self):
        server = self.start(Host(), "serve", *self.port("server"), "--root", self.directory)
        server.wait_for_line("^serving ")
        self.assert_one_line(self.client(), 1, "pollux bench --server", "--measure null,blocks")
        self.end(server)

    def test_a_client_on_two_cores_spreads_its_queue_pairs(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("needs two CPUs")
        server = self.serve("--idle", "sleep")
        answer = self.asked("--measure", "pairs,beside,send", *SHORT, "--passes", "1", "--sizes",
                            "64", "--pairs", "1,6", "--cores", f"{cpus[0]},{cpus[1]}", "--idle",
                            "sleep")
        # The last entry has only the queue pairs of the first core.
        self.assertEqual([(one["queue_pairs"], one["cores"]) for one in answer["pairs"]],
                         [(1, 1), (6, 2), (3, 1)])
        self.assertEqual(answer["beside_bulk"]["queue_pairs"], 5)
        self.end(server)

    def test_an_interrupted_client_exits_with_an_error(self):
        server = self.serve()
        client = self.start(Host(), "bench", *self.port("client"), "--measure", "send",
                            "--seconds", "0", "--count", "1000000000", SERVER)
        server.wait_for_line("a client is connected")
        self.assertEqual(client.interrupt(signal.SIGTERM), 1)
        self.assertIn("interrupted", client.stderr)
        server.wait_for_line("the measurement client has disconnected")
        self.end(server)

    def test_an_interrupted_client_reports_complete_passes(self):
        server = self.serve()
        for output in ((), ("--json",)):
            page = self.directory / f"bench{len(output)}.html"
            # In the open loop a pass of 40 calls takes 190 ms, and all passes take minutes.
            client = self.start(Host(), "bench", *self.port("client"), *output, "--measure",
                                "null", "--rate", "100", "--count", "20", "--seconds", "0",
                                "--passes", "1000", "--html", page, SERVER)
            before = self.calls(server)
            wait_for("a pass", lambda before=before: self.calls(server) > before + 80)
            self.assertEqual(client.interrupt(), 1)
            self.assertIn("interrupted", client.stderr)
            self.assertIn("measurements ended early because of", page.read_text())
            if output:
                answer = json.loads(client.stdout)
                self.assertIs(answer["ok"], False)
                self.assertEqual(answer["measurements"][0]["operation"], "null")
            else:
                self.assertIn("\nnull ", client.stdout)
                self.assertIn("open loop: 100/s requested", client.stdout)
                self.assertIn("core to core, here: ", client.stdout)
        self.end(server)

    def calls(self, server):
        (process,) = self.told("stat", "--pid", server.process.pid)
        return sum(worker["rpc"]["server/calls_received"] for worker in process["workers"])

    def test_wrong_options_are_refused(self):
        for arguments, words in (
                (("--server", "--html", "x"), ("--html", "of the client")),
                (("--server", "--rate", "5"), ("--rate", "of the client")),
                (("--server", "--assert", "p99<1s"), ("--assert", "of the client")),
                (("--assert", "p98<1s", SERVER), ("--assert", "unknown metric 'p98'", "p50, p99")),
                (("--assert", "p99<20", SERVER), ("--assert", "not a time")),
                (("--measure", "null", "--assert", "send/p99<1s", SERVER),
                 ("send/p99<1s", "--measure")),
                (("--junit", "x", SERVER), ("--junit", "--assert")),
                (("--measure", "blocks", "--rate", "5", SERVER), ("--rate", "null, send")),
                (("--rate", "0x10", SERVER), ("--rate", "0x10")),
                (("--core", "0", "--cores", "0-1", SERVER), ("either --core N or --cores",)),
                (("--core", "1023", SERVER), ("CPU 1023", "has no CPU")),
                (("--server", SERVER), ("--server",)),
                (("--measure", "frob", SERVER), ("frob", "null, blocks")),
                (("--pairs", "129", SERVER), ("129", "1 to 128")),
                (("--passes", "0", SERVER), ("--passes", "1 to 1000")),
                (("--sizes", "0", SERVER), ("1048576",))):
            run = self.finish(Host(), "bench", *self.port("client"), *arguments)
            self.assert_one_line(run, 2, *words)
        run = self.finish(Host(), "bench", *self.port("client"), "--html", "/nonexistent/x", SERVER)
        self.assert_one_line(run, 1, "/nonexistent/x")

    def test_assertions_decide_the_exit_status(self):
        """Checks the exit status, the line with asked and found, and the JUnit file."""
        server = self.serve()
        junit = self.directory / "junit.xml"
        some = ("--measure", "null,send", "--sizes", "64,4096", *SHORT, "--passes", "1")
        held = ("--assert", "p99<100s", "--assert", "null/rate>1")
        run = self.client(*some, *held, "--junit", junit)
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))
        suite = ElementTree.parse(junit).getroot()[0]
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("errors")),
                         ("2", "0", "0"))
        self.assertEqual([case.get("name") for case in suite], ["p99<100s", "null/rate>1"])
        run = self.client(*some, *held, "--assert", "send/4096/max<1ns", "--junit", junit)
        self.assert_one_line(run, 1, "asked send/4096/max<1ns, found ", "s (send, 4096 B)")
        self.assertIn("median us", run.stdout)
        suite = ElementTree.parse(junit).getroot()[0]
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("3", "1"))
        self.assertIn("asked send/4096/max<1ns", suite[2][0].get("message"))
        run = self.client("--json", *some, "--assert", "p50<1ns")
        self.assertEqual(run.process.returncode, 1)
        answer = json.loads(run.stdout)
        self.assertIs(answer["ok"], False)
        self.assertEqual([one["of"] for one in answer["assertions"][0]["figures"]],
                         ["null", "send, 64 B", "send, 4096 B"])
        self.end(server)

    def test_without_a_server_assertions_are_errors(self):
        junit = self.directory / "junit.xml"
        run = self.client("--assert", "p99<100s", "--junit", junit)
        self.assertEqual(run.process.returncode, 1)
        suite = ElementTree.parse(junit).getroot()[0]
        self.assertEqual((suite.get("failures"), suite.get("errors")), ("0", "1"))
        self.assertEqual(suite[0][0].tag, "error")

    def test_the_page_renders_in_a_browser(self):
        browser = Browser(self.directory)
        server = self.serve()
        page = self.directory / "bench.html"
        answer = self.asked(*QUICK, "--html", page)
        self.end(server)
        dom, console = browser.open(page)
        self.assertEqual(console, [])
        # Charts: two for each operation's latency and for latency beside bulk transfers, two for
        # throughput, one for scaling, each with axes and a curve per series. Passes that are
        # reported separately have the same charts again.
        kinds = 1 + len(answer.get("apart", ()))
        self.assertEqual(dom.count("figure", "chart"), kinds * 13)
        self.assertEqual(dom.count("path", "axis"), kinds * 13)
        self.assertEqual(dom.count("text", "label"), kinds * 26)
        # Curves of latency: NULL, three sizes of each verb, two beside bulk transfers, each in two
        # charts; of throughput: three verbs in two charts; of scaling: one. Each appears once more
        # in its legend.
        curves = 2 * (2 * (1 + 9 + 2) + 2 * 3 + 1)
        self.assertEqual(dom.count("path", "curve"), kinds * curves)
        self.assertEqual(dom.count("td", "met") + dom.count("td", "missed"), kinds * 3)
        for text in ("pollux bench", "Conditions", "processor", "kernel", "path MTU of the port",
                     "throughput, Gb/s", "percentile",
                     "latency, \u00b5s", "1 MiB", "passes", "core to core, client"):
            self.assertIn(text, dom.texts)
        for title in ("Ratios and verdicts", "Latency", "Throughput by message size",
                      "Scaling by queue pairs and cores", "All figures"):
            self.assertTrue(any(text.startswith(title) for text in dom.texts), title)
        for figure in (one for one in dom.elements if one[0] == "path"):
            self.assertNotIn("nan", figure[1].get("d", ""))
        self.assertNotIn("script", [name for name, _ in dom.elements])
        png = browser.screenshot(page, self.directory / "page.png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
