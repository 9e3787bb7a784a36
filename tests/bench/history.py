"""Appends the figures of a benchmark run to the history of the project, and draws the history.

usage: history.py BENCH HISTORY PAGE [--only-draw] [OPTION...]

Runs BENCH with the options, and again under callgrind for the instructions. One line of JSON goes
to the end of HISTORY: date, commit, machine, the instructions of each path and the ratios of each
wire. Figures of different machines, and times of different days, cannot be compared: ratios and
instructions can. PAGE is a self-contained HTML file.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

# The modules beside this file, whether it runs as a program or as a module.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import instructions


def processor():
    """Returns the processor's name."""
    found = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def record(commit, report, paths, now):
    """Returns the record of a run, made from its report by `bench --json`.

    paths: {name: instructions per message}. Only the ratios are taken from the report, and the
    distance of the cores.
    """
    wires = {}
    for name, section in report.items():
        if not isinstance(section, dict) or not section.get("ratios"):
            continue
        if not section["verdicts_count"]:
            print(f"{name}: left out, since its ratios do not count: {section['passes']} passes, "
                  f"cores {section['cores']}", file=sys.stderr)
            continue
        core_to_core = section["figures"].get("core to core", {}).get("median")
        wires[name] = {"core_to_core_ns": core_to_core, "cores": section["cores"],
                       "ratios": section["ratios"]}
    return {"date": now.strftime("%Y-%m-%d"), "commit": commit,
            "machine": {"processor": processor(), "cpus": len(os.sched_getaffinity(0)),
                        "kernel": platform.release().partition("-")[0]},
            "passes": report["passes"],
            "instructions": {name: round(count) for name, count in paths.items()},
            "wires": wires}


def commit_of(tree):
    """Returns the short name of the commit that is checked out, if nothing but the history differs
    from it."""
    def git(*arguments):
        return subprocess.run(["git", "-C", tree, *arguments], stdout=subprocess.PIPE, text=True,
                              check=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":(top)",
                  ":(top,exclude)docs/performance-history.jsonl")
    if changed:
        raise SystemExit("bench: --record notes the commit that was measured, and these files "
                         f"differ from it; commit or stash them first:\n{changed}")
    return git("rev-parse", "--short=12", "HEAD")


def main():
    binary, history, page, *options = sys.argv[1:]
    if options[:1] != ["--only-draw"]:
        commit = commit_of(pathlib.Path(history).parent)
        run = subprocess.run([binary, "--json", *options], stdout=subprocess.PIPE, text=True)
        if run.returncode != 0:
            raise SystemExit(run.returncode)
        print("instructions, under callgrind", file=sys.stderr)
        figures, _ = instructions.measure(binary)
        paths = {name: count for name, (count, _) in figures.items()}
        line = record(commit, json.loads(run.stdout), paths, datetime.datetime.now())
        with open(history, "a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"appended to {history}", file=sys.stderr)
    status = subprocess.run([binary, "history", history, page]).returncode
    if status == 0:
        print(f"drawn: {page}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/build"))
    import closed_pipe
    closed_pipe.run(main)
