"""pollux run: an MPI program, compiled and started by MPICH, whose ranks meet by UCX over verbs."""

import os
import shutil
import signal
import subprocess

from tests.command.harness import CLIENT, POLLUX
from tests.command.run_test import RunTest

SOURCE = os.path.abspath("tests/command/mpi_program.c")
COMPILER, LAUNCHER = "mpicc.mpich", "mpiexec.hydra"


class MpiTest(RunTest):
    def setUp(self):
        super().setUp()
        for tool in (COMPILER, LAUNCHER):
            if shutil.which(tool) is None:
                self.skipTest(f"needs the command {tool}")

    def run_ranks(self, transports):
        program, agent = self.directory / "program", self.directory / "agent"
        subprocess.run([COMPILER, SOURCE, "-o", program], check=True)
        # Called as ssh is: -x HOST COMMAND. The rank of the launcher's own host starts without it.
        enter = " ".join(self.client_host.argv(["sh", "-c"]))
        agent.write_text(f'#!/bin/sh\nshift 2\nexec {enter} "$*"\n')
        agent.chmod(0o755)
        run = self.start(self.server_host, LAUNCHER, "-launcher", "ssh", "-launcher-exec", agent,
                         "-localhost", self.meeting, "-hosts", f"{self.meeting},{CLIENT}", "-n", 2,
                         "-ppn", 1, "-env", "UCX_TLS", f"{transports},self",
                         "-env", "UCX_NET_DEVICES", "pollux0:1", POLLUX, "run", *self.port_options,
                         "--", program, program="setsid")
        try:
            status = run.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(run.process.pid, signal.SIGKILL)  # the ranks too
            raise
        self.assertEqual(status, 0, run.stdout + run.stderr)
        self.assertEqual(run.stdout, "all as expected\n", run.stderr)

    def test_ranks_communicate_over_rc(self):
        self.run_ranks("rc_v")

    def test_ranks_communicate_over_ud(self):
        self.run_ranks("ud_v")
