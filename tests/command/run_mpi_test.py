"""Tests `pollux run` with MPI programs of MPICH and Open MPI, whose ranks use UCX over verbs."""

import os
import shutil
import signal
import subprocess

from tests.command.harness import CLIENT, POLLUX
from tests.command.run_test import RunTest

SOURCE = os.path.abspath("tests/command/mpi_program.c")


class MpiTest(RunTest):
    """An MPI program; subclasses define compiler, launcher and its arguments."""

    compiler = launcher = None
    ranks_per_host = 1
    agent_options = 0  # the number of options before the host's name

    def setUp(self):
        super().setUp()
        for tool in (self.compiler, self.launcher):
            if shutil.which(tool) is None:
                self.skipTest(f"needs the command {tool}")

    def launch(self, agent, transports):
        """Returns the launcher's arguments before the program of each rank."""
        raise NotImplementedError

    def run_ranks(self, transports):
        program, agent = self.directory / "program", self.directory / "agent"
        subprocess.run([self.compiler, SOURCE, "-o", program], check=True)
        # The agent is called like ssh; the launcher starts the rank of its own host without it.
        # Open MPI 5 takes hosts of one name for one host.
        enter = " ".join(self.client_host.argv(["unshare", "-u", "sh", "-c"]))
        agent.write_text(f'#!/bin/sh\nshift {self.agent_options + 1}\n'
                         f'exec {enter} "hostname client && $*"\n')
        agent.chmod(0o755)
        run = self.start(self.server_host, self.launcher, *self.launch(agent, transports), POLLUX,
                         "run", *self.port_options, "--", program, 2 * self.ranks_per_host,
                         program="setsid",
                         # Otherwise each run of Open MPI 4 removes the directory that all runs of
                         # this user share.
                         environment={"TMPDIR": str(self.directory)})
        try:
            status = run.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(run.process.pid, signal.SIGKILL)  # ends the ranks too
            raise
        self.assertEqual(status, 0, run.stdout + run.stderr)
        self.assertEqual(run.stdout, "all as expected\n", run.stderr)


class MpichTest(MpiTest):
    compiler, launcher = "mpicc.mpich", "mpiexec.hydra"
    agent_options = 1  # ssh's option -x

    def launch(self, agent, transports):
        return ("-launcher", "ssh", "-launcher-exec", agent, "-localhost", self.meeting, "-hosts",
                f"{self.meeting},{CLIENT}", "-n", 2 * self.ranks_per_host, "-ppn",
                self.ranks_per_host, "-env", "UCX_TLS",
                f"{transports},self", "-env", "UCX_NET_DEVICES", "pollux0:1")

    def test_ranks_communicate_over_rc(self):
        self.run_ranks("rc_v")

    def test_ranks_communicate_over_ud(self):
        self.run_ranks("ud_v")


class OpenMpiTest(MpiTest):
    compiler, launcher = "mpicc.openmpi", "mpirun.openmpi"

    def launch(self, agent, transports):
        # Open MPI 5 knows its own host by its name only, and binds at most one rank to a core.
        return ("--allow-run-as-root", "--mca", "plm_rsh_agent", agent, "--mca", "pml", "ucx",
                "--mca", "osc", "ucx", "--bind-to", "none",
                "--host", f"localhost:{self.ranks_per_host},{CLIENT}:{self.ranks_per_host}",
                "-n", 2 * self.ranks_per_host,
                "-x", f"UCX_TLS={transports},self", "-x", "UCX_NET_DEVICES=pollux0:1",
                # By default UCX 1.18 fences by a flush that it has only for mlx5. UCX 1.13 does not
                # know this variable.
                "-x", "UCX_FENCE_MODE=weak", "-x", "UCX_WARN_UNUSED_ENV_VARS=n")

    def test_ranks_communicate_over_rc(self):
        self.run_ranks("rc_v")

    def test_ranks_communicate_over_ud(self):
        self.run_ranks("ud_v")
