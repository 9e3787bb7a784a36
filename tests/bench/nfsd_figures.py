"""The fio loads for NFS servers, their figures, and the table of these figures."""

import json
import statistics

# fio's options for each load, and the unit of its figure.
LOADS = {
    "read 4 KiB": ("--rw=randread --bs=4k --iodepth=1", "calls/s"),
    "write 4 KiB": ("--rw=randwrite --bs=4k --iodepth=1", "calls/s"),
    "read 1 MiB": ("--rw=read --bs=1m --iodepth=4", "MB/s"),
    "write 1 MiB": ("--rw=write --bs=1m --iodepth=4", "MB/s"),
}
POLLUX, OVER_RXE, OVER_TCP = "pollux nfsd", "knfsd by rxe", "knfsd by TCP"


def rate(output, load, unit):
    """Returns the figure from fio's JSON of one job with the options `load`."""
    job, = json.loads(output)["jobs"]
    side = job["read" if "read" in load else "write"]
    return side["iops"] if unit == "calls/s" else side["bw_bytes"] / 1e6


def summary(figures):
    """Returns medians of {(server, load): figures, one per pass}, and of the ratios per pass."""
    rows, ratios = {}, {}
    for (where, load), values in figures.items():
        rows[f"{where}, {load}"] = {"unit": LOADS[load][1], "median": statistics.median(values),
                                    "low": min(values), "high": max(values)}
    for load in LOADS:
        for other in (OVER_RXE, OVER_TCP):
            ratios[f"{load}: {POLLUX} / {other}"] = statistics.median(
                mine / theirs for mine, theirs in zip(figures[POLLUX, load],
                                                      figures[other, load]))
    return {"figures": rows, "ratios": ratios}


def report(figures, as_json):
    """Returns the figures and ratios as a table or as JSON."""
    told = summary(figures)
    if as_json:
        return json.dumps(told)
    lines = [f"{'':32}{'median':>12}{'low':>12}{'high':>12}"]
    for name, row in told["figures"].items():
        lines.append(f"{name:32}{row['median']:12.1f}{row['low']:12.1f}{row['high']:12.1f}  "
                     f"{row['unit']}")
    lines.append(f"\n{'ratio':44}{'median':>12}")
    for name, ratio in told["ratios"].items():
        lines.append(f"{name:44}{ratio:12.2f}")
    return "\n".join(lines)
