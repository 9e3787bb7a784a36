"""Tests that an invalid command line, device or file gets one line of error."""

import json
import os
import pathlib
import re

from tests.command.harness import CommandTest, Host

COMMANDS = ("demo", "serve", "put", "get", "ls", "ping", "bench")
PLACE = ("--port", "net_memif0,role=client,socket=/tmp/none.sock", "--address", "10.0.0.2/24")


class UsageTest(CommandTest):

    def fails(self, status, arguments, *words):
        with self.subTest(" ".join(arguments)):
            run = self.finish(Host(), *arguments)
            self.assert_one_line(run, status, *words)
            self.assertEqual(run.stdout, "")

    def test_each_command_has_help(self):
        run = self.finish(Host(), "--help")
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", run.stdout)
            of_it = self.finish(Host(), command, "--help")
            self.assertEqual((of_it.process.returncode, of_it.stderr), (0, ""))
            self.assertTrue(of_it.stdout.startswith(f"usage: pollux {command} "), of_it.stdout)
            for option in ("--json", "--impair", "--capture", "--help"):
                self.assertIn(option, of_it.stdout)

    def test_version_matches_the_changelog(self):
        run = self.finish(Host(), "--version")
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))
        changes = pathlib.Path("CHANGELOG.md").read_text(encoding="utf-8")
        newest = re.search(r"^## (\S+) \((?:not yet released|\d{4}-\d\d-\d\d)\)$", changes,
                           re.MULTILINE).group(1)
        self.assertRegex(newest, r"^\d+\.\d+\.\d+$")
        self.assertEqual(pathlib.Path("VERSION").read_text(encoding="utf-8"), f"{newest}\n")
        pollux, dpdk, rdma_core = run.stdout.splitlines()
        self.assertEqual(pollux, f"pollux {newest}-dev")
        self.assertRegex(dpdk, r"^DPDK \d+\.\d+\.\d+$")
        self.assertRegex(rdma_core, r"^rdma-core \d+: libibverbs\.so\.1 \(IBVERBS_1\.\d+\), "
                                    r"librdmacm\.so\.1 \(RDMACM_1\.\d+\)$")

    def test_without_a_command_the_usage_is_shown(self):
        run = self.finish(Host())
        self.assertEqual(run.process.returncode, 2)
        self.assertEqual(run.stdout, "")
        self.assertIn("usage: pollux COMMAND", run.stderr)
        self.fails(2, ["frob"], "frob", "pollux --help")

    def test_wrong_options_are_refused(self):
        for command in COMMANDS:
            self.fails(2, [command, "--frob"], command, "--frob", "--help")
        self.fails(2, ["serve", "--port"], "--port", "needs a value")
        self.fails(2, ["serve", "--service-port", "65536"], "65536", "1 to 65535")
        self.fails(2, ["ls", "--address", "10.0.0.2/33"], "10.0.0.2/33", "192.0.2.1/24")
        self.fails(2, ["ls", "--address", "10.0.0.2"], "10.0.0.2", "192.0.2.1/24")
        self.fails(2, ["ls", "--address", "fd00::1/64,vlan=4095"], "vlan=4095", "vlan=100")
        self.fails(2, ["ls", "--address", "10.0.0.0/24"], "10.0.0.0/24", "host")
        self.fails(2, ["ls", "--address", "127.0.0.1/8"], "127.0.0.1", "host")
        self.fails(2, ["ls", *PLACE, "--gateway", "10.9.0.1", "10.0.0.1"], "10.9.0.1", "subnet")
        self.fails(2, ["ls", "--vlan", "4095"], "4095", "1 to 4094")
        self.fails(2, ["ls", "--gateway", "10.0.0.256"], "10.0.0.256")
        self.fails(2, ["ls", "--mac", "01:00:00:00:00:01"], "01:00:00:00:00:01", "unicast")
        self.fails(2, ["demo", "--impair", "loss=2"], "loss=2", "0 to 1")
        self.fails(2, ["demo", "--impair", "frob=1"], "frob", "loss=P")
        self.fails(2, ["demo", "--memory", "1"], "--memory", "64")
        self.fails(2, ["ls", "--dcqcn-parameters", "cnp_dscp=64"], "cnp_dscp=64", "0 to 63")
        self.fails(2, ["ls", "--dcqcn-parameters", "frob=1"], "frob", "rpg_ai_rate")
        self.fails(2, ["ls", "--idle", "never"], "never", "spin, yield, sleep")
        self.fails(2, ["demo", "extra"], "extra", "usage: pollux demo")

    def test_missing_options_and_operands_are_usage_errors(self):
        self.fails(2, ["serve", *PLACE], "--root DIR")
        self.fails(2, ["serve", "--root", "."], "--port DEVARGS")
        self.fails(2, ["ls", "--port", "net_tap0", "10.0.0.1"], "--address ADDR/LEN")
        for command in ("put", "get", "ls", "ping", "bench"):
            self.fails(2, [command, *PLACE], f"usage: pollux {command}")
        self.fails(2, ["ls", *PLACE, "10.0.0.1", "10.0.0.3"], "10.0.0.3", "usage: pollux ls")
        self.fails(2, ["ls", *PLACE, "10.0.0.300"], "10.0.0.300", "IP address")

    def test_errors_name_unusable_devices(self):
        there = ["--address", "10.0.0.2/24", "10.0.0.1"]
        self.fails(1, ["ls", "--port", "net_af_packet0,iface=nosuch", *there], "nosuch", "ip link")
        self.fails(1, ["ls", "--port", "net_frob0", *there], "net_frob0", "net_tap0")
        self.fails(1, ["ls", "--port", "net_memif0,role=client,socket=/tmp/none.sock", *there],
                   "none.sock", "role=server")
        self.fails(1, ["ls", "--port", "net_memif0,role=server,socket=/nosuch/m", *there],
                   "/nosuch", "No such file")

    def test_errors_name_unusable_files(self):
        self.fails(1, ["serve", *PLACE, "--root", "nosuch"], "nosuch", "No such file")

    def test_errors_name_an_unusable_capture_file(self):
        self.fails(1, ["demo", "--capture", "/nonexistent/c.pcapng"],
                   "/nonexistent/c.pcapng", "No such file")

    def test_failure_with_json_is_one_object(self):
        run = self.finish(Host(), "ls", "--json", "--port", "net_af_packet0,iface=nosuch",
                          "--address", "10.0.0.2/24", "10.0.0.1")
        self.assertEqual(run.process.returncode, 1)
        answer = json.loads(run.stdout)
        self.assertFalse(answer["ok"])
        self.assertIn("nosuch", answer["error"])
        for command in ("ls", "ping"):
            run = self.finish(Host(), command, os.fsdecode(b"\xff\xff::"), "--json")
            self.assertEqual(run.process.returncode, 2)
            self.assertFalse(json.loads(run.stdout)["ok"])
