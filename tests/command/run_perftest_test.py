"""Tests `pollux run` with perftest, one command line after the other.

perftest itself rejects options that cannot be combined. It does not check the data that it moves,
so the tests check only that both sides end successfully.
"""

import re
import shutil
import subprocess

from tests.command.harness import TIMEOUT_S
from tests.command.run_test import RunTest

# Each row sends only a few messages, since its rate is not tested. A message has more than one
# packet where that makes a difference.
SEND = ("ib_send_lat -n 200", "ib_send_lat -n 100 -I 64 -s 64", "ib_send_lat -D 1",
        "ib_send_bw -n 200 -b -q 2", "ib_send_bw -n 100 -I 64 -s 64",
        "ib_send_bw -n 100 -e -s 4096", "ib_send_bw -n 100 --use-srq -q 2 -s 4096",
        "ib_send_bw -D 1 -s 4096")
WRITE = ("ib_write_lat -n 200", "ib_write_lat -n 100 -I 64 -s 64", "ib_write_lat -D 1",
         "ib_write_bw -n 20 -s 1048576", "ib_write_bw -n 100 -I 64 -s 64",
         "ib_write_bw -n 100 -b -q 4", "ib_write_bw -n 200 -l 8 -q 2 -s 512", "ib_write_bw -D 1")
READ = ("ib_read_lat -n 200", "ib_read_lat -n 100 -e", "ib_read_lat -D 1",
        "ib_read_bw -n 100 -s 65536", "ib_read_bw -n 100 -e -s 4096",
        "ib_read_bw -n 100 -b -q 2 -s 4096", "ib_read_bw -D 1 -s 4096")
ATOMIC = ("ib_atomic_lat -n 200", "ib_atomic_lat -n 100 -e", "ib_atomic_lat -D 1",
          "ib_atomic_bw -n 200", "ib_atomic_bw -n 200 -A CMP_AND_SWAP", "ib_atomic_bw -n 100 -e",
          "ib_atomic_bw -n 100 -b -q 2", "ib_atomic_bw -D 1")
ALL_SIZES = tuple(f"ib_{verb}_{kind} -a -n 5" for verb in ("send", "write", "read")
                  for kind in ("lat", "bw"))
# ib_atomic_bw -R is missing, because it crashes with the real libraries too.
BY_CM = ("ib_send_lat -n 100 -R", "ib_send_bw -n 100 -R -b -q 4", "ib_write_lat -n 100 -R",
         "ib_write_bw -n 100 -R", "ib_read_lat -n 100 -R", "ib_read_bw -n 100 -R",
         "ib_atomic_lat -n 100 -R")
# Not more messages than there are posted receives and frames that the interface can hold: perftest
# waits for ever for a message that an unreliable transport loses.
UNRELIABLE = ("ib_send_lat -n 200 -c UD", "ib_send_lat -n 100 -c UC", "ib_send_lat -n 100 -c UD -R",
              "ib_send_bw -n 200 -c UC -s 1024", "ib_send_bw -n 200 -c UD -s 1024",
              "ib_send_bw -n 100 -c UC -s 1024 -b", "ib_send_bw -n 100 -c UD -s 1024 -b",
              "ib_send_bw -n 100 -c UD -s 1024 -R", "ib_write_lat -n 100 -c UC",
              "ib_write_bw -n 200 -c UC -s 1024", "ib_write_bw -n 100 -c UC -s 1024 -b")

# Options for how long perftest measures, how it waits and where its data are; the packets are the
# same.
OF_THE_PROGRAM_ALONE = re.compile(" -[DIAe]")

# Once or twice per size, perftest spends 0.2 s of CPU time measuring the CPU's frequency with
# gettimeofday(). With a clock 50 times too fast this takes 4 ms. The times it prints are then
# wrong, but no test reads them.
FAST_CLOCK = """#include <sys/time.h>
#include <time.h>
int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec time;
  (void)zone;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const long long us = (time.tv_sec * 1000000000LL + time.tv_nsec) / 20;
  now->tv_sec = us / 1000000;
  now->tv_usec = us % 1000000;
  return 0;
}
"""


class PerftestTest(RunTest):
    def setUp(self):
        self.environment = {}
        super().setUp()
        if shutil.which("gcc") is not None:
            source, clock = self.directory / "clock.c", self.directory / "clock.so"
            source.write_text(FAST_CLOCK)
            subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", clock], check=True)
            self.environment = {"LD_PRELOAD": str(clock)}

    def start(self, host, *arguments, **keywords):
        return super().start(host, *arguments, environment=self.environment, **keywords)

    def pingpong(self, program, *options):
        server = self.address if "-R" in options else self.meeting
        self.both((program, *options), (program, *options, server))

    def perftest(self, rows):
        self.pingpongs(rows, "-x", self.gid, "-F")

    def test_send_programs_work(self):
        self.perftest(SEND)

    # ib_send_lat waits for both of its completion queues by one channel.
    def test_send_programs_work_with_completion_events(self):
        self.perftest(("ib_send_lat -n 100 -e",))

    def test_write_programs_work(self):
        self.perftest(WRITE)

    def test_read_programs_work(self):
        self.perftest(READ)

    def test_atomic_programs_work(self):
        self.perftest(ATOMIC)

    def test_messages_of_all_sizes_work(self):
        self.timeout_s = 5 * TIMEOUT_S
        self.perftest(ALL_SIZES)

    # The server closes its first listener and opens another, for which its client does not wait.
    def test_programs_connect_by_cm(self):
        self.perftest(BY_CM)

    def test_unreliable_transports_work(self):
        self.perftest(UNRELIABLE)

    def test_json_reports_are_written(self):
        report = self.directory / "report.json"
        for program in ("ib_send_lat", "ib_write_bw", "ib_read_lat", "ib_atomic_bw"):
            with self.subTest(program):
                common = (program, "-x", self.gid, "-F", "-n", "100")
                self.both(common, (*common, "--out_json", f"--out_json_file={report}",
                                   self.meeting))
                # perftest writes names without quotation marks, which no JSON parser accepts.
                text = report.read_text()
                self.assertIn("results", text)
                self.assertIn("n_iterations: 100", text.replace('"', ""))
                report.unlink()


class OnAnotherWire:
    """A mixin to be listed before PerftestTest: omits rows whose packets are not different."""

    test_send_programs_work_with_completion_events = None
    test_json_reports_are_written = None

    def perftest(self, rows):
        super().perftest([row for row in rows if not OF_THE_PROGRAM_ALONE.search(row)])


class MulticastTest(RunTest):
    # The group address is IPv6, so the port's address must be IPv6 too: GID index 1.
    def test_multicast_messages_arrive(self):
        self.pingpong("ib_send_lat", "-x", "1", "-F", "-n", "50", "-c", "UD", "-g", "-s", "512")

    def test_multicast_between_address_families_is_an_error(self):
        program = ("ib_send_lat", "-x", "0", "-F", "-c", "UD", "-g")
        server = self.start_server(*program)
        client = self.finish_program(self.client_host, *program, self.meeting)
        for run in (client, server):
            self.assertNotEqual(run.wait(), 0)
            self.assertRegex(run.stderr, "pollux: .*is IPv4, .*is IPv6; give the sgid_index of")
