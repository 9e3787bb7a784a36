"""One pass of a peer that tools/dev bench sets beside Pollux: UCX, qperf or sockperf.

UCX over TCP by loopback and over shared memory; qperf and sockperf over the kernel's TCP on a veth
between two network namespaces. Each is two processes, on a CPU each where there are two. Prints one
JSON object: figures with their units, or what is missing and why.

usage: peers.py ucx|qperf|sockperf [--scale X]
"""

import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys

# Beside this file, whether it is a program or a module.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from processes import (ADDRESSES, ENDS, Missing, Namespace, free_port, make_veth, needs, number,
                       output, serving)

SMALL, BULK = 64, 1 << 20
GIGABITS = 8e-9
SECONDS = 1  # neither qperf nor sockperf takes less


def ucx_final(transport, test, size, count):
    """Of ucx_perftest's last line: us one way (the median), bytes and messages a second."""
    port = free_port()
    argv = ("env", f"UCX_TLS={transport}", "ucx_perftest", "-p", port, "-t", f"tag_{test}", "-s",
            size, "-n", max(100, int(count)), "-w", 100)
    with serving(argv, port):
        said = output((*argv, "127.0.0.1"))
    # Iterations; median, average, overall latency; bandwidth in MiB/s and rate, average, overall.
    found = re.search(r"^Final:\s+\d+\s+([\d.]+)(?:\s+[\d.]+){3}\s+([\d.]+)\s+[\d.]+\s+([\d.]+)",
                      said, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no figure in:\n{said}")
    return float(found[1]), float(found[2]) * (1 << 20), float(found[3])


def ucx(scale):
    needs("ucx_perftest")
    for transport in ("tcp", "posix"):
        one_way, _, _ = ucx_final(transport, "lat", SMALL, 20_000 * scale)
        yield f"UCX {transport} 64 B round trip", "us", 2 * one_way
        _, _, rate = ucx_final(transport, "bw", SMALL, 500_000 * scale)
        yield f"UCX {transport} 64 B stream", "M/s", rate * 1e-6
        _, throughput, _ = ucx_final(transport, "bw", BULK, 2_000 * scale)
        yield f"UCX {transport} 1 MiB", "Gb/s", throughput * GIGABITS


@contextlib.contextmanager
def veth_pair():
    """What enters each of two network namespaces, which a veth with addresses joins."""
    with Namespace() as server, Namespace() as client:
        make_veth(server, client)
        for namespace, end, address in zip((server, client), ENDS, ADDRESSES):
            output((*namespace.enter, "ip", "address", "add", f"{address}/24", "dev", end))
        yield server.enter, client.enter


def qperf_value(server, client, test, size):
    """ns one way, or bytes a second."""
    port = free_port()
    with serving((*server, "qperf", "-lp", port), port):
        return number(r"= +([\d.e+]+)",
                      output((*client, "qperf", "-lp", port, "-uu", "-m", size, "-t", SECONDS,
                              ADDRESSES[0], f"tcp_{test}")))


def qperf(_scale):
    needs("qperf")
    with veth_pair() as (server, client):
        yield ("qperf TCP by veth 64 B round trip", "us",
               2e-3 * qperf_value(server, client, "lat", SMALL))
        yield ("qperf TCP by veth 64 B stream, batched", "M/s",
               qperf_value(server, client, "bw", SMALL) / SMALL * 1e-6)
        yield ("qperf TCP by veth 1 MiB", "Gb/s",
               qperf_value(server, client, "bw", BULK) * GIGABITS)


def sockperf(_scale):
    needs("sockperf")
    with veth_pair() as (server, client):
        port = free_port()
        with serving((*server, "sockperf", "sr", "--tcp", "-p", port), port):
            said = output((*client, "sockperf", "pp", "--tcp", "-i", ADDRESSES[0], "-p", port,
                           "-m", SMALL, "-t", SECONDS))
    # One way, the median.
    yield ("sockperf TCP by veth 64 B round trip", "us",
           2 * number(r"percentile 50\.0+ *= *([\d.]+)", said))


PEERS = {"ucx": ("UCX", ucx), "qperf": ("qperf", qperf), "sockperf": ("sockperf", sockperf)}


def main():
    parser = argparse.ArgumentParser(prog="peers.py", description="one pass of a peer, as JSON")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--scale", type=float, default=1.0, help="length of each measurement (1)")
    options = parser.parse_args()
    name, measure = PEERS[options.peer]
    figures, missing = {}, {}
    try:
        for figure, unit, value in measure(options.scale):
            figures[figure] = {"unit": unit, "value": value}
    except Missing as reason:
        missing[name] = str(reason)
    except (RuntimeError, OSError, subprocess.SubprocessError) as failure:
        # What it has measured stands; its last words say why there is no more.
        missing[name] = str(failure).strip().replace("\n", "; ")
    print(json.dumps({"figures": figures, "missing": missing}))


if __name__ == "__main__":
    main()
