"""Builds the libFuzzer targets with clang and runs each for a while.

usage: tools/dev fuzz [--seconds N] [TARGET...]

TARGET is the label of a fuzz_test; all of them if none is named, one on each core. Each starts from
its seed corpus and from what earlier runs here found. Prints a table; the exit status is 0 only if
no run found anything. An input that crashes a target is kept, and its path printed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pollux"
SUFFIX = "_libfuzzer"


def bazel(*arguments):
    done = subprocess.run(["bazel", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"tools/dev fuzz: bazel ended with status {done.returncode}")
    return done.stdout


def query(expression):
    return bazel("query", "--noshow_progress", expression).split()


def build(labels):
    """Builds with clang. The compiler is part of Bazel's repositories, so a separate output base
    and server keep the cache of the ordinary build."""
    bazel(f"--output_base={CACHE / 'bazel-fuzz'}", "--max_idle_secs=60", "build", "--config=fuzz",
          f"--symlink_prefix={CACHE}/fuzz-", "--show_result=0", *labels)


def find_targets(names):
    """Returns the labels of the libFuzzer binaries of the named fuzz_tests, or of all."""
    wanted = {name if name.endswith(SUFFIX) else name + SUFFIX for name in names}
    found = set(query('attr("tags", "fuzz", kind("cc_binary", //...))'))
    unknown = wanted - found
    if unknown:
        sys.exit(f"tools/dev fuzz: no fuzz target {', '.join(sorted(unknown))}; there are "
                 + ", ".join(sorted(label[:-len(SUFFIX)] for label in found)))
    return sorted(wanted or found)


def path_of(label):
    return label.removeprefix("//").replace(":", "/")


def corpus_of(label):
    return [path_of(source) for source in query(f'kind("source file", labels("data", {label}))')]


def run(label, seconds):
    """Runs one binary; returns its row of the table."""
    found = CACHE / "fuzz-corpus" / path_of(label)
    artifacts = CACHE / "fuzz-artifacts" / path_of(label)
    for folder in (found, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = corpus_of(label)
    command = [f"{CACHE}/fuzz-bin/{path_of(label)}", str(found)]
    command += sorted({os.path.dirname(seed) for seed in seeds})
    command += [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=4096", "-max_len=65536",
                "-print_final_stats=1", f"-artifact_prefix={artifacts}/"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace", check=False)
    log = done.stdout
    def last(pattern):
        values = re.findall(pattern, log)
        return values[-1] if values else "-"
    row = [label.removesuffix(SUFFIX), str(len(seeds)), last(r"number_of_executed_units: (\d+)"),
           last(r"average_exec_per_sec: +(\d+)"), last(r"cov: (\d+)"),
           "ok" if done.returncode == 0 else "FOUND"]
    if done.returncode != 0:
        print("\n".join(log.splitlines()[-60:]))
    return row


def main():
    parser = argparse.ArgumentParser(prog="tools/dev fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="seconds per target (default 60)")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    labels = find_targets(options.targets)
    if not labels:
        sys.exit("tools/dev fuzz: no target is tagged fuzz")
    build(labels)
    rows = [["target", "seeds", "runs", "per second", "coverage", "result"]]
    # libFuzzer uses one core.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows += pool.map(lambda label: run(label, options.seconds), labels)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    sys.exit(any(row[-1] != "ok" for row in rows[1:]))


if __name__ == "__main__":
    main()
