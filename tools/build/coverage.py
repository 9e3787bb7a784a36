"""Measures which lines and branches of stack/ and cm/ the tests reach.

usage: tools/dev coverage [--json] [--lines] [TARGET...]

Builds the tests with clang's source-based coverage, runs them (default: all of //...) and prints a
table of files. In each file the tests must reach every function and at least 95 % of the lines; a
file in which they reach less must be listed in tests/coverage_exceptions.txt with what it may miss
and why. The exit status is 1 if a file misses more than that, or if a test fails. --lines names the
lines that are not reached; --json prints one object instead of the table.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.build import lint  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pollux"
EXCEPTIONS = "tests/coverage_exceptions.txt"
ROOMS = ("stack/", "cm/")
LINE_FLOOR = 0.95

Exception_ = collections.namedtuple("Exception_", "functions lines reason")


class File:
    """The coverage of one source file."""

    def __init__(self, path):
        self.path = path
        self.lines = {}     # number: times
        self.branches = {}  # (line, block, branch): times
        self.functions = {}  # line of the definition: times; instantiations count together

    def missed(self, counts):
        return sorted(key for key, times in counts.items() if times == 0)

    def summary(self):
        def part(counts):
            return {"total": len(counts), "missed": len(self.missed(counts))}
        return {"path": self.path, "functions": part(self.functions), "lines": part(self.lines),
                "branches": part(self.branches), "lines_missed": self.missed(self.lines)}


def add(counts, key, times):
    counts[key] = counts.get(key, 0) + times


def parse_lcov(text):
    """Returns the files of the measured rooms by path, without files that only tests link."""
    files, current, names = {}, None, {}
    for line in text.splitlines():
        field, _, value = line.partition(":")
        if field == "SF":
            path = value.removeprefix(f"{ROOT}/").removeprefix("./")
            wanted = path.startswith(ROOMS) and not lint.TEST_ONLY.search(path)
            current = files.setdefault(path, File(path)) if wanted else None
            names = {}
        elif current is None:
            continue
        elif field == "FN":
            number, name = value.split(",", 1)
            names[name] = int(number)
            add(current.functions, int(number), 0)
        elif field == "FNDA":
            times, name = value.split(",", 1)
            add(current.functions, names[name], int(times))
        elif field == "DA":
            number, times = value.split(",")[:2]
            add(current.lines, int(number), int(times))
        elif field == "BRDA":
            number, block, branch, times = value.split(",")
            add(current.branches, (int(number), block, branch), 0 if times == "-" else int(times))
    return files


def read_exceptions(text):
    """Returns the exceptions by path. A line is `PATH FUNCTIONS LINES REASON`: how many functions
    and lines may be missed, and why."""
    listed = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(maxsplit=3)
        if len(fields) < 4 or not fields[1].isdigit() or not fields[2].isdigit():
            sys.exit(f"{EXCEPTIONS}:{number}: a line is PATH FUNCTIONS LINES REASON")
        listed[fields[0]] = Exception_(int(fields[1]), int(fields[2]), fields[3])
    return listed


def judge(files, listed):
    """Returns error messages."""
    wrong = [f"{EXCEPTIONS}: {path} does not exist or has no code"
             for path in sorted(set(listed) - set(files))]
    for path, file in sorted(files.items()):
        may = listed.get(path)
        functions, lines = file.missed(file.functions), file.missed(file.lines)
        most_functions = may.functions if may else 0
        most_lines = may.lines if may else int(len(file.lines) * (1 - LINE_FLOOR))
        if len(functions) > most_functions:
            where = ", ".join(str(line) for line in functions)
            wrong.append(f"{path}: {len(functions)} functions not reached, at most "
                         f"{most_functions}; they begin in lines {where}")
        if len(lines) > most_lines:
            wrong.append(f"{path}: {len(lines)} of {len(file.lines)} lines not reached, at most "
                         f"{most_lines}; --lines names them")
    return wrong


def spans(numbers):
    """Returns [1, 2, 3, 7] as "1-3 7"."""
    found = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def table(files, listed, with_lines):
    def ratio(counts, file):
        if not counts:
            return "-"
        return f"{100 * (1 - len(file.missed(counts)) / len(counts)):.1f}"

    rows = [f"{'file':<44}{'functions':>10}{'lines':>8}{'branches':>10}   % reached"]
    total = File("all")
    for path, file in sorted(files.items()):
        mark = "  listed" if path in listed else ""
        rows.append(f"{path:<44}{ratio(file.functions, file):>10}{ratio(file.lines, file):>8}"
                    f"{ratio(file.branches, file):>10}{mark}")
        missed = file.missed(file.lines)
        if with_lines and missed:
            rows.append(f"    not reached: {spans(missed)}")
        for name in ("functions", "lines", "branches"):
            getattr(total, name).update(
                {(path, key): times for key, times in getattr(file, name).items()})
    rows.append(f"{'all':<44}{ratio(total.functions, total):>10}{ratio(total.lines, total):>8}"
                f"{ratio(total.branches, total):>10}")
    return "\n".join(rows)


def bazel(*arguments, stdout=subprocess.PIPE):
    """Runs Bazel with its own output base and server, since another compiler would clear the cache
    of the ordinary build."""
    return subprocess.run(
        ["bazel", f"--output_base={CACHE / 'bazel-coverage'}", "--max_idle_secs=60", *arguments],
        stdout=stdout, text=True, check=False, cwd=ROOT)


def query(expression):
    # Uses the ordinary server: a server with another output base takes the links of the ordinary
    # build for packages.
    done = subprocess.run(["bazel", "query", "--noshow_progress", expression],
                          stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        sys.exit("tools/dev coverage: bazel query failed")
    return done.stdout.split()


def labels_of(targets):
    # Leaves out tests with planted faults, which are other code under the same names; their
    # binaries are tagged manual.
    return query(f"tests({' + '.join(targets)}) except kind(faulty_test, //...)"
                 ' except attr("tags", "manual", //...)')


def run_tests(labels, profiles):
    """Runs the tests, which write their profiles; returns Bazel's status."""
    done = bazel("test", "--config=coverage", "--keep_going", "--test_summary=terse",
                 "--noshow_progress", f"--symlink_prefix={CACHE}/coverage-",
                 f"--sandbox_writable_path={profiles}",
                 f"--test_env=LLVM_PROFILE_FILE={profiles}/%8m.profraw", *labels,
                 stdout=sys.stderr)
    return done.returncode


def collect(labels, profiles):
    """Merges the profiles, with every binary that may have written one, and returns lcov text."""
    merged = profiles / "merged.profdata"
    raw = [str(path) for path in profiles.glob("*.profraw")]
    if not raw:
        sys.exit("tools/dev coverage: no test wrote a profile")
    subprocess.run(["llvm-profdata-14", "merge", "--sparse", "--failure-mode=all", "-o", merged,
                    *raw], check=True)
    binaries = query(f"kind('cc_(test|binary)', deps(set({' '.join(labels)})))")
    built = [CACHE / "coverage-bin" / label.removeprefix("//").replace(":", "/")
             for label in binaries if label.startswith("//")]
    objects = [argument for path in built if path.exists() for argument in ("-object", str(path))]
    exported = subprocess.run(
        ["llvm-cov-14", "export", "--format=lcov", f"--instr-profile={merged}", *objects[1:]],
        stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return exported.stdout


def main():
    parser = argparse.ArgumentParser(prog="tools/dev coverage", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lines", action="store_true")
    options = parser.parse_args()
    profiles = pathlib.Path(tempfile.mkdtemp(prefix="pollux-coverage-"))
    profiles.chmod(0o1777)  # Tests run programs as other users, too.
    try:
        labels = labels_of(options.targets or ["//..."])
        status = run_tests(labels, profiles)
        files = parse_lcov(collect(labels, profiles))
    finally:
        shutil.rmtree(profiles, ignore_errors=True)
    listed = read_exceptions((ROOT / EXCEPTIONS).read_text(encoding="utf-8"))
    # A run of some targets is not judged, since they need not reach everything.
    wrong = judge(files, listed) if not options.targets else []
    if status != 0:
        wrong.append("a test failed, or did not build")
    if options.json:
        print(json.dumps({"files": [files[path].summary() for path in sorted(files)],
                          "wrong": wrong}))
    else:
        print(table(files, listed, options.lines))
        for message in wrong:
            print(f"coverage: {message}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    import closed_pipe
    closed_pipe.run(main)
