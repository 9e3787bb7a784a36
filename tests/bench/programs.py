"""Compares programs made for rdma-core, run on Pollux by `pollux run`, with the native API.

Each pass measures perftest between two processes over net_af_packet on a veth, and directly after
it perftest's loops with the native API (native.cc) over the same veth. The same run measures
ib_send_lat with both sides sleeping between messages, and the peers of peers.py; these have no
verdict. Ratios are taken within a pass, and their median is printed. Round trips are medians too: a
mean would show how busy the machine was. Needs the right to make network namespaces.

usage: programs.py POLLUX BENCH [--passes N] [--scale X] [--bytes N,...] [--json]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

# The modules beside this file, whether it runs as a program or as a module.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from processes import (ADDRESSES, ENDS, Missing, Namespace, free_port, make_veth, needs, number,
                       output, serving)
from peers import PEERS

# With fewer passes the verdicts do not count.
LEAST_PASSES = 5
BYTES = (2, 64, 4096, 65536, 1 << 20)
PERFTEST = ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_send_bw", "ib_write_bw",
            "ib_read_bw")
# Limits of what the ABI may cost. ib_write_lat polls its memory and makes no call: meanwhile only
# the progress thread serves it, which with two CPUs shares a CPU with the program.
RATE_AT_LEAST = 0.9
ROUND_TRIP_ADDS_AT_MOST_US = 0.15
# As a share of the native time; used if it is the higher limit and a message has several packets.
# Such a message's time is that of its bytes, so the tenth allowed for the rate applies; the time
# varies by far more than 150 ns.
ROUND_TRIP_ADDS_AT_MOST = 0.1
PACKET_BYTES = 4096  # path MTU
GID_INDEX = 1  # of the IPv4 address; index 0 is the IPv6 link-local address
QP_TIMEOUT = 19  # 2.1 s, as native's: on a busy machine a spinning thread may lack a CPU for long


class Bench:
    def __init__(self, options, namespace):
        self.options = options
        self.namespace = namespace  # holds both ends of the veth and runs both processes
        self.pollux = os.path.abspath(options.pollux)
        self.bench = os.path.abspath(options.bench)

    def count(self, program, size):
        """Returns how many messages to send: perftest's minimum to about two seconds of them."""
        most = 20_000 if program.endswith("_lat") else 100_000
        return max(100, int(self.options.scale * min(most, (1 << 31) // size)))

    def perftest(self, program, size, *options):
        """Returns the median round trip in us, or bytes per second, between two processes."""
        needs(program)
        port = free_port()
        server, client = (
            (*self.namespace.enter, self.pollux, "run", "--port", f"net_af_packet0,iface={end}",
             "--address", f"{address}/24", "--", program, "-x", GID_INDEX, "-u", QP_TIMEOUT, "-F",
             "-p", port, "-s", size, "-n", self.count(program, size), *options)
            for end, address in zip(ENDS, ADDRESSES))
        with serving(server, port):
            said = output((*client, "127.0.0.1"))
        # Columns: size, iterations, then peak and average in MiB/s, or minimum, maximum and median
        # in us.
        if program.endswith("_bw"):
            return number(rf"^\s*{size}\s+\d+\s+[\d.]+\s+([\d.]+)", said) * (1 << 20)
        one_way = number(rf"^\s*{size}\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", said)
        return one_way if program == "ib_read_lat" else 2 * one_way

    def by_native_api(self, program, size):
        _, operation, kind = program.split("_")
        # One process runs both sides and gives each its own CPU.
        return float(output((*self.namespace.enter, self.bench, "native", *ENDS, operation, kind,
                             size, self.count(program, size)), cpu=None))


class Table:
    """Figures by row, one per pass, and the rows that could not be measured, with the reasons."""

    def __init__(self):
        self.rows = {}
        self.missing = {}
        self.failed = False

    def record(self, row, unit, measure):
        if row in self.missing:
            return
        try:
            value = measure()
        except Missing as reason:
            self.missing[row] = str(reason)
        except (RuntimeError, OSError, subprocess.SubprocessError) as failure:
            # The figures of other rows, and of this row in earlier passes, are kept.
            self.failed = True
            self.missing[row] = str(failure).strip().replace("\n", "; ")
        else:
            self.rows.setdefault(row, (unit, []))[1].append(value)


def one_pass(bench, table, programs, sizes):
    for program in programs:
        unit = "B/s" if program.endswith("_bw") else "us"
        for size in sizes:
            name = f"{program} {size} B"
            table.record(name, unit, lambda: bench.perftest(program, size))
            if name in table.rows:
                table.record(f"{name}, native", unit, lambda: bench.by_native_api(program, size))
    for size in sizes if "ib_send_lat" in programs else ():
        # Each side sleeps until a completion event; meanwhile the progress thread polls the port.
        table.record(f"ib_send_lat -e {size} B", "us",
                     lambda: bench.perftest("ib_send_lat", size, "-e"))


def peers_pass(table, peers, scale):
    for peer in peers:
        name, measure = PEERS[peer]
        if name in table.missing:
            continue
        try:
            for row, unit, value in measure(scale):
                table.record(row, unit, lambda: value)
        except (Missing, RuntimeError, OSError, subprocess.SubprocessError) as reason:
            # The figures of earlier passes and of other peers are kept.
            table.missing[name] = str(reason).strip().replace("\n", "; ")


def may_add_us(size, native_us):
    """Returns the us that a round trip of `size` bytes may take beyond a native one."""
    share = ROUND_TRIP_ADDS_AT_MOST if size > PACKET_BYTES else 0
    return max(ROUND_TRIP_ADDS_AT_MOST_US, share * native_us)


def verdicts(table, programs, sizes):
    """Yields per program and size (name, kind of figure, figure, limit, whether it is met)."""
    for program in programs:
        for size in sizes:
            name = f"{program} {size} B"
            if name not in table.rows or f"{name}, native" not in table.rows:
                continue
            pairs = list(zip(table.rows[name][1], table.rows[f"{name}, native"][1]))
            if program.endswith("_bw"):
                ratio = statistics.median(ours / native for ours, native in pairs)
                yield name, "rate / native", ratio, RATE_AT_LEAST, ratio >= RATE_AT_LEAST
            else:
                added = statistics.median(ours - native for ours, native in pairs)
                limit = may_add_us(size, statistics.median(native for _, native in pairs))
                yield name, "us above native", added, limit, added <= limit


def report(table, programs, sizes, passes, as_json):
    rows = {name: {"unit": unit, "median": statistics.median(values), "low": min(values),
                   "high": max(values)} for name, (unit, values) in table.rows.items()}
    judged = list(verdicts(table, programs, sizes))
    if as_json:
        print(json.dumps({"figures": rows, "missing": table.missing,
                          "verdicts_count": passes >= LEAST_PASSES,
                          "verdicts": {name: {what: figure, "limit": limit, "met": met}
                                       for name, what, figure, limit, met in judged}}))
        return
    print(f"{'':40}{'median':>14}{'low':>14}{'high':>14}")
    for name, row in rows.items():
        print(f"{name:40}{row['median']:14.5g}{row['low']:14.5g}{row['high']:14.5g}  "
              f"{row['unit']}")
    print()
    for name, what, figure, limit, met in judged:
        print(f"{name:40}{figure:14.3f}  {what}, limit {limit:.4g}: "
              f"{'met' if met else 'not met'}")
    if any(not program.endswith("_bw") for program in programs):
        print(f"limit of a round trip: {ROUND_TRIP_ADDS_AT_MOST_US} us, or of more than "
              f"{PACKET_BYTES} B {ROUND_TRIP_ADDS_AT_MOST:.0%} of the native one if that is more")
    if judged and passes < LEAST_PASSES:
        print(f"passes: {passes}, fewer than {LEAST_PASSES}: these verdicts do not count")
    for row, reason in table.missing.items():
        print(f"{row}: not measured: {reason}")


def main():
    parser = argparse.ArgumentParser(
        prog="tools/dev bench --programs",
        description="perftest on Pollux beside the native API; ratios of each pass, their median")
    parser.add_argument("pollux", help=argparse.SUPPRESS)
    parser.add_argument("bench", help=argparse.SUPPRESS)
    parser.add_argument("--passes", type=int, default=LEAST_PASSES,
                        help="passes; figures are their medians (%(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="length of each measurement (1)")
    parser.add_argument("--bytes", default=",".join(map(str, BYTES)),
                        help="message sizes (%(default)s)")
    parser.add_argument("--only", default=",".join((*PERFTEST, *PEERS)),
                        help="programs of perftest, and peers (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args()
    sizes = [int(size) for size in options.bytes.split(",")]
    only = options.only.split(",")
    for name in only:
        if name not in (*PERFTEST, *PEERS):
            parser.error(f"--only {name}: there are {', '.join((*PERFTEST, *PEERS))}")
    programs = [name for name in only if name in PERFTEST]
    peers = [name for name in only if name in PEERS]
    table = Table()
    with Namespace() as namespace:
        make_veth(namespace, namespace)
        bench = Bench(options, namespace)
        for number_of_pass in range(options.passes):
            print(f"pass {number_of_pass + 1} of {options.passes}", file=sys.stderr)
            one_pass(bench, table, programs, sizes)
            peers_pass(table, peers, options.scale)
    report(table, programs, sizes, options.passes, options.json)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/build"))
    import closed_pipe
    try:
        closed_pipe.run(main)
    except (Missing, RuntimeError) as failure:
        raise SystemExit(f"bench --programs: {failure}") from None
