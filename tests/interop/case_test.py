"""Tests how a case ends, and which frames of it are judged."""

import importlib
import json
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, "tests/interop")  # where the cases run, and import from

# pylint: disable=wrong-import-position
import case
import judges
import network
import nic_guest
import run
from process import CaseFailure


class FakeProcess:
    """A process, or a capture, that may fail to end."""
    name = "fake"

    def __init__(self, ends=True):
        self.ends, self.closed = ends, False

    def running(self):
        return False

    def stop(self):
        if not self.ends:
            raise CaseFailure("the capture lost frames")

    def close(self):
        self.closed = True
        if not self.ends:
            raise CaseFailure("deadline passed waiting for it to be killed")


class BenchTest(unittest.TestCase):
    def run_case(self, run, kind="af_packet"):
        """Runs a case that starts one process that cannot be killed and another one, with a capture
        that fails, too; returns the exception that the bench raises."""
        the_case = case.Case("fake", run, case.BOTH, (kind,), (), (), 10, False, False)
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        guest = types.SimpleNamespace(addresses=())
        bench = case.Bench(the_case, case.TO_LINUX, network.PORTS[kind], guest, mock.Mock(), {},
                           folder)
        self.processes = [FakeProcess(ends=False), FakeProcess()]
        self.capture = FakeProcess(ends=False)
        bench.processes += self.processes
        with mock.patch.object(case, "Capture", return_value=self.capture) as self.captured:
            try:
                bench.run()
            except BaseException as raised:  # pylint: disable=broad-except
                return raised
        return None

    def assert_all_closed(self):
        self.assertTrue(all(one.closed for one in (*self.processes, self.capture)))

    def test_a_failed_case_ends_everything_and_keeps_its_reason(self):
        def fail(_):
            raise CaseFailure("the guest died")

        self.assertEqual(str(self.run_case(fail)), "the guest died")
        self.assert_all_closed()

    def test_the_end_of_the_worker_is_not_replaced_by_a_failure(self):
        self.assertIsInstance(self.run_case(lambda _: sys.exit(1)), SystemExit)
        self.assert_all_closed()

    def test_a_process_that_cannot_be_ended_fails_the_case(self):
        self.assertIn("to be killed", str(self.run_case(lambda _: None)))
        self.assert_all_closed()

    def test_the_capture_is_of_the_tap_that_all_frames_of_pollux_pass(self):
        for kind, tap in (("af_packet", network.GUEST_TAP), ("virtio", nic_guest.TAP)):
            self.run_case(lambda _: None, kind)
            self.assertEqual(self.captured.call_args.args[0], tap)


class JudgeTest(unittest.TestCase):
    def judged(self, frames, counts):
        done = types.SimpleNamespace(
            stdout=json.dumps({"ok": False, "files": [{"counts": counts, "failures": []}]}))
        with mock.patch.object(judges.subprocess, "run", return_value=done):
            return judges.judge_conformance(types.SimpleNamespace(path="", frames=frames), False,
                                            "checker")

    def test_a_checker_that_finds_no_frame_fails_the_case(self):
        self.assertEqual(self.judged([], {"frames": 3}), [])
        self.assertEqual(self.judged([object()], {"frames": 3, "roce": 1}), [])
        self.assertEqual(len(self.judged([object()], {"frames": 3})), 1)

    def test_each_case_over_nics_that_sends_wants_frames(self):
        for module in run.MODULES:
            importlib.import_module(module)
        silent = {one.name for one in case.CASES
                  if not one.wants and {*one.ports, *one.nics} & set(network.NIC_PORTS)}
        self.assertEqual(silent, {"nic-doctor"})
