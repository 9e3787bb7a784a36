"""Tests the ping-like options of pollux ping: count, interval, deadline, threshold, output."""

import json
import re
import signal

from tests.command.harness import CLIENT, SERVER, CommandTest, Host, wait_for

LINE = re.compile(rf"^answer from {SERVER}: seq=(\d+) time=(\d+\.\d+) ms$", re.MULTILINE)


class PingTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.server = self.start(Host(), "serve", *self.place("server"), "--root", self.directory)
        self.server.wait_for_line("^serving ")

    def place(self, role):
        return ("--port", f"net_memif0,role={role},socket={self.directory}/m", "--address",
                f"{SERVER if role == 'server' else CLIENT}/24", "--idle", "sleep")

    def argv(self, *arguments):
        return ("ping", *self.place("client"), *arguments, SERVER)

    def ping(self, *arguments):
        return self.finish(Host(), *self.argv(*arguments))

    def sequence(self, run):
        return [int(number) for number, _ in LINE.findall(run.stdout)]

    def assert_summary(self, run, sent, answered, lost):
        self.assertIn(f"--- {SERVER} pollux ping statistics ---\n{sent} calls sent, {answered} "
                      f"answered, {lost}% lost, time ", run.stdout)

    def test_without_options_one_call_is_made(self):
        run = self.ping()
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))
        self.assertEqual(self.sequence(run), [1])
        self.assert_summary(run, 1, 1, 0)

    def test_each_call_has_a_line_and_a_summary_follows(self):
        for option in ("-c", "--count"):
            run = self.ping(option, "4")
            self.assertEqual((run.process.returncode, run.stderr), (0, ""))
            self.assertEqual(self.sequence(run), [1, 2, 3, 4])
            self.assert_summary(run, 4, 4, 0)
            (times,) = re.findall("^rtt min/avg/max/mdev = (.*) ms$", run.stdout, re.MULTILINE)
            low, mean, high, _ = (float(number) for number in times.split("/"))
            self.assertLessEqual(low, mean)
            self.assertLessEqual(mean, high)
            seen = [float(ms) for _, ms in LINE.findall(run.stdout)]
            self.assertEqual((min(seen), max(seen)), (low, high))
            self.assertRegex(run.stdout.splitlines()[-1], "^inline 4096/4096 bytes, peer sent RFC ")
        quiet = self.ping("-c", "4", "-q")
        self.assertEqual(self.sequence(quiet), [])
        self.assert_summary(quiet, 4, 4, 0)

    def test_calls_keep_the_interval(self):
        run = self.ping("-c", "4", "-i", "0.2")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        # ping's own figure, since starting and connecting take time, too.
        (elapsed_ms,) = re.findall(r"% lost, time (\d+) ms$", run.stdout, re.MULTILINE)
        self.assertGreaterEqual(int(elapsed_ms), 600)
        self.assertEqual(self.sequence(run), [1, 2, 3, 4])

    def test_without_a_count_it_runs_until_interrupted(self):
        run = self.start(Host(), *self.argv("-i", "0.05"))
        wait_for("three answers", lambda: len(self.sequence(run)) >= 3)
        self.assertEqual(run.interrupt(), 0, run.stderr)
        self.assertEqual(run.stderr, "")
        (counts,) = re.findall(r"^(\d+) calls sent, (\d+) answered", run.stdout, re.MULTILINE)
        sent, answered = map(int, counts)
        self.assertEqual(answered, len(self.sequence(run)))
        self.assertIn(sent, (answered, answered + 1))  # the interrupt may end a call

    def test_an_interrupt_before_the_count_is_an_error(self):
        run = self.start(Host(), *self.argv("-i", "0.05", "-c", "100000"))
        wait_for("an answer", lambda: self.sequence(run))
        self.assertEqual(run.interrupt(), 1)
        self.assertIn("interrupted", run.stderr)
        self.assertIn("rtt min/avg/max/mdev", run.stdout)

    def test_calls_end_at_the_deadline(self):
        run = self.ping("-w", "20", "-i", "5")
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))
        self.assertLessEqual(self.sequence(run)[-1], 4)
        # With a count, all calls must be answered by the deadline.
        self.assert_one_line(self.ping("-w", "20", "-i", "5", "-c", "1000"), 1,
                             "of 1000 calls were answered in time")

    def ping_a_server_that_stops(self, *arguments):
        """Returns ping's exit status and the number of unanswered calls."""
        # The deadline is short, since the connection itself fails after some seconds.
        run = self.start(Host(), *self.argv("-w", "2", "-i", "0.1", *arguments))
        wait_for("an answer", lambda: self.sequence(run))
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            status = run.wait()
        finally:
            self.server.process.send_signal(signal.SIGCONT)
        (counts,) = re.findall(r"^(\d+) calls sent, (\d+) answered", run.stdout, re.MULTILINE)
        sent, answered = map(int, counts)
        # No call is under way if the server was stopped only after the deadline.
        self.assertIn(sent - answered, (0, 1))
        return status, sent - answered

    def test_a_stopped_server_ends_ping_at_the_deadline(self):
        status, _ = self.ping_a_server_that_stops()
        self.assertEqual(status, 0)

    def test_an_unanswered_call_above_the_threshold_fails(self):
        status, unanswered = self.ping_a_server_that_stops("--threshold", "20ms")
        if unanswered:
            self.assertEqual(status, 1)

    def test_calls_above_the_threshold_fail(self):
        run = self.ping("-c", "3", "--threshold", "100s")
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))
        run = self.ping("-c", "3", "--threshold", "1ns")
        self.assert_one_line(run, 1, "3 of 3 calls took longer than 1ns, the longest ")
        self.assert_summary(run, 3, 3, 0)

    def test_json_has_latencies(self):
        run = self.ping("--json", "-c", "5")
        answer = json.loads(run.stdout)
        self.assertIs(answer["ok"], True)
        self.assertEqual((answer["calls"], answer["sent"]), (5, 5))
        latency = answer["latency_us"]
        self.assertLessEqual(latency["min"], latency["avg"])
        self.assertLessEqual(latency["avg"], latency["max"])
        for name in ("p50", "p99", "p999", "mdev"):
            self.assertIn(name, latency)
        run = self.ping("--json", "--threshold", "1ns")
        self.assertEqual(run.process.returncode, 1)
        answer = json.loads(run.stdout)
        self.assertEqual((answer["ok"], answer["too_slow"]), (False, 1))

    def test_wrong_options_are_refused(self):
        for arguments, words in ((("--threshold", "20"), ("'20'", "20us")),
                                 (("-c", "0"), ("--count", "1 to")),
                                 (("-i", "-1"), ("--interval",)),
                                 (("-w", "0"), ("--deadline",)),
                                 (("--version", "3"), ("--version needs --program",))):
            self.assert_one_line(self.ping(*arguments), 2, *words)
