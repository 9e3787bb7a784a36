"""Tests the systemd units, and the notifications from a service to systemd."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess

from tests.command.harness import POLLUX, TIMEOUT_S, CommandTest, Host

UNITS = sorted(pathlib.Path("tools/systemd").glob("*.service"))
MAX_EXPOSURE = 49  # in tenths; systemd rates 5.0 and more as "MEDIUM" or worse
WATCHDOG_US = 600_000


def settings(unit, name):
    """Returns the values that a file of `tools/systemd` gives to a setting."""
    text = pathlib.Path("tools/systemd", unit).read_text(encoding="utf-8")
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{name}=")]


class UnitsTest(CommandTest):
    def analyze(self, *arguments):
        run = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True,
                             check=False, env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"})
        return run.returncode, run.stdout + run.stderr

    def units(self):
        """Yields an instance of each unit, with this build's command."""
        self.assertEqual([unit.name for unit in UNITS],
                         ["pollux-nfsd@.service", "pollux-port@.service", "pollux-serve@.service"])
        for unit in UNITS:
            text = unit.read_text(encoding="utf-8")
            self.assertIn("=/usr/bin/pollux ", text)
            instance = self.directory / unit.name.replace("@", "@test")
            instance.write_text(text.replace("=/usr/bin/pollux ", f"={POLLUX} "), encoding="utf-8")
            yield instance

    def test_units_pass_systemd_analyze_verify(self):
        for unit in self.units():
            self.assertEqual(self.analyze("verify", "--man=no", unit), (0, ""))

    def test_units_pass_systemd_analyze_security(self):
        for unit in self.units():
            status, said = self.analyze("security", "--offline=yes", f"--threshold={MAX_EXPOSURE}",
                                        "--no-pager", unit)
            self.assertEqual(status, 0, said)
            self.assertRegex(said, r"exposure level for \S+: [0-4]\.\d (OK|SAFE)")

    def test_units_start_after_file_systems_are_mounted(self):
        for unit in ("pollux-nfsd@.service", "pollux-serve@.service"):
            after = " ".join(settings(unit, "After")).split()
            self.assertLessEqual({"local-fs.target", "remote-fs.target"}, set(after), unit)

    def test_the_port_is_part_of_the_network_for_which_the_others_wait(self):
        self.assertEqual(settings("pollux-port@.service", "Before"), ["network.target"])
        for unit in ("pollux-nfsd@.service", "pollux-serve@.service"):
            self.assertIn("network-online.target", " ".join(settings(unit, "After")).split())

    def test_nfsd_sees_the_directories_of_the_host(self):
        for name in ("DynamicUser", "InaccessiblePaths", "PrivateDevices", "PrivateTmp",
                     "ProtectHome", "RootDirectory", "RootImage", "TemporaryFileSystem"):
            self.assertEqual(settings("pollux-nfsd@.service", name), [], name)

    def test_nfsd_may_make_device_nodes_but_not_open_them(self):
        unit = "pollux-nfsd@.service"
        self.assertIn("CAP_MKNOD", " ".join(settings(unit, "CapabilityBoundingSet")))
        self.assertEqual(settings(unit, "DeviceAllow"),
                         ["/dev/net/tun rw", "char-* m", "block-* m"])

    def test_nfsd_has_time_to_start_with_a_slow_resolver_but_not_for_ever(self):
        self.assertEqual(settings("pollux-nfsd@.service", "TimeoutStartSec"), ["10min"])

    def test_a_reload_is_announced_before_the_signal(self):
        unit = "pollux-nfsd@.service"
        self.assertEqual(settings(unit, "NotifyAccess"), ["exec"])
        self.assertEqual(settings(unit, "ExecReload"),
                         ["/bin/systemd-notify RELOADING=1", "/bin/kill -HUP $MAINPID"])

    def test_options_of_the_units_exist(self):
        for unit in UNITS:
            start = next(line for line in unit.read_text(encoding="utf-8").splitlines()
                         if line.startswith("ExecStart="))
            _, command, *arguments = start.replace("%i", "x").split()
            shown = self.finish(Host(), command, "--help").stdout
            for option in (one for one in arguments if one.startswith("--")):
                self.assertIn(f"  {option} ", shown)


def serve_argv(directory):
    """Returns a command line that serves on a memif port in the directory."""
    served = directory / "served"
    served.mkdir()
    return (POLLUX, "serve", "--root", served, "--address", "192.0.2.1/24", "--port",
            f"net_memif0,role=server,socket={directory}/memif")


class LogTest(CommandTest):
    def test_lines_for_journald_have_their_level(self):
        names_stderr = 'JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$@"'
        run = self.start(Host(), "-c", names_stderr, "sh", *serve_argv(self.directory),
                         program="sh")
        run.wait_for_line("^<6>serving ")
        run.process.send_signal(signal.SIGHUP)
        run.wait_for_line("^<4>SIGHUP: ignored")
        self.assertEqual(run.interrupt(), 0, run.stderr)
        failed = self.finish(Host(), "-c", names_stderr, "sh", POLLUX, "serve", "--root",
                             self.directory / "nosuch", program="sh")
        self.assertRegex(failed.stderr, "^<3>pollux serve: [^\n]*nosuch[^\n]*\n$")

    def test_another_journal_gets_no_levels(self):
        run = self.start(Host(), "JOURNAL_STREAM=1:2", *serve_argv(self.directory),
                         program=shutil.which("env"))
        run.wait_for_line("^serving ")

    def test_json_lines_are_objects(self):
        run = self.start(Host(), *serve_argv(self.directory)[1:], "--log-format", "json")
        run.wait_for_line("serving ")
        run.process.send_signal(signal.SIGHUP)
        run.wait_for_line("SIGHUP: ignored")
        self.assertEqual(run.interrupt(), 0, run.stderr)
        serving, ignored = (json.loads(line) for line in run.stderr.splitlines())
        self.assertEqual(set(serving), {"level", "time", "component", "message"})
        self.assertEqual((serving["level"], serving["component"]), ("info", "serve"))
        self.assertEqual(ignored["level"], "warning")
        self.assertIn("SIGHUP", ignored["message"])
        self.assertRegex(serving["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        failed = self.finish(Host(), "serve", "--log-format", "json", "--root",
                             self.directory / "nosuch")
        error = json.loads(failed.stderr)
        self.assertEqual((error["level"], error["component"]), ("error", "serve"))
        self.assert_one_line(self.finish(Host(), "serve", "--log-format", "xml"), 2, "'xml'")

    def test_a_service_goes_on_when_the_reader_of_its_log_ends(self):
        reader, writer = os.pipe()
        with open(reader, encoding="utf-8") as log:
            # As systemd starts it: with SIGPIPE ignored.
            run = subprocess.Popen(
                ["sh", "-c", 'trap "" PIPE; exec "$@"', "sh", *serve_argv(self.directory)],
                stdin=subprocess.DEVNULL, stderr=writer, cwd=self.directory,
                env={**os.environ, "RUNTIME_DIRECTORY": str(self.directory)})
            self.addCleanup(run.wait)
            self.addCleanup(run.kill)
            os.close(writer)
            self.assertTrue(any(line.startswith("serving ") for line in log))
        for _ in range(2):
            listed = self.finish(Host(), "ls", "--port",
                                 f"net_memif0,role=client,socket={self.directory}/memif",
                                 "--address", "192.0.2.2/24", "192.0.2.1")
            self.assertEqual(listed.process.returncode, 0, listed.stderr)
        self.assertIsNone(run.poll())
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(TIMEOUT_S), 0)


class NotifyTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(str(self.directory / "notify"))
        self.manager.settimeout(60)

    def serve(self, **environment):
        environment["NOTIFY_SOCKET"] = str(self.directory / "notify")
        return self.start(Host(), *(f"{name}={value}" for name, value in environment.items()),
                          *serve_argv(self.directory), program=shutil.which("env"))

    def told(self):
        return self.manager.recv(4096).decode()

    def test_ready_and_stopping_are_notified(self):
        run = self.serve()
        self.assertEqual(self.told(), "READY=1")
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.told(), "STOPPING=1")
        run.wait()
        self.assertEqual(run.process.returncode, 0)

    def test_an_ignored_reload_is_notified_as_done(self):
        run = self.serve()
        self.assertEqual(self.told(), "READY=1")
        run.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.told(), "READY=1")

    def test_heartbeats_are_sent(self):
        run = self.serve(WATCHDOG_USEC=WATCHDOG_US)
        self.assertEqual(self.told(), "READY=1")
        for _ in range(5):
            self.assertEqual(self.told(), "WATCHDOG=1")
        run.process.send_signal(signal.SIGTERM)
        while (told := self.told()) == "WATCHDOG=1":
            pass
        self.assertEqual(told, "STOPPING=1")

    def test_without_a_watchdog_no_heartbeat_is_sent(self):
        self.serve()
        self.assertEqual(self.told(), "READY=1")
        self.manager.settimeout(3)
        with self.assertRaises(TimeoutError):
            self.told()

    def test_nothing_is_reported_before_it_serves(self):
        run = self.finish(Host(), f"NOTIFY_SOCKET={self.directory}/notify", POLLUX, "serve",
                          "--root", self.directory / "nosuch", program=shutil.which("env"))
        self.assertNotEqual(run.process.returncode, 0)
        self.manager.setblocking(False)
        with self.assertRaises(BlockingIOError):
            self.told()
