"""Tests pollux top with real traffic, in batch mode and on a terminal that is resized."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

from tests.command.harness import (CLIENT, POLLUX, SERVER, TIMEOUT_S, CommandTest, Host,
                                   wait_for)


class Terminal:
    """A program on a terminal of its own, whose screen is drawn line by line from the top."""

    def __init__(self, arguments, directory, rows, columns):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.text = ""
        self.modes = termios.tcgetattr(slave)  # as they were before the program changes them
        self.process = subprocess.Popen(
            [POLLUX, *arguments], stdin=slave, stdout=slave, stderr=slave, cwd=directory,
            env={**os.environ, "RUNTIME_DIRECTORY": str(directory)}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.slave = slave
        os.set_blocking(self.master, False)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def screen(self, holds):
        """Waits for a new screen for which `holds(lines)` is true and returns its lines."""
        self.text = ""
        give_up = time.monotonic() + TIMEOUT_S
        while time.monotonic() < give_up:
            try:
                self.text += os.read(self.master, 65536).decode()
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                break
            for drawn in re.findall(r"\033\[H(.*?)\033\[J", self.text, re.DOTALL):
                lines = drawn.replace("\033[K", "").split("\r\n")
                if holds(lines):
                    return lines
        raise AssertionError(f"no such screen:\n{self.text}")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class SlowProcess:
    """A process without connections whose telemetry answers each request late."""

    def __init__(self, directory):
        runtime = directory / "dpdk" / "slow"
        runtime.mkdir(mode=0o700, parents=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(runtime / "dpdk_telemetry.v2"))
        self.listener.listen(1)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):  # close() ends it
            while True:
                client, _ = self.listener.accept()
                with client:
                    self.answer(client)

    @staticmethod
    def answer(client):
        client.send(json.dumps({"version": "DPDK", "pid": os.getpid(),
                                "max_output_len": 16384}).encode())
        with contextlib.suppress(ConnectionError):
            while asked := client.recv(1024).decode():
                time.sleep(0.06)
                answer = {"0/1": "wire"} if asked == "/pollux/workers" else None
                client.send(json.dumps({asked.split(",")[0]: answer}).encode())

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


class TopTest(CommandTest):
    def place(self, role):
        return ("--port", f"net_memif0,role={role},socket={self.directory}/m", "--address",
                f"{SERVER if role == 'server' else CLIENT}/24")

    def busy(self):
        server = self.start(Host(), "serve", *self.place("server"), "--root", self.directory,
                            "--file-prefix", "the-server", "--idle", "sleep")
        server.wait_for_line("^serving ")
        client = self.start(Host(), "bench", *self.place("client"), "--measure", "null",
                            "--seconds", "0", "--count", "1000000000", "--rate", "500", SERVER)
        server.wait_for_line(" connected")
        return server, client

    def terminal(self, *arguments, interval="0.3", rows=30, columns=120):
        made = Terminal(("top", "-d", interval, *arguments), self.directory, rows, columns)
        self.addCleanup(made.close)
        return made

    def test_batch_mode_prints_both_processes(self):
        server, client = self.busy()

        def both_processes_in_both_tables():
            """Returns the tables, or None if a process is missing or has no traffic yet.

            top leaves out a process whose worker lacks a CPU for long, and the calls begin some
            time after the connection.
            """
            run = self.finish(Host(), "top", "--batch", "-n", "2", "-d", "1", "--sort", "peer")
            if run.process.returncode != 0 or run.stdout.count("2 processes") != 2:
                return None
            found = run.stdout.split("\n\n")
            cores = [line.split() for line in found[1].splitlines()[2:4]]
            idle = any(float(core[3]) == 0 or core[5] == "0" for core in cores)
            return None if idle else found

        tables = wait_for("two tables", both_processes_in_both_tables)
        self.assertEqual(len(tables), 2, tables)
        title, cores, *lines = tables[1].splitlines()
        self.assertEqual(title, "pollux top: 2 processes, every 1 s, by peer")
        self.assertEqual(cores.split()[:3], ["process", "worker", "CPU"])
        rows = [line.split() for line in lines]
        for process in (server, client):
            (core,) = [row for row in rows[:2] if row[0] == str(process.process.pid)]
            self.assertIn("net_memif0", core[4])
            self.assertGreater(float(core[3]), 0)
            self.assertNotEqual(core[5], "0", "packets per second")
        self.assertEqual(rows[2][:3], ["drops", "by", "reason:"])
        peers = {row[0]: row[1:3] for row in rows[4:]}
        self.assertEqual(peers[str(client.process.pid)], [f"{SERVER}:20049", "ESTABLISHED"])
        run = self.finish(Host(), "top", "-b", "-n", "1", "-d", "0.3", "--filter", "no such text",
                          "--file-prefix", "the-server")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assertIn("1 process, every 0.3 s, by rate, only no such text", run.stdout)
        self.assertNotIn("ESTABLISHED", run.stdout)
        self.assertEqual(server.interrupt(), 0, server.stderr)

    def test_batch_mode_goes_on_after_a_missed_answer(self):
        server, _ = self.busy()

        def printing():
            run = self.start(Host(), "top", "-b", "-d", "0.3", "--file-prefix", "the-server")
            wait_for("a table", lambda: "1 process," in run.stdout
                     or run.process.poll() is not None)
            return run if run.process.poll() is None else None

        run = wait_for("an answer", printing)
        server.process.send_signal(signal.SIGSTOP)
        wait_for("an error", lambda: "does not answer" in run.stderr)
        printed = run.stdout.count("1 process,")
        server.process.send_signal(signal.SIGCONT)
        wait_for("another table", lambda: run.stdout.count("1 process,") > printed)
        self.assertEqual(run.interrupt(), 0, run.stderr)

    def test_keys_change_the_screen(self):
        _, client = self.busy()
        terminal = self.terminal()
        lines = terminal.screen(lambda lines: any("ESTABLISHED" in line for line in lines))
        self.assertRegex(lines[0], "^pollux top: [12] process(es)?, every 0.3 s, by rate$")
        self.assertIn("r:rate", lines[1])
        self.assertTrue(all(len(line) <= 120 for line in lines))
        terminal.press("n")
        terminal.screen(lambda lines: lines[0].endswith("by peer"))
        terminal.press(f"/{CLIENT}")
        terminal.screen(lambda lines: lines[1] == f"filter: {CLIENT}_")
        terminal.press("\n")
        lines = terminal.screen(lambda lines: lines[1].startswith("r:rate"))
        self.assertTrue(lines[0].endswith(f"only {CLIENT}"))
        terminal.press("\033")
        terminal.screen(lambda lines: lines[0].endswith("by peer"))
        terminal.resize(4, 40)
        lines = terminal.screen(lambda lines: len(lines) == 4)
        self.assertTrue(all(len(line) <= 40 for line in lines), lines)
        terminal.resize(30, 200)
        terminal.screen(lambda lines: any("local" in line for line in lines))
        # A process that ends is no longer shown.
        client.interrupt()
        terminal.screen(lambda lines: lines[0].startswith("pollux top: 1 process,"))
        terminal.press("q")
        self.assertEqual(terminal.process.wait(TIMEOUT_S), 0)
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.modes)
        rest = ""
        with contextlib.suppress(BlockingIOError):
            while True:
                rest += os.read(terminal.master, 65536).decode()
        self.assertTrue(rest.endswith("\033[?25h\033[?1049l"), rest)

    def test_selected_connection_shows_its_flight_recorder(self):
        server, client = self.busy()
        terminal = self.terminal("--sort", "peer")
        pids = [str(run.process.pid) for run in (server, client)]
        both = lambda lines: all(any(f" {pid} " in line and "ESTABLISHED" in line
                                     for line in lines) for pid in pids)
        terminal.screen(both)
        selected = lambda lines: [line for line in lines if line.startswith(">")]
        terminal.press("\033[B")
        (first,) = selected(terminal.screen(selected))
        terminal.press("\033[B\033[B")
        lines = terminal.screen(
            lambda lines: selected(lines) and selected(lines)[0].split()[1] != first.split()[1])
        (second,) = selected(lines)
        pid, peer = second.split()[1:3]
        titles, row = ([re.split(" {2,}", line) for line in lines if needle in line][-1]
                       for needle in ("RTT us", second.split()[2]))
        self.assertGreater(float(row[titles.index("RTT us")]), 0)
        self.assertGreater(int(row[titles.index("window")]), 0)
        terminal.press("\n")
        shown = re.compile(f"pollux top: flight recorder of process {pid}, queue pair [0-9]+, "
                           f"peer {re.escape(peer)}$")
        packets = lambda lines: sum("SEND" in line for line in lines)
        lines = terminal.screen(lambda lines: shown.match(lines[0]) and packets(lines))
        self.assertEqual(len(lines), 30)
        # The last lines are shown first.
        terminal.press("\033[A" * 70)
        top = terminal.screen(lambda lines: shown.match(lines[0]) and lines[2] != "")
        self.assertEqual(len(top), 30)
        terminal.press("\n")
        terminal.screen(lambda lines: selected(lines) and selected(lines)[0].split()[1] == pid)
        terminal.press("\n")
        terminal.screen(lambda lines: shown.match(lines[0]))
        # It stays when its connection ends.
        (client if pid == str(client.process.pid) else server).interrupt()
        lines = terminal.screen(lambda lines: lines[0].endswith("; it has ended"))
        self.assertGreater(packets(lines), 0)
        terminal.press("q")
        self.assertEqual(terminal.process.wait(TIMEOUT_S), 0)

    def test_keys_work_if_answers_take_longer_than_the_interval(self):
        slow = SlowProcess(self.directory)
        self.addCleanup(slow.close)
        terminal = self.terminal(interval="0.1")
        terminal.screen(lambda lines: lines[0].startswith("pollux top: 1 process,"))
        terminal.press("n")
        terminal.screen(lambda lines: lines[0].endswith("by peer"))
        terminal.press("q")
        self.assertEqual(terminal.process.wait(TIMEOUT_S), 0)

    def test_an_unknown_width_is_80_columns(self):
        self.busy()
        terminal = self.terminal(columns=0)
        lines = terminal.screen(lambda lines: lines[0].startswith("pollux top:"))
        self.assertEqual(max(len(line) for line in lines), 80)

    def test_the_quit_character_does_not_leave_the_shell_on_the_screen(self):
        self.busy()
        terminal = self.terminal()
        terminal.screen(lambda lines: lines[0].startswith("pollux top:"))
        terminal.press("\x1cn")
        terminal.screen(lambda lines: lines[0].endswith("by peer"))
        terminal.press("q")
        self.assertEqual(terminal.process.wait(TIMEOUT_S), 0)
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.modes)

    def test_an_interrupt_restores_the_terminal(self):
        self.busy()
        terminal = self.terminal()
        terminal.screen(lambda lines: lines[0].startswith("pollux top:"))
        terminal.press("\x03")
        self.assertEqual(terminal.process.wait(TIMEOUT_S), 0)
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.modes)

    def test_invalid_arguments_get_one_error_line(self):
        self.assert_one_line(self.finish(Host(), "top", "--batch"), 1, "no pollux process")
        self.assert_one_line(self.finish(Host(), "top"), 1, "not a terminal", "--batch")
        self.assert_one_line(self.finish(Host(), "top", "--sort", "size"), 2, "'size'", "rate")
        self.assert_one_line(self.finish(Host(), "top", "-d", "0"), 2, "--interval")
