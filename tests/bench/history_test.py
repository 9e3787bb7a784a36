"""Tests that a run of the benchmark can be recorded and drawn."""

import datetime
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from tests.bench import history

BENCH = os.path.abspath("tests/bench/bench")


class HistoryTest(unittest.TestCase):

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def draw(self, lines):
        """Returns the ended process and the page."""
        file, page = self.directory / "history.jsonl", self.directory / "page.html"
        file.write_text(lines)
        done = subprocess.run([BENCH, "history", file, page], stderr=subprocess.PIPE, text=True)
        return done, page.read_text() if page.exists() else ""

    def test_a_run_is_recorded_and_drawn(self):
        run = subprocess.run([BENCH, "--json", "--ring-only", "--passes", "1", "--scale", "0.001",
                              "--part", "device,rpc"],
                             stdout=subprocess.PIPE, text=True, check=True)
        report = json.loads(run.stdout)
        paths, now = {"SEND 64 B stream": 1119.4}, datetime.datetime(2026, 2, 3)
        # One pass does not count.
        self.assertEqual(history.record("0123456789ab", report, paths, now)["wires"], {})
        (section,) = [one for one in report.values() if isinstance(one, dict)]
        section["verdicts_count"] = True
        line = history.record("0123456789ab", report, paths, now)
        self.assertEqual(line["date"], "2026-02-03")
        self.assertEqual(line["instructions"], {"SEND 64 B stream": 1119})
        (wire,) = line["wires"].values()
        self.assertIn("NULL RPC rate / +work echo", wire["ratios"])
        done, page = self.draw(2 * (json.dumps(line) + "\n"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for text in ("2026-02-03", "0123456789ab", "1119", "Ratios, net_ring", "<svg"):
            self.assertIn(text, page)

    def test_a_damaged_history_is_not_drawn(self):
        done, page = self.draw("{}x\n")
        self.assertEqual((done.returncode, page), (1, ""))
        self.assertIn("history.jsonl: line 1", done.stderr)

    def test_only_a_commit_is_recorded(self):
        def git(*arguments):
            subprocess.run(["git", "-C", self.directory, "-c", "user.name=n", "-c", "user.email=e",
                            *arguments], check=True, stdout=subprocess.DEVNULL)
        git("init")
        file = self.directory / "file"
        file.write_text("a")
        git("add", "file")
        git("commit", "-m", "m")
        self.assertRegex(history.commit_of(self.directory), "^[0-9a-f]{12}$")
        # The records of earlier runs that are not committed yet do not count as a difference.
        (self.directory / "docs").mkdir()
        (self.directory / "docs/performance-history.jsonl").write_text("{}")
        git("add", "docs")
        history.commit_of(self.directory)
        file.write_text("b")
        with self.assertRaisesRegex(SystemExit, "file"):
            history.commit_of(self.directory)


if __name__ == "__main__":
    unittest.main()
