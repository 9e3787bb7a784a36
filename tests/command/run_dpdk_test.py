"""Tests `pollux run` with a program that itself uses DPDK, linked dynamically or statically."""

import os
import subprocess

from tests.command.run_test import RunTest

SOURCE = os.path.abspath("tests/command/dpdk_program.c")


class DpdkTest(RunTest):
    def of_pkg_config(self, *options):
        words = subprocess.run(["pkg-config", *options, "libdpdk"], capture_output=True, text=True,
                               check=True).stdout
        return words.split()

    def run_both_orders(self, *libraries):
        self.need_gcc()
        program = self.directory / "program"
        done = subprocess.run(["gcc", "-O1", "-march=x86-64-v2", SOURCE, "-o", program,
                               *self.of_pkg_config("--cflags"), *libraries, "-libverbs"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for first in ("eal", "verbs"):
            run = self.finish_program(self.server_host, program, first)
            self.assertEqual(run.stdout, "all as expected\n", run.stderr)

    def test_a_dpdk_program_with_shared_libraries_runs(self):
        self.run_both_orders(*self.of_pkg_config("--libs"))

    def test_a_static_dpdk_program_with_exported_symbols_runs(self):
        self.run_both_orders("-Wl,--export-dynamic", *self.of_pkg_config("--static", "--libs"))
