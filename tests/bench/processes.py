"""Starts programs with two processes, waits for them, reads their output; network namespaces."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time

# A limit against hanging, not an expected time.
TIMEOUT_S = 600
SERVER_CPU, CLIENT_CPU = 0, 1
PACKAGES = {"ib_send_lat": "perftest", "ucx_perftest": "ucx-utils", "qperf": "qperf",
            "sockperf": "sockperf", "unshare": "util-linux", "nsenter": "util-linux",
            "ip": "iproute2"}
ENDS = ("end0", "end1")  # the interfaces of the veth
ADDRESSES = ("192.0.2.1", "192.0.2.2")
MTU = 4400


class Missing(Exception):
    """A program that is not installed, or a right that the user lacks."""


def needs(program):
    if shutil.which(program) is None:
        raise Missing(f"{program} is not installed (apt-get install {PACKAGES[program]})")


def pinned(cpu):
    """Returns a preexec_fn that pins a child to `cpu`, or None to leave it all CPUs.

    With only one CPU in the machine, or if the child may not use `cpu`, it is not pinned.
    """
    def pin():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {cpu})
    return pin if cpu is not None and os.cpu_count() > CLIENT_CPU else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(pid, port):
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}") as lines:
            if any(f":{port:04X} " in line and " 0A " in line for line in lines):
                return True
    return False


def start(argv, cpu):
    return subprocess.Popen([str(part) for part in argv], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            preexec_fn=pinned(cpu))


@contextlib.contextmanager
def serving(argv, port):
    """Runs a server during the block, which begins when the server listens on its TCP port."""
    server = start(argv, SERVER_CPU)
    try:
        give_up = time.monotonic() + TIMEOUT_S
        while not listening(server.pid, port):
            if server.poll() is not None:
                raise RuntimeError(f"{argv[0]} ended with {server.returncode}:\n"
                                   f"{server.stdout.read()}")
            if time.monotonic() > give_up:
                raise RuntimeError(f"{argv} does not listen on TCP port {port}")
            time.sleep(0.02)
        yield server
    finally:
        server.kill()
        server.communicate()


def output(argv, cpu=CLIENT_CPU):
    line = " ".join(map(str, argv))
    run = start(argv, cpu)
    try:
        said, _ = run.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        run.kill()
        said, _ = run.communicate()
        raise RuntimeError(f"{line} took more than {TIMEOUT_S} s:\n"
                           f"{said}") from None
    if run.returncode != 0:
        raise RuntimeError(f"{line} ended with {run.returncode}:\n{said}")
    return said


def number(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no figure in:\n{text}")
    return float(found[1])


class Namespace:
    """A network namespace; `enter` is the command prefix that runs a program in it."""

    def __enter__(self):
        for program in ("unshare", "nsenter", "ip"):
            needs(program)
        # However this process ends, its end of the pipe is closed, and the holder ends too.
        self.holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "ip link set lo up && echo && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if said := self.holder.stdout.readline().strip():
            self.__exit__()
            raise Missing(f"needs the right to make network namespaces: {said}")
        self.enter = ("nsenter", "-t", self.holder.pid, "-n")
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.communicate()


def make_veth(one, other):
    output((*one.enter, "ip", "link", "add", ENDS[0], "mtu", MTU, "type", "veth", "peer", "name",
            ENDS[1], "mtu", MTU, "netns", other.holder.pid))
    for namespace, end in zip((one, other), ENDS):
        output((*namespace.enter, "ip", "link", "set", end, "addrgenmode", "none", "up"))
