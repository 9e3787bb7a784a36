"""Tests how tools/dev bench starts peers, and what it reports if one cannot be started."""

import contextlib
import io
import json
import subprocess
import unittest
from unittest import mock

from tests.bench import peers

processes = peers.sys.modules["processes"]
NO_CPU = 100_000


class PeersTest(unittest.TestCase):
    def told_when(self, failure):
        def measure(_scale):
            yield "first", "us", 1.5
            raise failure

        printed = io.StringIO()
        with mock.patch.dict(peers.PEERS, {"ucx": ("UCX", measure)}), \
                mock.patch("sys.argv", ["peers.py", "ucx"]), contextlib.redirect_stdout(printed):
            peers.main()
        return json.loads(printed.getvalue())

    def test_a_failure_is_reported_with_the_figures_measured_before(self):
        for failure in (peers.Missing("why"), RuntimeError("why"), OSError("why"),
                        subprocess.SubprocessError("why")):
            told = self.told_when(failure)
            self.assertEqual(told["missing"], {"UCX": "why"})
            self.assertEqual(told["figures"]["first"], {"unit": "us", "value": 1.5})

    def test_programs_run_without_the_unusable_cpu(self):
        with mock.patch("os.cpu_count", return_value=2):
            self.assertEqual(processes.output(("echo", "here"), cpu=NO_CPU), "here\n")

    def test_a_program_that_runs_both_sides_may_use_every_cpu(self):
        affinity = ("grep", "Cpus_allowed:", "/proc/self/status")
        with mock.patch("os.cpu_count", return_value=2):
            self.assertEqual(processes.output(affinity, cpu=None), "".join(
                line for line in open("/proc/self/status") if line.startswith("Cpus_allowed:")))

    def test_a_namespace_needs_its_programs(self):
        with mock.patch("shutil.which", return_value=None):
            with self.assertRaisesRegex(peers.Missing, "util-linux"), processes.Namespace():
                pass

    def test_a_namespace_ends_with_its_creator(self):
        try:
            with processes.Namespace() as namespace:
                namespace.holder.stdin.close()
                self.assertEqual(namespace.holder.wait(timeout=processes.TIMEOUT_S), 0)
                namespace.holder.stdin = None  # communicate() would flush it
        except peers.Missing as reason:
            self.skipTest(str(reason))


if __name__ == "__main__":
    unittest.main()
