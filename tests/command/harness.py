"""Runs the pollux command as users do, in network namespaces, and observes CM messages."""

import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

POLLUX = os.path.abspath("tools/pollux/pollux")
# rping written with the native API, for tests that list it in their data.
RPING = os.path.abspath("tests/interop/pollux_rping")
# A limit against hanging, not an expected time: on a busy machine or with a sanitizer, work of
# seconds takes minutes.
TIMEOUT_S = int(os.environ.get("POLLUX_TEST_TIMEOUT_S", "600"))
SERVER, CLIENT = "10.0.0.1", "10.0.0.2"
SERVICE_PORT = 20049
CLONE_NEWNET = 0x40000000
RTMGRP_LINK = 1
ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_TIMESTAMPNS = 35
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
ROCE_PORT = 4791
UD_SEND_ONLY = 0x64
# Frames to queue pair 1 have Ethernet, IPv4, UDP, BTH and DETH headers, then the MAD.
BTH_AT = 14 + 20 + 8
MAD_AT = BTH_AT + 12 + 8
CM_NAMES = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ",
            0x16: "DREP"}


def wait_for(what, condition):
    """Waits until `condition()` is true and returns its result."""
    give_up = time.monotonic() + TIMEOUT_S
    while time.monotonic() < give_up:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {TIMEOUT_S} s for {what}")


class Host:
    """A network namespace, kept by the process `holder`; without one, the test's own namespace."""

    def __init__(self, holder=None):
        self.holder = holder

    @classmethod
    def make(cls):
        holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"],
                                  stderr=subprocess.PIPE, text=True)
        own = os.readlink("/proc/self/ns/net")

        def ready():
            if holder.poll() is not None:
                raise unittest.SkipTest(
                    f"needs the right to make network namespaces: {holder.stderr.read().strip()}")
            return os.readlink(f"/proc/{holder.pid}/ns/net") != own

        wait_for("a network namespace", ready)
        return cls(holder)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stderr.close()

    def argv(self, arguments):
        enter = ["nsenter", "-t", str(self.holder.pid), "-n"] if self.holder else []
        return enter + [str(argument) for argument in arguments]

    def shell(self, command):
        """Returns whether the shell command succeeded."""
        return subprocess.run(self.argv(["sh", "-ec", command]), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, check=False).returncode == 0

    def await_answer(self, ping):
        """Repeats the shell command until it succeeds: the answering process may lack a CPU."""
        wait_for(ping, lambda: self.shell(ping))

    @contextlib.contextmanager
    def entered(self):
        """Moves this thread to the namespace during the block: its new sockets belong to it."""
        libc = ctypes.CDLL(None, use_errno=True)
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self.holder.pid}/ns/net", os.O_RDONLY)
        try:
            if libc.setns(there, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            yield
        finally:
            libc.setns(own, CLONE_NEWNET)
            os.close(own)
            os.close(there)

    def packet_socket(self, interface):
        """Returns a packet socket, as filtered() sets it up, on an interface of this host."""
        with self.entered():
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            try:
                return filtered(made, interface)
            except OSError:
                made.close()
                raise

    def link_events(self):
        """Returns a netlink socket for link changes from now on, which reads for at most 100 ms."""
        with self.entered():
            made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        made.bind((0, RTMGRP_LINK))
        made.settimeout(0.1)
        return made


class MountedHost(Host):
    """A host that also has a mount namespace of its own."""

    def argv(self, arguments):
        # In a chroot, only "-r" makes the holder's root that of the command: joining a mount
        # namespace leads to the root of that namespace.
        return ["nsenter", "-t", str(self.holder.pid), "-n", "-m", "-r",
                *(str(argument) for argument in arguments)]


def filtered(made, interface):
    """Binds a packet socket to an interface and lets it receive only RoCE UD SENDs."""
    load_half, load_byte, unless, accept = 0x28, 0x30, 0x15, 0x06
    tests = [(load_half, 12, 0x0800), (load_byte, 23, 17), (load_half, 36, ROCE_PORT),
             (load_byte, BTH_AT, UD_SEND_ONLY)]
    program = []
    for at, (load, offset, wanted) in enumerate(tests):
        # A mismatch jumps to the last instruction, which accepts no bytes.
        program += [(load, 0, 0, offset), (unless, 0, 2 * (len(tests) - at) - 1, wanted)]
    program += [(accept, 0, 0, 0xFFFF), (accept, 0, 0, 0)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    made.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                    struct.pack("HP", len(program), ctypes.addressof(code)))
    made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.bind((interface, ETH_P_ALL))
    made.setblocking(False)
    return made


def stamping_socket():
    """Returns a socket that makes the kernel timestamp arriving packets while it is open.

    The kernel begins some time after the first socket has requested it; until then a packet gets
    the time at which it is read. This function waits until the kernel has begun.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    made.bind(("127.0.0.1", 0))
    while True:
        made.sendto(b"", made.getsockname())
        time.sleep(0.001)
        reading_ns = time.time_ns()
        _, ((_, _, stamp),), _, _ = made.recvmsg(1, 256)
        seconds, nanoseconds = struct.unpack("QQ", stamp)
        if seconds * 10**9 + nanoseconds < reading_ns:
            return made


class CmWatch:
    """The CM messages that arrive at either end of a wire, in order: (source address, name).

    A packet socket does not see what the port on its own end sends, so both ends are watched.
    """

    def __init__(self, hosts, interface):
        self.clock = stamping_socket()
        self.sockets = [host.packet_socket(interface) for host in hosts]
        self.arrived = []

    def seen(self):
        for end in self.sockets:
            with contextlib.suppress(BlockingIOError):
                while True:
                    frame, ((_, _, stamp),), _, _ = end.recvmsg(4096, 256)
                    (attribute,) = struct.unpack_from("!H", frame, MAD_AT + 16)
                    self.arrived.append((struct.unpack("QQ", stamp), socket.inet_ntoa(frame[26:30]),
                                         CM_NAMES.get(attribute)))
        return [(source, name) for _, source, name in sorted(self.arrived)]

    def names(self):
        return [name for _, name in self.seen()]

    def seen_once(self):
        """Returns seen() without repeats: messages are sent again to an end that lacks a CPU."""
        return list(dict.fromkeys(self.seen()))

    def close(self):
        for end in (*self.sockets, self.clock):
            end.close()


class Run:
    """A running process: pollux, unless another program is named."""

    def __init__(self, host, arguments, directory, program=POLLUX, environment=None):
        # The telemetry sockets are created in the test's directory.
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(directory), **(environment or {})}
        # Files rather than pipes, so that no one has to read while the process runs.
        self.out, self.err = (tempfile.TemporaryFile("w+", dir=directory) for _ in range(2))
        self.process = subprocess.Popen(host.argv([program, *arguments]), stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.err, cwd=directory,
                                        env=environment)

    @staticmethod
    def _text(file):
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, 0).decode()

    stdout = property(lambda self: self._text(self.out))
    stderr = property(lambda self: self._text(self.err))

    def wait_for_line(self, pattern):
        def found():
            if re.search(pattern, self.stderr, re.MULTILINE):
                return True
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before saying "
                                     f"'{pattern}':\n{self.stderr}")
            return False

        wait_for(f"'{pattern}'", found)

    def wait(self, timeout_s=TIMEOUT_S):
        return self.process.wait(timeout_s)

    def interrupt(self, number=signal.SIGINT):
        """Sends a signal, waits for the end and returns the exit status."""
        # nsenter replaces itself by the program (exec), so the process is pollux itself.
        self.process.send_signal(number)
        return self.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()
        self.err.close()


class CommandTest(unittest.TestCase):
    """A test with a directory, and with processes that do not outlive it."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="plx"))
        self.addCleanup(shutil.rmtree, self.directory)

    def skip_with_sanitizers(self):
        """For tests in which programs built without sanitizers load Pollux's libraries."""
        linked = subprocess.run(["ldd", POLLUX], capture_output=True, text=True, check=True).stdout
        if any(name in linked for name in ("libasan", "libtsan", "libubsan")):
            self.skipTest("needs libraries that a program without sanitizers can load")

    def start(self, host, *arguments, **keywords):
        run = Run(host, arguments, self.directory, **keywords)
        self.addCleanup(run.close)
        return run

    def finish(self, host, *arguments, **keywords):
        """Runs a process to its end and returns it."""
        run = self.start(host, *arguments, **keywords)
        run.wait()
        return run

    def file(self, name, size):
        """Creates a file of random bytes and returns its path."""
        path = self.directory / name
        path.write_bytes(random.Random(size).randbytes(size))
        return path

    def answered(self, command, *arguments):
        """Returns a run of `command` that got an answer from every worker that it asked.

        Repeats the run otherwise: on a busy machine a worker may answer too late for lack of a CPU.
        """
        def run():
            asked = self.finish(Host(), command, *arguments)
            return asked if asked.process.returncode == 0 else None

        return wait_for(f"an answer to {command}", run)

    def told(self, command, *arguments):
        """Returns the processes in the JSON object of `command`."""
        (line,) = self.answered(command, "--json", *arguments).stdout.splitlines()
        return json.loads(line)["processes"]

    def core_of(self, run):
        """Returns the core statistics of the only worker of a running pollux."""
        (process,) = self.told("stat", "--pid", run.process.pid)
        (worker,) = process["workers"]
        return worker["core"]

    def assert_sleeps_when_idle(self, run):
        """Asserts that a worker with --idle sleep and without requests polls once per sleep."""
        before = self.core_of(run)
        wait_for("sleeps", lambda: self.core_of(run)["sleeps"] >= before["sleeps"] + 200)
        after = self.core_of(run)
        polls, busy, sleeps = (after[name] - before[name]
                               for name in ("polls", "busy_polls", "sleeps"))
        # After work it polls 256 times before it sleeps again. A cancelled timer may cost one more
        # poll.
        self.assertLessEqual(polls, 2 * sleeps + 257 * (busy + 1))

    def assert_one_line(self, run, status, *words):
        """Asserts that `run` ended with `status` and one line of error, which has all the words."""
        self.assertEqual(run.process.returncode, status, run.stderr)
        lines = run.stderr.splitlines()
        self.assertEqual(len(lines), 1, run.stderr)
        for word in words:
            self.assertIn(word, lines[0])
