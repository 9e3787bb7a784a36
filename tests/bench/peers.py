"""Runs one pass of a peer that tools/dev bench compares with Pollux: UCX, qperf or sockperf.

UCX runs over loopback TCP and over shared memory; qperf and sockperf run over the kernel's TCP on a
veth between two network namespaces. Each peer has two processes, on separate CPUs if there are two.
Prints one JSON object: figures with their units, or the missing peers with the reasons.

usage: peers.py ucx|qperf|sockperf [--scale X]
"""

import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys

# The modules beside this file, whether it runs as a program or as a module.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from processes import (ADDRESSES, ENDS, Missing, Namespace, free_port, make_veth, needs, number,
                       output, serving)

SMALL, BULK = 64, 1 << 20
GIGABITS = 8e-9
SECONDS = 1  # the shortest that qperf and sockperf accept


def ucx_final(transport, test, size, count):
    """Returns from ucx_perftest's last line the median one-way time in us, bytes/s, messages/s."""
    port = free_port()
    argv = ("env", f"UCX_TLS={transport}", "ucx_perftest", "-p", port, "-t", f"tag_{test}", "-s",
            size, "-n", max(100, int(count)), "-w", 100)
    with serving(argv, port):
        said = output((*argv, "127.0.0.1"))
    # Columns: iterations; median, average and overall latency; average and overall bandwidth in
    # MiB/s; average and overall message rate.
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
    """Connects two network namespaces by a veth with addresses; yields the prefix to enter each."""
    with Namespace() as server, Namespace() as client:
        make_veth(server, client)
        for namespace, end, address in zip((server, client), ENDS, ADDRESSES):
            output((*namespace.enter, "ip", "address", "add", f"{address}/24", "dev", end))
        yield server.enter, client.enter


def qperf_value(server, client, test, size):
    """Returns the one-way time in ns, or bytes per second."""
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
    # sockperf prints the median one-way time.
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
        # The figures measured so far are kept; the failure's text says why the others are missing.
        missing[name] = str(failure).strip().replace("\n", "; ")
    print(json.dumps({"figures": figures, "missing": missing}))


if __name__ == "__main__":
    main()
