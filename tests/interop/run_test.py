"""Tests what tools/dev interop runs, and that it ends when it is interrupted."""

import importlib
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.path.insert(0, "tests/interop")  # where the cases run, and import from

# pylint: disable=wrong-import-position
import case
import network
import run
from process import CaseFailure, Deadline

TIMEOUT_S = 300  # a limit against hanging, not an expected time


def interruptible_plan(folder):
    """Runs a case without end that fails when its worker is told to end, as one does whose guest
    has got the same signal."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs of some shells

    def endless(bench):
        bench.program("endless", "sleep", "infinity")
        (folder / f"begun{os.getpid()}").touch()
        try:
            time.sleep(TIMEOUT_S)
        finally:
            raise CaseFailure("the guest died")

    one = case.Case("endless", endless, case.BOTH, ("tap",), (), (), TIMEOUT_S, False, False)
    plan = [(one, way, network.PORTS["tap"]) for way in case.BOTH]
    for patch in (mock.patch.object(run.network, "enter"),
                  mock.patch.object(run.network, "Plugger"),
                  mock.patch.object(run.guests, "Guest"),
                  mock.patch.object(run.nic_guest, "NicGuest"),
                  mock.patch.object(case, "Capture")):
        patch.start()
    tools = {"peer": None, "pollux": folder / "tools/pollux/pollux"}
    try:
        run.run_plan(plan, mock.Mock(), tools, None, None, folder, False)
    except KeyboardInterrupt:
        pass


def runs(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class InterruptTest(unittest.TestCase):
    def test_one_interrupt_ends_all_processes(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        parent = multiprocessing.get_context("fork").Process(target=interruptible_plan,
                                                             args=(folder,))
        parent.start()
        try:
            workers = min(2, len(os.sched_getaffinity(0)))
            Deadline(TIMEOUT_S).wait_for("the cases to begin",
                                         lambda: len(list(folder.glob("begun*"))) == workers)
            os.killpg(parent.pid, signal.SIGINT)
            parent.join(TIMEOUT_S)
            self.assertFalse(parent.is_alive())
            Deadline(TIMEOUT_S).wait_for("all processes to end", lambda: not runs(parent.pid))
        finally:
            if parent.is_alive():
                os.killpg(parent.pid, signal.SIGKILL)
                parent.join()


class PlanTest(unittest.TestCase):
    COMMITS = range(1000, 1032)

    def setUp(self):
        for module in run.MODULES:
            importlib.import_module(module)

    def nights(self):
        """Yields (case, direction, kind of port, release of the guest) of each nightly run."""
        options = types.SimpleNamespace(all=False, once=False, nightly=True, port=None, cases=[])
        for first in self.COMMITS:
            for one, direction, port in run.make_plan(options, run.choose(options), first):
                yield one, direction, port.kind, run.guest_suite(first)

    def test_nightly_runs_reach_each_direction_over_each_port_with_each_release(self):
        seen = {(one.name, *rest) for one, *rest in self.nights()}
        wanted = {(one.name, direction, kind, suite) for one in case.CASES
                  for direction in one.directions for kind in (*one.ports, *one.nics)
                  for suite in run.image.SUITES}
        self.assertEqual(sorted(wanted - seen), [])
