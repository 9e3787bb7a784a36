"""Tests several programs on one interface."""

import os
import signal
import sys

from tests.command.harness import POLLUX, SERVER, CmWatch, wait_for
from tests.command.run_test import RunTest

PORT = 7200
OTHER_USER = "65534"

# What any user may do: claim the RoCE port as a program of Pollux does, and read from it.
THIEF = """import socket, sys
claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
claim.bind("\\0pollux/%d/udp/4791" % socket.if_nametoindex("wire"))
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.bind(("", 4791))
print("bound", file=sys.stderr, flush=True)
port.recv(1)
"""


class SharedTest(RunTest):
    def rping_server(self, number, *options):
        return self.start_server("rping", "-s", "-a", SERVER, "-p", PORT + number, *options,
                                 name=f"server{number}")

    def rping_client(self, host, number, *options):
        return self.run_program(host, "rping", "-c", "-a", SERVER, "-p", PORT + number, *options)

    def assert_succeeds(self, run):
        self.assertEqual(run.wait(self.timeout_s), 0, run.stdout + run.stderr)


class SharedByProgramsTest(SharedTest):
    PROGRAMS = 8

    def test_programs_serve_other_hosts_and_each_other(self):
        servers = [self.rping_server(i, "-C", 100) for i in range(self.PROGRAMS)]
        clients = [self.rping_client((self.client_host, self.server_host)[i % 2], i, "-C", 100,
                                     "-V") for i in range(self.PROGRAMS)]
        for run in (*clients, *servers):
            self.assert_succeeds(run)

    def test_a_port_belongs_to_one_program(self):
        first = self.rping_server(0)
        second = self.finish_program(self.server_host, "rping", "-s", "-a", SERVER, "-p", PORT)
        self.assertNotEqual(second.process.returncode, 0)
        self.assertIn("Address already in use", second.stdout + second.stderr)
        first.process.kill()
        first.wait()
        self.rping_server(0, "-C", 10)
        self.assert_succeeds(self.rping_client(self.client_host, 0, "-C", 10))

    def test_one_program_rejects_a_request_for_nobody(self):
        watch = CmWatch([self.client_host], "wire")
        self.addCleanup(watch.close)
        servers = [self.rping_server(i) for i in range(3)]
        for _ in range(3):
            client = self.rping_client(self.client_host, 9, "-C", 1)
            self.assertNotEqual(client.wait(), 0)
            self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", client.stderr)
            # Whichever of them it was, another takes over.
            servers.pop().process.kill()
        names = watch.names()
        self.assertEqual(names, ["REJ"] * 3)

    def test_killed_programs_end_their_own_connections_alone(self):
        servers = [self.rping_server(i) for i in range(4)]
        clients = [self.rping_client((self.client_host, self.server_host)[i // 2], i, "-v")
                   for i in range(4)]  # for ever
        for client in clients:
            wait_for("a ping", lambda client=client: "ping data" in client.stdout)
        # A peer on the other host, and one on the same.
        for killed in (0, 2):
            servers[killed].process.kill()
            clients[killed].wait(self.timeout_s)
            self.assertIn("DISCONNECT EVENT", clients[killed].stderr)
        for other in (1, 3):
            before = len(clients[other].stdout)
            wait_for("more pings", lambda: len(clients[other].stdout) > before)
            self.assertIsNone(servers[other].process.poll())
        # What they had is free again.
        self.rping_server(0, "-C", 10)
        self.assert_succeeds(self.rping_client(self.server_host, 0, "-C", 10))

    def test_a_stopped_program_keeps_no_other(self):
        stopped, other = self.rping_server(0), self.rping_server(1, "-C", 100)
        stopped.process.send_signal(signal.SIGSTOP)
        self.assert_succeeds(self.rping_client(self.client_host, 1, "-C", 100))
        self.assert_succeeds(other)
        stopped.process.send_signal(signal.SIGCONT)

    def test_commands_share_an_interface_with_programs(self):
        rping = self.rping_server(0, "-C", 200)
        root = self.directory / "served"
        root.mkdir()
        content = self.file("content", 1 << 20).read_bytes()
        (root / "content").write_bytes(content)
        serve = self.start(self.server_host, "serve", "--netdev", "wire", "--idle", "sleep",
                           "--root", root)
        serve.wait_for_line("serving")
        client = self.rping_client(self.client_host, 0, "-C", 200)
        for i, host in enumerate((self.client_host, self.server_host)):
            copy = self.directory / f"copy{i}"
            get = self.finish(host, "get", "--netdev", "wire", "--idle", "sleep", SERVER,
                              "content", copy)
            self.assertEqual(get.process.returncode, 0, get.stderr)
            self.assertEqual(copy.read_bytes(), content)
        for run in (client, rping):
            self.assert_succeeds(run)
        self.assertEqual(serve.interrupt(), 0, serve.stderr)

    def test_programs_with_two_workers_each_share_an_interface(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("needs two CPUs")
        (self.directory / "content").write_bytes(self.file("content", 1 << 20).read_bytes())
        servers = []
        for port in (PORT, PORT + 1):
            servers.append(self.start(
                self.server_host, "serve", "--netdev", "wire", "--idle", "sleep", "--cores",
                f"{cpus[0]},{cpus[1]}", "--service-port", port, "--root", self.directory))
            servers[-1].wait_for_line("serving")
        # From enough ports that each worker has connections.
        for port in (PORT, PORT + 1):
            for i in range(4):
                host = (self.client_host, self.server_host)[i % 2]
                copy = self.directory / f"copy{port}-{i}"
                get = self.finish(host, "get", "--netdev", "wire", "--idle", "sleep",
                                  "--service-port", port, SERVER, "content", copy)
                self.assertEqual(get.process.returncode, 0, get.stderr)
                self.assertEqual(copy.read_bytes(), (self.directory / "content").read_bytes())
        for server in servers:
            self.assertEqual(server.interrupt(), 0, server.stderr)

    def start_as_other_user(self, program, *arguments, capabilities=()):
        kept = ",".join(["-all", *(f"+{name}" for name in capabilities)])
        directory = self.directory / "other"
        directory.mkdir(mode=0o777, exist_ok=True)
        directory.chmod(0o777)
        return self.start(self.server_host, "--reuid", OTHER_USER, "--clear-groups", "--inh-caps",
                          kept, "--ambient-caps", kept, "--", program, *arguments,
                          program="setpriv", environment={"RUNTIME_DIRECTORY": str(directory)})

    def test_programs_of_several_users_share_an_interface(self):
        # The last capability is for the directory of this build.
        serve = self.start_as_other_user(
            POLLUX, "serve", "--netdev", "wire", "--idle", "sleep", "--root", self.directory,
            capabilities=("net_raw", "net_admin", "dac_read_search"))
        serve.wait_for_line("serving")
        rping = self.rping_server(0, "-C", 10)
        self.assert_succeeds(self.rping_client(self.client_host, 0, "-C", 10))
        self.assert_succeeds(rping)
        ping = self.finish(self.client_host, "ping", "--netdev", "wire", "--idle", "sleep",
                           "--count", "1", SERVER)
        self.assertEqual(ping.process.returncode, 0, ping.stderr)
        self.assertEqual(serve.interrupt(), 0, serve.stderr)

    def test_a_user_who_reads_from_the_roce_port_is_named(self):
        thief = self.start_as_other_user(sys.executable, "-c", THIEF)
        thief.wait_for_line("bound")
        run = self.finish_program(self.server_host, "ibv_devinfo")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("UDP port 4791 is taken by a program of user 65534", run.stderr)

    def test_an_interface_without_free_numbers_is_an_error(self):
        large = ("--queue-pairs", 16381)
        for i in range(16):
            options = (*large, "--file-prefix", f"large{i}")
            self.run_program(self.server_host, "rping", "-s", "-p", PORT + i, options=options)
            wait_for("a listener", lambda i=i: self.listens_in_cm(f"large{i}"))
        run = self.finish_program(self.server_host, "ibv_devinfo")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn('interface "wire": no 2 adjacent parts', run.stderr)
        self.assertIn("256 belong to other programs", run.stderr)
