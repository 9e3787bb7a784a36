"""Tests what tools/dev interop runs, and that it ends when it is interrupted."""

import importlib
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
import time
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
