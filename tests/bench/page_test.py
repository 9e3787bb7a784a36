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
        for wire in WIRES:
            figures = answer[wire]["figures"]
            self.assertIn("SEND 64 B round trip", figures)
            self.assertIn("WRITE 1 MiB, 5 % loss", figures)
            self.assertIn("NULL RPC, 1,000/s, --idle sleep, p99", figures)
            # A row whose figures were not measured is left out.
            for way in ("native", "libtirpc"):
                for call in ("NULL", "read 4 KiB", "write 4 KiB", "read 1 MiB", "write 1 MiB"):
                    self.assertIn(f"{way} {call} / TCP", answer[wire]["ratios"])
            for name in (*figures, *answer[wire]["ratios"]):
                self.assertIn(name, dom.texts)
            for name, latency in answer[wire]["latencies_us"].items():
                self.assertGreater(latency["p50"], 0, name)
        for text in ("Conditions", "processor", "passes", "core to core, net_memif",
                     "throughput, Gb/s", "active queue pairs", "cores", "percentile",
                     "operations, cumulative", "frames lost, %"):
            self.assertIn(text, dom.texts)
        verdicts = sum(len(answer[wire]["ratios"]) for wire in WIRES)
        self.assertEqual(dom.count("td", "met") + dom.count("td", "missed"), verdicts)
        # Eight of latency, two of throughput and loss, three of scaling.
        self.assertEqual(dom.count("figure", "chart"), len(WIRES) * 13)
        for name, attributes in dom.elements:
            self.assertNotEqual(name, "script")
            if name == "path":
                self.assertNotIn("nan", attributes["d"])


if __name__ == "__main__":
    unittest.main()
