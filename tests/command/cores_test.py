"""Tests servers on several cores: clients are spread, reconnect, are killed; `pollux stat`."""

import json
import os
import shutil
import unittest

from tests.command.harness import CLIENT, RPING, SERVER, CommandTest, Host, wait_for

CPUS = sorted(os.sched_getaffinity(0))


class CoresTest(CommandTest):
    def setUp(self):
        super().setUp()
        if len(CPUS) < 2:
            raise unittest.SkipTest("needs two CPUs")
        self.cores = ("--cores", f"{CPUS[0]},{CPUS[1]}", "--idle", "sleep")

    def told_by(self, run, command):
        """Returns what `command` --json reports about a running process."""
        (process,) = self.told(command, "--pid", run.process.pid)
        return process

    def connections(self, run):
        """Returns the number of connections of each worker."""
        return [worker["core"]["connections"] for worker in self.told_by(run, "stat")["workers"]]


class OnePortTest(CoresTest):
    """Servers on shared memory, where all packets arrive at one worker."""

    def setUp(self):
        super().setUp()
        self.root = self.directory / "root"
        self.root.mkdir()

    def serve(self, *arguments):
        run = self.start(Host(), "serve", "--port",
                         f"net_memif0,role=server,socket={self.directory}/m", "--address",
                         f"{SERVER}/24", "--root", self.root, *self.cores, "--json", *arguments)
        run.wait_for_line("^serving ")
        return run

    def client_argv(self, command, *arguments, address=CLIENT):
        return (command, "--port", f"net_memif0,role=client,socket={self.directory}/m",
                "--address", f"{address}/24", *arguments)

    def calls(self, run):
        return [worker["rpc"]["server/calls_received"]
                for worker in self.told_by(run, "stat")["workers"]]

    def test_a_client_stays_with_one_worker(self):
        server = self.serve()
        sent = self.file("sent", (3 << 20) + 5)
        homes = []
        for address in (CLIENT, "10.0.0.3"):
            before = self.calls(server)
            for name in ("one", "two", "three"):
                put = self.finish(Host(), *self.client_argv("put", SERVER, sent, name,
                                                            address=address))
                self.assertEqual(put.process.returncode, 0, put.stderr)
                self.assertEqual((self.root / name).read_bytes(), sent.read_bytes())
            grown = [after > was for after, was in zip(self.calls(server), before)]
            self.assertEqual(sorted(grown), [False, True])
            homes.append(grown.index(True))
        self.assertEqual(sorted(homes), [0, 1])
        # All frames arrived at the first worker, which handed over those for the second worker.
        # A frame that found the ring full, while the second worker had no CPU, was sent again.
        def handed_over():
            first, second = (worker["core"] for worker in self.told_by(server, "stat")["workers"])
            same = first["steering/handed_over"] == second["steering/by_ring"]
            return same and second["steering/by_ring"]

        self.assertGreater(wait_for("what was handed over", handed_over), 1000)
        shown = self.answered("stat", "--pid", server.process.pid).stdout
        for words in ("handed over", f"worker 1: CPU {CPUS[1]}"):
            self.assertIn(words, shown)
        calls = sum(self.calls(server))
        self.assertEqual(server.interrupt(), 0, server.stderr)
        self.assertEqual(json.loads(server.stdout)["calls"], calls)

    def test_capture_contains_both_connections(self):
        capture = self.directory / "c.pcapng"
        server = self.serve("--capture", capture)
        for address in (CLIENT, "10.0.0.3"):
            ping = self.finish(Host(), *self.client_argv("ping", "--count", "3", SERVER,
                                                         address=address))
            self.assertEqual(ping.process.returncode, 0, ping.stderr)
        self.assertEqual(server.interrupt(), 0, server.stderr)
        decoded = self.finish(Host(), "decode", capture)
        self.assertEqual(decoded.process.returncode, 0, decoded.stderr)
        for message in ("REQ", "REP", "RTU", "DREQ", "DREP"):
            self.assertEqual(decoded.stdout.count(f"message {message},"), 2, decoded.stdout)

    def test_bench_serves_successive_clients(self):
        server = self.start(Host(), "bench", "--server", "--port",
                            f"net_memif0,role=server,socket={self.directory}/m", "--address",
                            f"{SERVER}/24", *self.cores)
        server.wait_for_line("^serving ")
        for address in (CLIENT, "10.0.0.3"):
            bench = self.finish(Host(), *self.client_argv(
                "bench", "--measure", "null,send,read", "--sizes", "64", "--count", "100",
                SERVER, address=address))
            self.assertEqual(bench.process.returncode, 0, bench.stderr)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_commands_with_one_core_refuse_several(self):
        many = ("--cores", f"{CPUS[0]},{CPUS[1]}")
        for command in (self.client_argv("ls", *many, SERVER),
                        self.client_argv("ping", *many, SERVER)):
            self.assert_one_line(self.finish(Host(), *command), 2, "--cores", "one core")
        self.assert_one_line(self.finish(Host(), *self.client_argv(
            "nfsd", "--export", self.root, *many)), 2, "--cores", "one worker")
        self.assert_one_line(self.finish(Host(), *self.client_argv("run", *many, "--", "true")),
                             2, "--cores", "one worker")
        self.assert_one_line(self.finish(Host(), *self.client_argv("ls", "--core", "0,1", SERVER)),
                             2, "--core", "several")
        self.assert_one_line(self.finish(Host(), *self.client_argv("ls", "--cores", "1-", SERVER)),
                             2, "--cores", "'1-'")


class BridgeTest(CoresTest):
    """A server and its clients, each on a port of a bridge."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise unittest.SkipTest("needs root and the command ip, to make network interfaces")
        if not Host().shell("ip link add bridge type bridge"):
            raise unittest.SkipTest("needs a kernel and a right to make a bridge")
        self.addCleanup(Host().shell, "ip link del bridge")
        self.assertTrue(Host().shell("ip link set bridge arp off up"))
        for number in range(1, 6):
            self.assertTrue(Host().shell(
                f"ip link add port{number} type veth peer name plx{number};"
                f"ip link set port{number} master bridge;"
                f"ip link set port{number} mtu 4400 up; ip link set plx{number} mtu 4400 up"))
            self.addCleanup(Host().shell, f"ip link del port{number}")

    def rping(self, number, *arguments):
        return self.start(Host(), "--port", f"net_af_packet0,iface=plx{number}", "--address",
                          f"10.0.0.{number}/24", *arguments, program=RPING)

    def client(self, number, connected):
        """Starts a client and returns it when `connected()` is true."""
        client = self.rping(number, "-c", "-a", "10.0.0.1", "-S", "4096", "--idle", "sleep",
                            "--json")
        wait_for("a connection", lambda: client.process.poll() is not None or connected())
        self.assertIsNone(client.process.poll(), client.stderr)
        return client

    def packets_sent(self, client):
        return self.told_by(client, "stat")["workers"][0]["ports"][0]["sent_pkts"]

    def clients_of_both_cores(self, server):
        """Returns four clients, not all on one core, and how many it started to get them.

        The core of a client depends on its random queue pair number.
        """
        clients = {}

        def start(number):
            count = len(clients) + 1
            clients[number] = self.client(number,
                                          lambda: sum(self.connections(server)) == count)

        for number in range(2, 6):
            start(number)
        for started in range(4, 40):
            if 0 not in self.connections(server):
                return clients, started
            self.assertEqual(clients.pop(5).interrupt(), 1)
            wait_for("its end", lambda: sum(self.connections(server)) == 3)
            start(5)
        self.fail("36 clients on one core")

    def test_clients_of_both_cores_are_served(self):
        server = self.rping(1, "-s", "-P", "--json", *self.cores)
        server.wait_for_line("^listening ")
        clients, started = self.clients_of_both_cores(server)
        listed = [one for one in self.told_by(server, "connections")["connections"]
                  if one["state"] == "ESTABLISHED"]
        self.assertEqual(len(listed), 4)
        for one in listed:
            self.assertEqual(one["cpu"], CPUS[one["worker"]])
            # The most significant bits of a queue pair number are the worker's number.
            self.assertEqual(one["qpn"] >> 20, one["worker"])
        self.assertEqual(sum(one["state"] == "LISTEN" for one in
                             self.told_by(server, "connections")["connections"]), 2)
        # Two clients are killed, and reconnect.
        for back, number in enumerate((2, 3)):
            clients[number].process.kill()
            clients[number].wait()
            clients[number] = self.client(
                number, lambda: self.new_ones(server, listed) == back + 1)
        for number, client in clients.items():
            # More packets than connecting and one ping take.
            wait_for("pings", lambda client=client: self.packets_sent(client) > 100)
            self.assertEqual(client.interrupt(), 1, client.stderr)
            answer = json.loads(client.stdout)
            self.assertIn("interrupted", answer["error"])
            self.assertGreater(answer["pings"], 0, number)
        self.assertEqual(server.interrupt(), 0, server.stderr)
        answer = json.loads(server.stdout)
        self.assertEqual(answer["clients"], started + 2)
        self.assertGreater(answer["pings"], started + 2)

    def new_ones(self, server, listed):
        """Returns the number of established connections that are not in `listed`."""
        known = {one["comm_id"] for one in listed}
        return sum(one["state"] == "ESTABLISHED" and one["comm_id"] not in known
                   for one in self.told_by(server, "connections")["connections"])
