"""Tests tools/dev bench, from the measurement to the page that a browser renders."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests.command.browser import Browser

BENCH = os.path.abspath("tests/bench/bench")
PEERS = os.path.abspath("tests/bench/peers.py")
# The ratios of net_memif by the peer that they need; absent if the peer is not available.
PEERS_RATIOS = {
    "UCX": ("64 B SEND round trip / UCX tcp", "64 B SEND stream / UCX posix",
            "1 MiB WRITE / UCX posix"),
    "qperf": ("64 B SEND round trip / qperf TCP by veth", "1 MiB WRITE / qperf TCP by veth"),
    "sockperf": ("64 B SEND round trip / sockperf TCP by veth",)}
WIRES = ("net_ring", "net_memif")
# Measured only if the user may create network namespaces.
VETH = "net_af_packet"


class PageTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plx"))
        self.addCleanup(shutil.rmtree, self.directory)

    def bench(self, *arguments):
        return subprocess.run([BENCH, "--passes", "1", "--scale", "0.002", *map(str, arguments)],
                              capture_output=True, text=True, check=False, cwd=self.directory)

    def test_an_unwritable_page_is_an_error(self):
        run = self.bench("--html", "/nonexistent/page.html")
        self.assertEqual(run.returncode, 1)
        self.assertIn("/nonexistent/page.html", run.stderr)

    def test_peers_can_be_measured_alone(self):
        run = self.bench("--json", "--part", "ucx,qperf,sockperf", "--peers", PEERS)
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        # Peers use none of the benchmark's wires. They are measured once per pass, under net_memif.
        self.assertNotIn("net_ring", answer)
        memif = answer["net_memif"]
        missing = memif.get("missing", {})
        for peer, figures in (
                ("UCX", ("UCX tcp 64 B round trip", "UCX posix 64 B stream", "UCX tcp 1 MiB")),
                ("qperf", ("qperf TCP by veth 64 B stream, batched", "qperf TCP by veth 1 MiB")),
                ("sockperf", ("sockperf TCP by veth 64 B round trip",))):
            for name in () if peer in missing else figures:
                self.assertGreater(memif["figures"][name]["median"], 0)
        self.assertNotIn("ratios", memif)

    def test_without_peers_program_the_peers_are_missing(self):
        run = self.bench("--json", "--part", "ucx")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("--peers", json.loads(run.stdout)["net_memif"]["missing"]["ucx"])

    def test_with_one_cpu_the_core_distance_is_not_measured(self):
        cpu = max(os.sched_getaffinity(0))

        def on_one(*arguments):
            # Without --peers the part ucx measures nothing.
            return subprocess.run(
                [BENCH, "--passes", "5", "--scale", "0.002", "--part", "ucx", *arguments],
                capture_output=True, text=True, check=True, cwd=self.directory,
                preexec_fn=lambda: os.sched_setaffinity(0, {cpu})).stdout

        memif = json.loads(on_one("--json"))["net_memif"]
        self.assertEqual(memif["cores"], "not measured")
        self.assertIs(memif["verdicts_count"], False)
        self.assertNotIn("core to core", memif.get("figures", {}))
        self.assertIn("net_memif (cores not measured)", on_one())

    def test_an_unknown_part_is_an_error(self):
        run = self.bench("--part", "frob")
        self.assertEqual(run.returncode, 2)
        for word in ("frob", "ucx", "sockperf"):
            self.assertIn(word, run.stderr)

    def test_the_page_shows_every_figure(self):
        page = self.directory / "page.html"
        run = self.bench("--json", "--html", page, "--peers", PEERS)
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        dom, console = Browser(self.directory).open(page)
        self.assertEqual(console, [])
        for wire in (*WIRES, VETH):
            self.assertIn(answer[wire]["cores"], ("near", "far", "now near, now far"))
            self.assertEqual(answer[wire]["passes"], 1)
            self.assertIs(answer[wire]["verdicts_count"], False)
            self.assertGreater(answer[wire]["figures"]["core to core"]["high"], 0)
        by_veth = "64 B SEND round trip by veth / +work"
        if "missing" in answer[VETH]:
            self.assertIn("Not measured", dom.texts)
            for name, reason in answer[VETH]["missing"].items():
                self.assertIn(name, dom.texts)
                self.assertIn(reason, dom.texts)
        else:
            self.assertEqual(list(answer[VETH]["ratios"]), [by_veth])
            self.assertIn(by_veth, dom.texts)
        for wire in WIRES:
            figures = answer[wire]["figures"]
            self.assertIn("SEND 64 B round trip", figures)
            self.assertIn("WRITE 1 MiB, 5 % loss", figures)
            self.assertIn("NULL RPC, 1,000/s, --idle sleep, p99", figures)
            # A 99th percentile needs so many samples, however short the measurements are.
            self.assertGreaterEqual(
                answer[wire]["latencies_us"]["NULL RPC, 1,000/s, --idle sleep"]["count"], 1000)
            # A ratio whose figures were not measured is left out.
            for way in ("native", "libtirpc"):
                for call in ("NULL", "read 4 KiB", "write 4 KiB", "read 1 MiB", "write 1 MiB"):
                    self.assertIn(f"{way} {call} / TCP", answer[wire]["ratios"])
            for call, times in (("NULL", 20), ("read 1 MiB", 2.5)):
                self.assertEqual(answer[wire]["ratios"][f"TCP {call}, polling server / native"]
                                 ["at_least"], times)
            for name in (*figures, *answer[wire]["ratios"]):
                self.assertIn(name, dom.texts)
            for name, latency in answer[wire]["latencies_us"].items():
                self.assertGreater(latency["p50"], 0, name)
        for text in ("Conditions", "processor", "passes", "core to core, net_memif",
                     "core to core, net_af_packet",
                     "throughput, Gb/s", "active queue pairs", "cores", "percentile",
                     "operations, cumulative", "frames lost, %"):
            self.assertIn(text, dom.texts)
        self.assertIn("1 MiB WRITE / eRPC, at least 2", answer["net_memif"]["missing"])
        self.assertTrue(any("these verdicts do not count" in text for text in dom.texts))
        memif = answer["net_memif"]
        for peer, ratios in PEERS_RATIOS.items():
            if peer in memif["missing"]:
                self.assertRegex(memif["missing"][peer], "not installed|network namespaces")
                continue
            for name in ratios:
                self.assertNotIn("met", memif["ratios"][name])
                self.assertIn(name, dom.texts)
        stream = memif["ratios"]["64 B WRITE stream / +work"]
        self.assertEqual((stream["at_least"], stream["aim"]), (0.5, 0.65))
        self.assertLessEqual(stream["low"], stream["high"])
        ratios = [ratio for of_wire in answer.values() if isinstance(of_wire, dict)
                  for ratio in of_wire.get("ratios", {}).values()]
        judged = sum("met" in ratio for ratio in ratios)
        self.assertEqual(dom.count("td", "met") + dom.count("td", "missed"), judged)
        self.assertEqual(dom.count("td", "unjudged"), len(ratios) - judged)
        # Per wire eight charts of latency, two of throughput and loss, three of scaling; for
        # net_af_packet two of latency.
        of_veth = 0 if "missing" in answer[VETH] else 2
        self.assertEqual(dom.count("figure", "chart"), len(WIRES) * 13 + of_veth)
        for name, attributes in dom.elements:
            self.assertNotEqual(name, "script")
            if name == "path":
                self.assertNotIn("nan", attributes["d"])


if __name__ == "__main__":
    unittest.main()
