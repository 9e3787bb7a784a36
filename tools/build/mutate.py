"""Breaks the code of each requirement, and checks that its test case fails.

usage: tools/dev mutate [--json] [--list] [ROW...]

tests/conformance/mutations.txt has small changes of product sources, for the rows of
requirements.txt. Each of them, or each of the named rows, is made in a copy of this checkout and
compiled, and only the row's test case is run; then the change is undone. If the case still passes,
a test is missing. There is a copy for each core, at most four. A copy holds the files that git
tracks and those that it does not ignore, with uncommitted changes. The exit status is 1 if a
mutation survives or does not compile, if its old text does not occur exactly once in its file, or
if a case fails without any mutation.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conformance import mutations, requirements  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pollux"
TESTS_FAILED = 3  # exit status of `bazel test`: all was built, and some test failed
MAX_COPIES = 4    # each has a Bazel server
TIMEOUT_S = 300   # a case that a mutation keeps from ending has detected it, too

Result = collections.namedtuple("Result", "row path case result seconds")
OK = ("caught",)
LOCK = threading.Lock()


def filter_of(cases):
    """Returns a GoogleTest filter for the cases, and for every parameter of parameterized ones."""
    return ":".join(f"{case}:*/{case}/*" for case in cases)


def copy_tree(source, target):
    """Makes `target` the same as the checkout `source`. Leaves unchanged files alone, so that Bazel
    does not build them again."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=source, check=True, capture_output=True, text=True).stdout
    wanted = {name for name in listed.split("\0") if name and (source / name).is_file()}
    wanted |= {name for name in (".bazelrc.cache",) if (source / name).is_file()}
    target.mkdir(parents=True, exist_ok=True)
    for path in target.rglob("*"):
        name = str(path.relative_to(target))
        if name.startswith("bazel-") or path.is_dir() and not path.is_symlink():
            continue
        if name not in wanted:
            path.unlink()
    for name in wanted:
        old, new = source / name, target / name
        data = old.read_bytes()
        if not new.is_file() or new.read_bytes() != data:
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(data)
        new.chmod(old.stat().st_mode & 0o777)


def bazel_test(tree, targets, cases, mutated):
    """Runs `bazel test` for these cases; returns its exit status and its output."""
    options = ["--config=mutate", "--keep_going", "--noshow_progress", "--test_output=errors",
               f"--test_filter={filter_of(cases)}", f"--test_timeout={TIMEOUT_S}"]
    if mutated:
        options.append("--remote_upload_local_results=false")  # no other build needs it
    done = subprocess.run(["bazel", "test", *options, "--", *targets], cwd=tree,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout


def cases_of(xml_text):
    """Maps each Suite.Case that ran to whether it passed; leaves parameters out of the name."""
    ran = {}
    for case in xml.etree.ElementTree.fromstring(xml_text).iter("testcase"):
        if case.get("status") == "notrun" or case.find("skipped") is not None:
            continue
        suite, name = (case.get("classname") or ""), case.get("name") or ""
        key = f"{suite.split('/')[1] if '/' in suite else suite}.{name.split('/')[0]}"
        passed = case.find("failure") is None and case.find("error") is None
        ran[key] = ran.get(key, True) and passed
    return ran


def baseline(tree, rows):
    """Maps row names to the errors of their cases without any mutation."""
    targets = sorted({row.target for row in rows})
    status, output = bazel_test(tree, targets, sorted({row.case for row in rows}), mutated=False)
    if status not in (0, TESTS_FAILED):
        sys.stderr.write(output)
        sys.exit("tools/dev mutate: the tests do not build")
    wrong = {}
    for row in rows:
        room, name = row.target[2:].split(":")
        log = tree / "bazel-testlogs" / room / name / "test.xml"
        ran = cases_of(log.read_text(encoding="utf-8")) if log.is_file() else {}
        if row.case not in ran:
            wrong[row.name] = "the case does not run"
        elif not ran[row.case]:
            wrong[row.name] = "the case fails without the mutation"
    return wrong


def try_mutation(tree, mutation, row):
    """Tries a mutation; returns its result in a word or two, and the output if that is of use."""
    path = tree / mutation.path
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    mutated = mutations.apply(mutation, text)
    if mutated is None:
        return "old text is not there once", ""
    path.write_text(mutated, encoding="utf-8")
    try:
        status, output = bazel_test(tree, [row.target], [row.case], mutated=True)
    finally:
        path.write_text(text, encoding="utf-8")
    if status == TESTS_FAILED:
        return "caught", ""
    return ("survived", "") if status == 0 else ("does not compile", output)


def try_all(tree, left, results, stop, total):
    """Tries mutations that the iterator `left` gives until there are none, or `stop` is set.
    Several threads may do this, each with another tree."""
    while not stop.is_set():
        with LOCK:
            pair = next(left, None)
        if pair is None:
            return
        mutation, row = pair
        started = time.monotonic()
        result, output = try_mutation(tree, mutation, row)
        if stop.is_set():  # interrupted, and so was Bazel
            return
        seconds = time.monotonic() - started
        with LOCK:
            results.append(Result(row.name, mutation.path, f"{row.target} {row.case}", result,
                                  round(seconds, 1)))
            print(f"tools/dev mutate: {len(results)}/{total} {row.name}: {result} "
                  f"({seconds:.0f} s)", file=sys.stderr, flush=True)
            sys.stderr.write(output)


def choose(found, rows, names):
    """Returns the mutations to try, as pairs with their rows."""
    by_name = {row.name: row for row in rows}
    known = {mutation.row for mutation in found if not mutation.why}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"tools/dev mutate: no mutation of {', '.join(unknown)}; --list names all")
    chosen = [(mutation, by_name[mutation.row]) for mutation in found
              if not mutation.why and (not names or mutation.row in names)]
    return sorted(chosen, key=lambda pair: pair[0].path)


def report(results, as_json):
    """Prints all results; returns the exit status."""
    failed = [result for result in results if result.result not in OK]
    if as_json:
        print(json.dumps([result._asdict() for result in results], indent=1))
        return 1 if failed else 0
    width = max((len(result.row) for result in results), default=0)
    for result in results:
        print(f"{result.row:{width}}  {result.result:8}  {result.seconds:4.0f} s  {result.case}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(prog="tools/dev mutate", description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="an array instead of the table")
    parser.add_argument("--list", action="store_true", help="names the rows that have a mutation")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    conformance = ROOT / "tests/conformance"
    rows, wrong = requirements.parse_table(
        (conformance / "requirements.txt").read_text(encoding="utf-8"))
    found, wrong_too = mutations.parse((conformance / "mutations.txt").read_text(encoding="utf-8"))
    if wrong or wrong_too:
        sys.exit("tools/dev mutate: " + "\n".join(wrong + wrong_too))
    chosen = choose(found, rows, arguments.rows)
    if arguments.list:
        for mutation, row in chosen:
            print(f"{row.name}  {mutation.path}  {row.target} {row.case}")
        return 0
    copies = CACHE / "mutate" / str(ROOT).strip("/").replace("/", "-")
    trees = [copies / str(i) for i in range(min(os.cpu_count(), MAX_COPIES, len(chosen)))]
    for tree in trees:
        copy_tree(ROOT, tree)
    results, stop = [], threading.Event()
    try:
        started = time.monotonic()
        print("tools/dev mutate: the cases without mutations", file=sys.stderr)
        unfit = baseline(trees[0], [row for _, row in chosen])
        print(f"tools/dev mutate: {time.monotonic() - started:.0f} s", file=sys.stderr)
        results = [Result(row.name, mutation.path, f"{row.target} {row.case}", unfit[row.name], 0)
                   for mutation, row in chosen if row.name in unfit]
        left = iter([pair for pair in chosen if pair[1].name not in unfit])
        with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
            jobs = [pool.submit(try_all, tree, left, results, stop, len(chosen)) for tree in trees]
            try:
                concurrent.futures.wait(jobs)
            finally:
                stop.set()
        for job in jobs:
            job.result()
    except KeyboardInterrupt:
        report(results, arguments.json)
        return 1
    finally:
        for tree in trees:
            subprocess.run(["bazel", "shutdown"], cwd=tree, check=False, stderr=subprocess.DEVNULL)
    return report(results, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
