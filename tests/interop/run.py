"""Tests Pollux against Linux's soft-RoCE in a virtual machine.

usage: tools/dev interop [--all | --once | --nightly] [--list] [--json] [--port KIND]
                         [--guest RELEASE] [--keep] [CASE...]

CASE is a name or a pattern such as 'rping-*'. Without any, all cases except the slow ones run in
every direction, each direction over another kind of port. With --all, or if cases are named, they
run in every direction over every kind of port; with --all also over NICs, in a second guest. With
--once, which every change must pass, each case runs in one direction and over one kind of port, in
turn. With --nightly, the plain run, each slow case in one direction and over one kind of port, and
each case of NICs in one direction over one NIC, which change with the number of commits. The guest
is of Debian 12 (bookworm), or of Debian 13 (trixie) with --guest trixie; with --nightly it changes
with the number of commits. A case counts only if its capture shows the frames that it is named
after. Needs root. Ends with the line `N passed, N failed` (and `, N skipped`); the exit status is 0
only if nothing failed.
"""

import argparse
import fnmatch
import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import guest as guests
import image
import network
import nic_guest
from case import CASES, Bench
from process import CaseFailure, CaseSkipped, die_with_parent, is_root

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = {"pollux": "//tools/pollux:pollux", "conformance": "//tests/conformance:conformance",
         "pollux_peer": "//tests/interop:pollux_peer",
         "pollux_rping": "//tests/interop:pollux_rping", "peer": "//tests/interop:peer",
         "nfs4_callback": "//tests/interop:nfs4_callback"}
# Files that `pollux run` looks for in compat/, beside the folder tools/ that has the command.
LIBRARIES = ("libibverbs.so.1", "libpollux_verbs.so", "librdmacm.so.1", "libpollux_device_file.so",
             "pollux_supervisor")
NEEDED = ("ip", "tcpdump", "tshark", "qemu-system-x86_64", "debootstrap", "mksquashfs", "cpio",
          "zstd", "modprobe")
MODULES = sorted(path.stem for path in HERE.glob("cases_*.py"))
# There is one guest per CPU, which it keeps busy, but not more than this: each takes 1 GiB, and
# another one of 1 GiB with a NIC.
MAX_GUESTS = 4
PROGRESS_COLUMNS = 79
FORK = multiprocessing.get_context("fork")
CONSOLE_LINES = 15
ERROR_LINES = 15


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/dev interop", description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true",
                        help="also the slow cases, and every case over every kind of port")
    parser.add_argument("--once", action="store_true",
                        help="each case only in one direction and over one kind of port")
    parser.add_argument("--nightly", action="store_true",
                        help="also the slow cases, each in one direction and over one kind of "
                             "port, which differ from commit to commit")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--port", choices=sorted(network.PORTS), help="use only this kind of port")
    parser.add_argument("--guest", choices=image.SUITES,
                        help="the release of the guest's Debian (bookworm)")
    parser.add_argument("--keep", action="store_true", help="keep captures of passed cases, too")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="a name or a pattern")
    return parser.parse_args()


def choose(options):
    if not options.cases:
        return [one for one in CASES if options.all or options.nightly or not one.extra]
    chosen = [one for one in CASES
              if any(fnmatch.fnmatchcase(one.name, pattern) for pattern in options.cases)]
    for pattern in options.cases:
        if not any(fnmatch.fnmatchcase(one.name, pattern) for one in CASES):
            sys.exit(f"tools/dev interop: no case '{pattern}'; --list shows those there are")
    return chosen


def say(text):
    print(f"tools/dev interop: {text}", file=sys.stderr, flush=True)


def build_tools(folder):
    """Builds what the cases run; returns copies in `folder`, which a build during the run does not
    change."""
    done = subprocess.run(["bazel", "build", "--noshow_progress", "--show_result=0",
                           *TOOLS.values(), "//:verbs_libraries"],
                          cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}\ntools/dev interop: the build failed")
    built = ROOT / "bazel-bin"
    copies = {}
    for name in ("tools/pollux", "compat"):
        (folder / name).mkdir(parents=True)
    for name, label in TOOLS.items():
        copies[name] = folder / "tools/pollux" / name
        shutil.copy(built / label.removeprefix("//").replace(":", "/"), copies[name])
    for name in LIBRARIES:
        shutil.copy(built / "compat" / name, folder / "compat" / name)
    return copies


class Table:
    """The table of results. It prints rows as they come, or all of them at the end as JSON."""

    COLUMNS = (("case", 26), ("direction", 16), ("port", 10), ("result", 8), ("seconds", 8))

    def __init__(self, as_json, total):
        self.as_json = as_json
        self.total = total
        self.rows = []
        if not as_json:
            print("  ".join(name.ljust(width) for name, width in self.COLUMNS).rstrip())

    def show_running(self, names):
        """Shows on a terminal which cases run now."""
        if not self.as_json and sys.stdout.isatty():
            line = f"[{len(self.rows)}/{self.total}] {', '.join(names)} ..."
            print(line[:PROGRESS_COLUMNS].ljust(PROGRESS_COLUMNS), end="\r", flush=True)

    def add(self, the_case, direction, port, result, seconds, reason=""):
        self.rows.append({"case": the_case, "direction": direction, "port": port, "result": result,
                          "seconds": round(seconds, 1), "reason": reason})
        if not self.as_json:
            words = (the_case, direction, port, result, f"{seconds:.1f}")
            cells = [word.ljust(width) for word, (_, width) in zip(words, self.COLUMNS)]
            # Of a case that failed while it ran, an explanation follows.
            told = f"  {reason}" if result == "skipped" or not seconds else ""
            print("  ".join(cells).rstrip() + told, flush=True)

    def count(self, result):
        return sum(row["result"] == result for row in self.rows)

    def finish(self):
        """Prints the totals or the JSON object; returns the exit status."""
        skipped = self.count("skipped")
        if self.as_json:
            print(json.dumps({"ok": not self.count("FAILED"), "cases": self.rows}))
        else:
            print(f"{self.count('passed')} passed, {self.count('FAILED')} failed"
                  + (f", {skipped} skipped" if skipped else ""))
        return 1 if self.count("FAILED") else 0


def explain(bench, guest, reason):
    """Returns the outputs of a failed case that explain it."""
    lines = [f"FAILED {bench.case.name} ({bench.direction}, {bench.port.kind}): {reason}"]
    for process in bench.processes:
        lines += [f"  {process.name}: {line}"
                  for line in process.stderr.splitlines()[-ERROR_LINES:]]
    lines += [f"  pollux connections: {line}" for line in bench.recorders]
    lines += [f"  guest: {line}" for line in guest.state()]
    for one in (guest, bench.nic_guest):
        if one:
            lines += [f"  console of {one.name}: {line}"
                      for line in one.console_tail(CONSOLE_LINES).splitlines()]
    lines.append(f"  capture and outputs: {bench.folder}")
    return "\n".join(lines)


def run_one(the_case, direction, port, guest, nic, tools, folder, keep):
    """Returns the case's result, its duration in seconds, the reason if it did not pass, and what
    explains a failure."""
    folder.mkdir()
    bench = Bench(the_case, direction, port, guest, nic, tools, folder)
    begun = time.monotonic()
    result, reason, explanation = "passed", "", ""
    try:
        guest.reset(port.mtu)
        if bench.nic_guest:
            nic.reset()
            nic.start(port.nic, port.driver)
        bench.run()
    except CaseSkipped as skip:
        result, reason = "skipped", str(skip)
    except Exception as failure:  # an error in a case is that case's failure
        result, reason = "FAILED", f"{failure}" or type(failure).__name__
        if not isinstance(failure, CaseFailure):
            explanation = traceback.format_exc()
    seconds = time.monotonic() - begun
    if result == "FAILED":
        explanation += explain(bench, guest, reason)
    elif not keep:
        shutil.rmtree(folder)
    return result, seconds, reason, explanation


def end_worker(*_):
    """The signal handler of a worker: its `finally` blocks release what it has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def work(number, plan, pipe, tools, built, built_for_nics, folder, keep):
    """The main function of a worker: a process with a guest, in a network namespace of its own. It
    receives indexes of cases from `pipe`, and None after the last one. It sends ("ready",), then
    ("result", ...) with run_one()'s results for each; or, if it has no guest, ("skipped" or
    "FAILED", reason)."""
    die_with_parent()
    signal.signal(signal.SIGINT, end_worker)
    signal.signal(signal.SIGTERM, end_worker)
    folder = folder / f"guest{number}"
    folder.mkdir()
    try:
        network.enter()
        plugger = network.Plugger()
        guest = guests.Guest(built, folder, network.GUEST_TAP,
                             {"init": HERE / "guest_init.sh", "peer": tools["peer"]})
        nic = nic_guest.NicGuest(built_for_nics, folder, tools["pollux"].parents[2],
                                 HERE / "guest_init.sh", network.BRIDGE)
        try:
            guest.start()
            pipe.send(("ready",))
            while (index := pipe.recv()) is not None:
                one, direction, port = plan[index]
                way = "out" if direction == "pollux -> linux" else "in"
                pipe.send(("result", *run_one(one, direction, port, guest, nic, tools,
                                              folder / f"{one.name}-{way}-{port.kind}", keep)))
        finally:
            nic.stop()
            guest.stop()
            plugger.close()
    except CaseSkipped as skip:
        pipe.send(("skipped", str(skip)))
    except CaseFailure as failure:
        pipe.send(("FAILED", f"no guest: {failure}"))


class Worker:
    """The parent's end of a worker."""

    def __init__(self, number, plan, *arguments):
        self.pipe, theirs = FORK.Pipe()
        self.index = None  # of the case that it runs
        self.process = FORK.Process(target=work, args=(number, plan, theirs, *arguments))
        self.process.start()
        theirs.close()  # so that the pipe ends with the process

    def receive(self):
        """Returns the next message; ("ended",) after the last one."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            return ("ended",)

    def give(self, index):
        self.index = index
        try:
            self.pipe.send(index)
        except OSError:
            pass  # its end is noticed by receive()

    def close(self):
        # A worker in which a case's failure has replaced the exception of end_worker() waits for
        # its next case, and ignores signals.
        self.give(None)
        self.process.terminate()
        self.process.join()


def run_plan(plan, table, *arguments):
    """Runs the cases of the plan on several workers. Each case gets a row."""
    waiting = list(range(len(plan)))
    why_not = ("FAILED", "the process that was to run it ended")
    workers = [Worker(number, plan, *arguments)
               for number in range(min(MAX_GUESTS, len(os.sched_getaffinity(0)), len(plan)))]
    started = list(workers)

    def add(index, result, seconds, reason):
        one, direction, port = plan[index]
        table.add(one.name, direction, port.kind, result, seconds, reason)

    try:
        while workers:
            ready = multiprocessing.connection.wait([worker.pipe for worker in workers])
            for worker in [one for one in workers if one.pipe in ready]:
                kind, *words = worker.receive()
                if kind == "ended":
                    workers.remove(worker)
                    if worker.index is not None:
                        add(worker.index, "FAILED", 0, "the process that ran it ended")
                elif kind in ("skipped", "FAILED"):
                    why_not = (kind, *words)
                else:
                    if kind == "result":
                        result, seconds, reason, explanation = words
                        add(worker.index, result, seconds, reason)
                        if explanation:
                            print(explanation, file=sys.stderr, flush=True)
                    worker.give(waiting.pop(0) if waiting else None)
            table.show_running([plan[worker.index][0].name for worker in workers
                                if worker.index is not None])
    finally:
        for worker in started:
            worker.close()
    for index in waiting:
        add(index, why_not[0], 0, why_not[1])


def one_way(one, kinds, number, port):
    """Returns one direction and one of these kinds of port of a case; the next number gives
    others."""
    direction = one.directions[number % len(one.directions)]
    ports = [kind for kind in kinds if port in (None, kind)]
    # The direction changes with every number, the port with every second one.
    return [(one, direction, network.PORTS[kind])
            for kind in ports[number // 2 % max(len(ports), 1):][:1]]


def commits():
    """Returns how many commits lead to this one; 0 outside a repository."""
    done = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return int(done.stdout or 0)


def make_plan(options, chosen, first=0):
    """Returns what to run as (case, direction, port). With --nightly `first` is the number of
    commits: among 32 consecutive ones, each case runs in each direction over each kind of port and
    NIC, and with each release of the guest (see guest_suite())."""
    whole = options.all or options.cases or options.port
    plan = []
    for number, one in enumerate(chosen):
        if options.once or (options.nightly and one.extra):
            plan += one_way(one, one.ports, number if options.once else number + first,
                            options.port)
            continue
        kinds = one.ports
        if options.all or options.port or options.cases and not kinds:
            kinds += one.nics
        if not kinds:
            continue
        for turn, direction in enumerate(one.directions):
            ports = kinds if whole else kinds[(number + turn + first // 2) % len(kinds):][:1]
            plan += [(one, direction, network.PORTS[port]) for port in ports
                     if options.port in (None, port)]
    if options.nightly and not options.port:
        # All over one NIC, so that its guest boots once.
        nic = list(network.NIC_PORTS)[first % len(network.NIC_PORTS)]
        plan += [way for number, one in enumerate(chosen) if nic in one.nics
                 for way in one_way(one, (nic,), number + first // 16, None)]
    # So that few guests boot for another NIC.
    plan.sort(key=lambda way: list(network.PORTS).index(way[2].kind)
              if way[2].kind in network.NIC_PORTS else -1)
    return plan


def guest_suite(first):
    """Returns the Debian release of the guest after `first` commits. Bits 0 to 2 of the number
    choose the NIC, bit 3 the release, bit 4 the direction over NICs; for other ports, bit 0 chooses
    the direction and bit 1 the port."""
    return image.SUITES[first // 8 % len(image.SUITES)]


def run_all(options, chosen, folder):
    first = commits() if options.nightly else 0
    plan = make_plan(options, chosen, first)
    table = Table(options.json, len(plan))
    try:
        if not is_root():
            raise CaseSkipped("needs root")
        missing = [tool for tool in NEEDED if shutil.which(tool) is None]
        if missing:
            raise CaseSkipped(f"not installed: {', '.join(missing)}")
        tools = build_tools(folder / "programs")
        suite = options.guest or guest_suite(first)
        built = built_for_nics = image.build(say, suite)
        if any(port.kind in network.NIC_PORTS for _, _, port in plan):
            built_for_nics = image.build(say, image.NIC_SUITE)
        if suite != image.SUITES[0]:
            say(f"the guest is of Debian {suite}")
        run_plan(plan, table, tools, built, built_for_nics, folder, options.keep)
    except CaseSkipped as skip:
        for one, direction, port in plan:
            table.add(one.name, direction, port.kind, "skipped", 0, str(skip))
    return table.finish()


def main():
    options = parse_arguments()
    for module in MODULES:
        importlib.import_module(module)
    chosen = choose(options)
    if options.list:
        for one in CASES:
            print(f"{one.name:28}{'slow  ' if one.extra else '      '}"
                  f"{(one.run.__doc__ or '').splitlines()[0]}")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pollux-interop-"))
    try:
        status = run_all(options, chosen, folder)
    except image.ImageError as failure:
        sys.exit(f"tools/dev interop: there is no guest: {failure}")
    if status == 0 and not options.keep:
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/build"))
    import closed_pipe
    closed_pipe.run(main)
