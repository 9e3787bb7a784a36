"""Programs made for rdma-core on Pollux (pollux run), beside the native API and beside others.

perftest between two processes over net_af_packet on a veth and perftest's loops by the native API
(native.cc) over the same, one right after the other, pass by pass; and, in the same run,
ib_send_lat where both sides sleep between messages, UCX over TCP and over shared memory, and qperf
and sockperf over the kernel's TCP on a veth. Ratios are taken within a pass; what is printed is
their median. Round trips are medians too: a mean says how busy the machine was. Needs the right to
make network namespaces.

usage: programs.py POLLUX NATIVE [--passes N] [--scale X] [--bytes N,...] [--json]
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

BYTES = (2, 64, 4096, 65536, 1 << 20)
PERFTEST = ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_send_bw", "ib_write_bw",
            "ib_read_bw")
# The ABI may cost so much. ib_write_lat waits for its memory without a call: only the progress
# thread serves it meanwhile, and where there are two CPUs it takes turns with the program.
RATE_AT_LEAST = 0.9
ROUND_TRIP_ADDS_AT_MOST_US = 0.15
# A guard against hanging, not an expectation.
PATIENCE_S = 120
SERVER_CPU, CLIENT_CPU = 0, 1
SOCKPERF_MOST_BYTES = 65506
PACKAGES = {"ib_send_lat": "perftest", "ucx_perftest": "ucx-utils", "qperf": "qperf",
            "sockperf": "sockperf"}
ENDS = ("end0", "end1")  # of the veth
ADDRESSES = ("192.0.2.1", "192.0.2.2")
GID_INDEX = 1  # of the address; 0 is the link-local one, of IPv6
QP_TIMEOUT = 19  # 2.1 s, as native's: threads that spin on a busy machine stand still for long
MTU = 4400


class Missing(Exception):
    """A program that is not installed, or a right that is not given."""


def needs(program):
    if shutil.which(program) is None:
        raise Missing(f"{program} is not installed (apt-get install {PACKAGES[program]})")


def pinned(cpu):
    """Keeps a child on its CPU, where there are two."""
    if os.cpu_count() > CLIENT_CPU:
        return lambda: os.sched_setaffinity(0, {cpu})
    return None


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
    """A server, once it listens on its TCP port; ended with the block."""
    server = start(argv, SERVER_CPU)
    try:
        give_up = time.monotonic() + PATIENCE_S
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
        said, _ = run.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        run.kill()
        said, _ = run.communicate()
        raise RuntimeError(f"{line} took more than {PATIENCE_S} s:\n"
                           f"{said}") from None
    if run.returncode != 0:
        raise RuntimeError(f"{line} ended with {run.returncode}:\n{said}")
    return said


def number(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no figure in:\n{text}")
    return float(found[1])


class Bench:
    def __init__(self, options, namespace):
        self.options = options
        self.namespace = namespace  # with both ends of the veth, and both processes
        self.pollux = os.path.abspath(options.pollux)
        self.native = os.path.abspath(options.native)

    def count(self, program, size):
        """How many messages: no less than perftest's least, no more than a second or two."""
        most = 20_000 if program.endswith("_lat") else 100_000
        return max(100, int(self.options.scale * min(most, (1 << 31) // size)))

    def perftest(self, program, size, *options):
        """Microseconds of the median round trip, or bytes a second, between two processes."""
        needs(program)
        port = free_port()
        server, client = (
            (*self.namespace.enter, self.pollux, "run", "--port", f"net_af_packet0,iface={end}",
             "--address", f"{address}/24", "--", program, "-x", GID_INDEX, "-u", QP_TIMEOUT, "-F",
             "-p", port, "-s", size, "-n", self.count(program, size), *options)
            for end, address in zip(ENDS, ADDRESSES))
        with serving(server, port):
            said = output((*client, "127.0.0.1"))
        # Sizes, iterations, then: peak, average in MiB/s; or least, most, median in us.
        if program.endswith("_bw"):
            return number(rf"^\s*{size}\s+\d+\s+[\d.]+\s+([\d.]+)", said) * (1 << 20)
        one_way = number(rf"^\s*{size}\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", said)
        return one_way if program == "ib_read_lat" else 2 * one_way

    def by_native_api(self, program, size):
        _, operation, kind = program.split("_")
        return float(output((*self.namespace.enter, self.native, *ENDS, operation, kind, size,
                             self.count(program, size))))

    def ucx(self, transport, test, size):
        """Microseconds of a round trip, or bytes a second."""
        needs("ucx_perftest")
        port = free_port()
        argv = ("env", f"UCX_TLS={transport}", "ucx_perftest", "-p", port, "-t", f"tag_{test}",
                "-s", size, "-n", self.count(f"ucx_{test}", size), "-w", 100)
        with serving(argv, port):
            said = output((*argv, "127.0.0.1"))
        # Iterations, percentile; latency average, overall; bandwidth average, overall; rates.
        figures = re.search(r"^Final:(?:\s+[\d.]+){3}\s+([\d.]+)\s+[\d.]+\s+([\d.]+)", said,
                            re.MULTILINE)
        if figures is None:
            raise RuntimeError(f"no figure in:\n{said}")
        return 2 * float(figures[1]) if test == "lat" else float(figures[2]) * (1 << 20)

    def qperf(self, veth, test, size):
        needs("qperf")
        port = free_port()
        server, client = (namespace.enter for namespace in veth)
        with serving((*server, "qperf", "-lp", port), port):
            said = output((*client, "qperf", "-lp", port, "-uu", "-m", size, "-t", 1,
                           ADDRESSES[0], f"tcp_{test}"))
        value = number(r"= +([\d.e+]+)", said)
        # In the least unit: ns one way, or bytes a second.
        return 2e-3 * value if test == "lat" else value

    def sockperf(self, veth, size):
        needs("sockperf")
        port = free_port()
        server, client = (namespace.enter for namespace in veth)
        with serving((*server, "sockperf", "sr", "--tcp", "-p", port), port):
            said = output((*client, "sockperf", "pp", "--tcp", "-i", ADDRESSES[0], "-p", port,
                           "-m", max(size, 14), "-t", 1))
        return 2 * number(r"avg-lat(?:ency)?= *([\d.]+)", said)


class Namespace:
    """A network namespace: what enters it before a program."""

    def __enter__(self):
        self.holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "ip link set lo up && echo && exec sleep infinity"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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


class Table:
    """Figures by row, one a pass, and what could not be measured."""

    def __init__(self):
        self.rows = {}
        self.missing = {}

    def record(self, row, unit, measure):
        if row in self.missing:
            return
        try:
            self.rows.setdefault(row, (unit, []))[1].append(measure())
        except Missing as reason:
            del self.rows[row]
            self.missing[row] = str(reason)


def one_pass(bench, table, programs, sizes):
    for program in programs:
        unit = "B/s" if program.endswith("_bw") else "us"
        for size in sizes:
            name = f"{program} {size} B"
            table.record(name, unit, lambda: bench.perftest(program, size))
            if name in table.rows:
                table.record(f"{name}, native", unit, lambda: bench.by_native_api(program, size))
    for size in sizes if "ib_send_lat" in programs else ():
        # Each side sleeps until a completion is announced: the progress thread has the port.
        table.record(f"ib_send_lat -e {size} B", "us",
                     lambda: bench.perftest("ib_send_lat", size, "-e"))


def peers(bench, table, sizes):
    """What is measured beside, without a verdict."""
    for size in sizes:
        for transport in ("tcp", "posix"):
            for test in ("lat", "bw"):
                table.record(f"UCX {transport} {test} {size} B", "us" if test == "lat" else "B/s",
                             lambda: bench.ucx(transport, test, size))
    with Namespace() as server, Namespace() as client:
        veth = (server, client)
        make_veth(server, client)
        for namespace, end, address in zip(veth, ENDS, ADDRESSES):
            output((*namespace.enter, "ip", "address", "add", f"{address}/24", "dev", end))
        for size in sizes:
            table.record(f"qperf TCP lat {size} B", "us", lambda: bench.qperf(veth, "lat", size))
            table.record(f"qperf TCP bw {size} B", "B/s", lambda: bench.qperf(veth, "bw", size))
            if size <= SOCKPERF_MOST_BYTES:
                table.record(f"sockperf TCP lat {size} B", "us",
                             lambda: bench.sockperf(veth, size))


def verdicts(table, programs, sizes):
    """Per program and size: (name, figure, limit, whether it is met)."""
    for program in programs:
        for size in sizes:
            name = f"{program} {size} B"
            if name not in table.rows:
                continue
            pairs = list(zip(table.rows[name][1], table.rows[f"{name}, native"][1]))
            if program.endswith("_bw"):
                ratio = statistics.median(ours / native for ours, native in pairs)
                yield name, "rate / native", ratio, RATE_AT_LEAST, ratio >= RATE_AT_LEAST
            else:
                added = statistics.median(ours - native for ours, native in pairs)
                yield (name, "us above native", added, ROUND_TRIP_ADDS_AT_MOST_US,
                       added <= ROUND_TRIP_ADDS_AT_MOST_US)


def report(table, programs, sizes, as_json):
    rows = {name: {"unit": unit, "median": statistics.median(values), "low": min(values),
                   "high": max(values)} for name, (unit, values) in table.rows.items()}
    judged = list(verdicts(table, programs, sizes))
    if as_json:
        print(json.dumps({"figures": rows, "missing": table.missing,
                          "verdicts": {name: {what: figure, "limit": limit, "met": met}
                                       for name, what, figure, limit, met in judged}}))
        return
    print(f"{'':32}{'median':>14}{'low':>14}{'high':>14}")
    for name, row in rows.items():
        print(f"{name:32}{row['median']:14.5g}{row['low']:14.5g}{row['high']:14.5g}  "
              f"{row['unit']}")
    print()
    for name, what, figure, limit, met in judged:
        print(f"{name:32}{figure:14.3f}  {what}, limit {limit}: {'met' if met else 'not met'}")
    for row, reason in table.missing.items():
        print(f"{row}: not measured: {reason}")


def main():
    parser = argparse.ArgumentParser(
        prog="bench --programs", description="perftest on Pollux beside the native API; UCX, "
        "qperf and sockperf in the same run")
    parser.add_argument("pollux", help=argparse.SUPPRESS)
    parser.add_argument("native", help=argparse.SUPPRESS)
    parser.add_argument("--passes", type=int, default=3, help="of which the median is taken (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="length of each measurement (1)")
    parser.add_argument("--bytes", default=",".join(map(str, BYTES)),
                        help="message sizes (%(default)s)")
    parser.add_argument("--only", default=",".join(PERFTEST),
                        help="programs of perftest (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args()
    sizes = [int(size) for size in options.bytes.split(",")]
    programs = options.only.split(",")
    table = Table()
    with Namespace() as namespace:
        make_veth(namespace, namespace)
        bench = Bench(options, namespace)
        for number_of_pass in range(options.passes):
            print(f"pass {number_of_pass + 1} of {options.passes}", file=sys.stderr)
            one_pass(bench, table, programs, sizes)
            peers(bench, table, sizes)
    report(table, programs, sizes, options.json)


if __name__ == "__main__":
    try:
        main()
    except (Missing, RuntimeError) as failure:
        raise SystemExit(f"bench --programs: {failure}") from None
