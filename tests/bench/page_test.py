"""tools/dev bench from its first measurement to its page, as a browser shows it."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests.command.browser import Browser

BENCH = os.path.abspath("tests/bench/bench")
WIRES = ("net_ring", "net_memif")
# Where network namespaces may be made.
VETH = "net_af_packet"


class PageTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plx"))
        self.addCleanup(shutil.rmtree, self.directory)

    def bench(self, *arguments):
        return subprocess.run([BENCH, "--passes", "1", "--scale", "0.002", *map(str, arguments)],
                              capture_output=True, text=True, check=False, cwd=self.directory)

    def test_page_that_cannot_be_written(self):
        run = self.bench("--html", "/nonexistent/page.html")
        self.assertEqual(run.returncode, 1)
        self.assertIn("/nonexistent/page.html", run.stderr)

    def test_every_figure_stands_on_the_page(self):
        page = self.directory / "page.html"
        run = self.bench("--json", "--html", page)
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        dom, console = Browser(self.directory).open(page)
        self.assertEqual(console, [])
        for wire in (*WIRES, VETH):
            self.assertIn(answer[wire]["cores"], ("near", "far", "now near, now far"))
            self.assertEqual(answer[wire]["passes"], 1)
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
            # A row whose figures were not measured is left out.
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
        verdicts = sum(len(of_wire["ratios"]) for of_wire in answer.values()
                       if isinstance(of_wire, dict) and "ratios" in of_wire)
        self.assertEqual(dom.count("td", "met") + dom.count("td", "missed"), verdicts)
        # Eight of latency, two of throughput and loss, three of scaling; by veth two of latency.
        of_veth = 0 if "missing" in answer[VETH] else 2
        self.assertEqual(dom.count("figure", "chart"), len(WIRES) * 13 + of_veth)
        for name, attributes in dom.elements:
            self.assertNotEqual(name, "script")
            if name == "path":
                self.assertNotIn("nan", attributes["d"])


if __name__ == "__main__":
    unittest.main()
