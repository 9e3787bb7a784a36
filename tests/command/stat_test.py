"""Tests pollux stat and pollux connections with running, stopped and killed processes."""

import contextlib
import glob
import json
import os
import pathlib
import signal
import socket

from tests.command.harness import CLIENT, SERVER, CommandTest, Host, wait_for


class StatTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.root = self.directory / "root"
        self.root.mkdir()

    def place(self, role):
        return ("--port", f"net_memif0,role={role},socket={self.directory}/m", "--address",
                f"{SERVER if role == 'server' else CLIENT}/24")

    def serve(self, *arguments):
        run = self.start(Host(), "serve", *self.place("server"), "--root", self.root, *arguments)
        run.wait_for_line("^serving ")
        return run

    def busy_client(self, server, *arguments):
        run = self.start(Host(), "bench", *self.place("client"), "--measure", "null",
                         "--seconds", "0", "--count", "1000000000",
                         *arguments, SERVER)
        wait_for("calls", lambda: self.calls(server) > 100)
        return run

    def calls(self, server):
        (process,) = self.told("stat", "--pid", server.process.pid)
        return process["workers"][0]["rpc"]["server/calls_received"]

    def test_without_a_process_it_is_an_error(self):
        for command in ("stat", "connections"):
            self.assert_one_line(self.finish(Host(), command), 1, "no pollux process runs here",
                                 str(self.directory))
        self.assert_one_line(self.finish(Host(), "stat", "--pid", "77"), 1, "no pollux process 77")
        self.assert_one_line(self.finish(Host(), "stat", "--pid", "x"), 2, "--pid")
        self.assert_one_line(self.finish(Host(), "stat", "--file-prefix", "other"), 1,
                             "no pollux process of other")

    def test_a_stopped_process_is_reported(self):
        server = self.serve()
        words = f"process {server.process.pid}, pollux-{server.process.pid}, does not answer"
        server.process.send_signal(signal.SIGSTOP)
        self.assert_one_line(self.finish(Host(), "stat"), 1, words)
        self.assert_one_line(self.finish(Host(), "stat", "--pid", str(server.process.pid)), 1,
                             words)
        other = self.start(Host(), "serve", "--port",
                           f"net_memif0,role=server,socket={self.directory}/o", "--address",
                           f"{CLIENT}/24", "--root", self.root)
        other.wait_for_line("^serving ")
        shown = self.answered("connections")
        # By now the socket of the stopped process accepts no more queries.
        self.assertIn(f"pollux-{server.process.pid} does not answer", shown.stderr)
        self.assertIn(f"process {other.process.pid}", shown.stdout)
        server.process.send_signal(signal.SIGCONT)

    def test_a_stopped_process_with_a_name_of_its_own_is_reported(self):
        server = self.serve("--file-prefix", "own-name")
        server.process.send_signal(signal.SIGSTOP)
        # The socket accepts two queries. From then on the process ID of its owner is unknown.
        for _ in range(3):
            self.assert_one_line(self.finish(Host(), "stat", "--pid", str(server.process.pid)), 1,
                                 "own-name", "does not answer")
        server.process.send_signal(signal.SIGCONT)

    def test_a_process_with_too_many_clients_is_reported(self):
        server = self.serve()
        self.answered("stat")
        (path,) = glob.glob(f"{self.directory}/dpdk/pollux-{server.process.pid}/*.v2")
        with contextlib.ExitStack() as stack:
            clients = []

            def has_ten():
                client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                client.connect(path)
                # DPDK may not have noticed yet that the client of stat has gone.
                if client.recv(1024):
                    clients.append(client)
                return len(clients) == 10

            wait_for("ten clients", has_ten)
            self.assert_one_line(self.finish(Host(), "stat"), 1,
                                 f"process {server.process.pid}", "10 telemetry clients")
        self.answered("stat")
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_an_interrupted_query_is_not_an_error(self):
        server = self.serve()
        server.process.send_signal(signal.SIGSTOP)
        for command in (("stat",), ("stat", "--watch"), ("connections",), ("top", "--batch")):
            def interrupted(command=command):
                run = self.start(Host(), *command)

                def is_ready():
                    if run.process.poll() is not None:
                        return True
                    status = pathlib.Path(f"/proc/{run.process.pid}/status").read_text(
                        encoding="ascii")
                    caught = next(line for line in status.splitlines()
                                  if line.startswith("SigCgt:"))
                    return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1

                wait_for("a handler", is_ready)
                if run.process.poll() is not None:
                    return False  # the query ended by its time-out, as on a busy machine
                self.assertEqual((run.interrupt(), run.stderr), (0, ""), command)
                return True

            wait_for(f"an interrupted {command}", interrupted)
        server.process.send_signal(signal.SIGCONT)

    def test_counters_of_client_and_server_agree(self):
        server = self.serve("--file-prefix", "the-server")
        client = self.busy_client(server)
        pids = {server.process.pid, client.process.pid}
        self.assertEqual({one["pid"] for one in self.told("stat")}, pids)
        (one,) = self.told("stat", "--pid", str(client.process.pid))
        self.assertEqual(one["file_prefix"], f"pollux-{client.process.pid}")
        (one,) = self.told("stat", "--file-prefix", "the-server")
        self.assertEqual(one["pid"], server.process.pid)
        (worker,) = one["workers"]
        (port,) = worker["ports"]
        self.assertIn("net_memif0", port["name"])
        self.assertEqual(port["gid/1"], SERVER)
        for name in ("sent_pkts", "rcvd_pkts", "rdma_sends", "rdma_recvs"):
            self.assertGreater(port[name], 0, name)
        self.assertEqual(worker["cm"]["cm_rx_msgs/req"], 1)
        self.assertEqual(worker["rpc"]["server/connections"], 1)
        self.assertGreater(worker["rpc"]["server/calls_received"], 0)
        self.assertGreater(worker["core"]["busy_ns"], 0)
        self.assertEqual(worker["memory"]["queue_pairs"], 1)
        gsi, rc = worker["queue_pairs"]
        self.assertEqual((gsi["qpn"], gsi["type"]), (1, "UD"))
        self.assertEqual((rc["type"], rc["state"], rc["peer"]), ("RC", "RTS", CLIENT))
        self.assertGreater(rc["rcvd_pkts"], 0)
        # The process keeps running while it is queried.
        wait_for("more calls", lambda: self.calls(server) > worker["rpc"]["server/calls_received"])
        shown = self.answered("stat")
        for words in (f"process {server.process.pid}, the-server", "server/calls_received",
                      "cm_rx_msgs/req", "net_memif0", " RTS "):
            self.assertIn(words, shown.stdout)
        self.assertNotIn("drops/bad_icrc", shown.stdout)
        self.assertIn("drops/bad_icrc", self.answered("stat", "--all").stdout)
        client.interrupt()
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_idle_worker_sleeps(self):
        server = self.serve("--idle", "sleep")
        self.assert_sleeps_when_idle(server)
        # It still serves clients.
        listed = self.finish(Host(), "ls", *self.place("client"), SERVER)
        self.assertEqual(listed.process.returncode, 0, listed.stderr)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_connections_of_both_ends_agree(self):
        server = self.serve()
        client = self.busy_client(server)
        of_server, of_client = (self.told("connections", "--pid", str(run.process.pid))[0]
                                for run in (server, client))
        states = {one["state"]: one for one in of_server["connections"]}
        self.assertEqual(set(states), {"LISTEN", "ESTABLISHED"})
        there = states["ESTABLISHED"]
        (here,) = of_client["connections"]
        self.assertEqual(here["peer"], f"{SERVER}:20049")
        self.assertEqual((here["local"], here["qpn"], here["peer_qpn"]),
                         (there["peer"], there["peer_qpn"], there["qpn"]))
        self.assertEqual(here["port_space"], "RDMA_PS_TCP")
        self.assertGreaterEqual(here["path_mtu"], 1024)
        self.assertGreater(here["queue_pair"]["sent_bytes"], 0)
        shown = self.answered("connections", "--recorder")
        for words in ("LISTEN", "ESTABLISHED", "<- RC Acknowledge", "-> RC SEND Only"):
            self.assertIn(words, shown.stdout)
        client.interrupt()
        self.assertEqual(server.interrupt(), 0, server.stderr)
        # The files of both processes are removed at their end.
        self.assertEqual(glob.glob(f"{self.directory}/dpdk/*"), [])

    def watch_for(self, beginning, *options):
        """Returns a watch that has printed two whole reports and a part of a third, each with a
        line that begins so."""

        def watched():
            watch = self.start(Host(), "stat", "--watch", *options)
            wait_for("reports", lambda: f"\n{watch.stdout}".count(f"\n{beginning}") >= 3
                     or watch.process.poll() is not None)
            # None if the first query got no answer.
            return watch if watch.process.poll() is None else None

        return wait_for("answers", watched)

    def test_watch_goes_on_after_a_missed_answer(self):
        server = self.serve()
        empty = '{"processes":[]}\n'
        watch = self.watch_for('{"processes":[{', "--json")
        server.process.send_signal(signal.SIGSTOP)
        wait_for("a report without processes", lambda: empty in watch.stdout)
        server.process.send_signal(signal.SIGCONT)
        wait_for("an answer", lambda: "pid" in watch.stdout.rpartition(empty)[2])
        self.assertIn("does not answer", watch.stderr)
        self.assertEqual(watch.interrupt(), 0, watch.stderr)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_watch_repeats_with_later_samples(self):
        server = self.serve()
        watch = self.watch_for('{"processes":[{', "--json")
        first, second = (json.loads(line)["processes"][0]["workers"][0]["core"]["now_ns"]
                         for line in watch.stdout.splitlines()[:2])
        self.assertGreater(second, first)
        self.assertEqual(watch.interrupt(), 0, watch.stderr)
        text = self.watch_for(f"process {server.process.pid}")
        self.assertNotIn("\033", text.stdout)  # no terminal
        self.assertEqual(text.interrupt(), 0, text.stderr)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def ask(self, process, command):
        """Returns the JSON answer of DPDK's telemetry to `command`."""
        (path,) = glob.glob(f"{self.directory}/dpdk/pollux-{process.pid}/*.v2")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.connect(path)
            self.assertEqual(json.loads(asked.recv(1024))["pid"], process.pid)
            asked.send(command.encode())
            return json.loads(asked.recv(16384))

    def test_telemetry_commands_answer(self):
        server = self.serve()
        commands = [name for name in self.ask(server.process, "/")["/"]
                    if name.startswith("/pollux/")]
        self.assertEqual(set(commands), {f"/pollux/{name}" for name in (
            "workers", "worker", "ports", "port", "qps", "qp", "recorder", "memory", "cm",
            "connections", "connection", "rpc")})
        for command in commands:
            self.assertIn(command, self.ask(server.process, command))
        ports = self.ask(server.process, "/pollux/ports")["/pollux/ports"]
        self.assertIn("net_memif0", ports["0/1"])
        self.assertEqual(self.ask(server.process, "/pollux/qps,0")["/pollux/qps"], [1])
        for command, words in (("/pollux/qp,12345", "no 12345"), ("/pollux/qp", "give its number"),
                               ("/pollux/port,7", "no worker 7"), ("/pollux/port,x", "numbers")):
            answer = self.ask(server.process, command)[command.split(",")[0]]
            self.assertIn(words, answer["error"])
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_an_unusable_telemetry_directory_is_reported(self):
        blocked = self.directory / "dpdk"
        blocked.write_bytes(b"")
        server = self.serve()
        first = server.stderr.splitlines()[0]
        self.assertRegex(first, f"no telemetry.*{blocked}")
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_a_symbolic_link_disables_telemetry(self):
        """Checks that Pollux does not follow a link, which another user could point anywhere."""
        elsewhere = self.directory / "elsewhere"
        elsewhere.mkdir()
        (self.directory / "dpdk").symlink_to(elsewhere)
        server = self.serve()
        self.assertRegex(server.stderr.splitlines()[0],
                         f"no telemetry.*{self.directory}/dpdk is a symbolic link; remove it")
        self.assertEqual(list(elsewhere.iterdir()), [])
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_files_of_a_killed_process_are_removed_by_the_next(self):
        server = self.serve()
        server.interrupt(signal.SIGKILL)
        (left,) = glob.glob(f"{self.directory}/dpdk/pollux-*")
        self.assert_one_line(self.finish(Host(), "stat"), 1, "no pollux process runs here")
        os.utime(left, (0, 0))
        pathlib.Path(f"{self.directory}/m").unlink(missing_ok=True)
        server = self.serve()
        self.assertFalse(os.path.exists(left), "removed by the next")
        self.assertEqual(server.interrupt(), 0, server.stderr)
