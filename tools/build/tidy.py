"""Runs clang-tidy-14 over the C++ sources: those of the product, those that changed, or all.

usage: tidy.py [--since REVISION] [--all] [FILE...]

Sources that are compiled together (tools/build/cc.bzl) are checked together, since the headers take
most of the time. They are checked again only if one of them, a header that they include, their
flags or .clang-tidy change (the key is a hash of the preprocessed text). --since checks only
sources that differ from those of REVISION, or whose header of the same name does. --all also checks
the tests, and each source of the product by itself, so that a missing include is found. The compile
commands come from `bazel aquery`, without the precompiled header.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pollux"
PASSED = CACHE / "tidy"
# Flags that gcc understands and clang does not, or that only name outputs.
DROPPED = {"-fno-canonical-system-headers", "-Wno-free-nonheap-object", "-c", "-MD", "-Werror",
           "-Wunused-but-set-parameter", "-Winvalid-pch", "-Wno-stringop-overread",
           "-ffat-lto-objects", "-flto=auto"}
UNIT = re.compile(r"bazel-out/[^/]+/bin/.*_unit_\d+\.cc$")
INCLUDED = re.compile(r'^#include "(.*)"$', re.MULTILINE)
DROPPED_WITH_VALUE = {"-MF", "-o", "-include"}


def bazel(*arguments):
    done = subprocess.run(["bazel", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"clang-tidy: bazel {arguments[0]} ended with status {done.returncode}")
    return done.stdout


def clang_flags(arguments, source):
    """Returns the flags of a gcc command line that determine what the source means."""
    flags, skip = [], False
    for argument in arguments[1:]:
        if skip:
            skip = False
        elif argument in DROPPED_WITH_VALUE:
            skip = True
        elif argument not in DROPPED and argument != source:
            flags.append(argument)
    return flags + ["-Wno-unknown-warning-option"]


def sources_of(compiled, execution_root):
    """Returns the sources of the tree that a compiled file contains."""
    if UNIT.match(compiled):  # tools/build/cc.bzl
        return INCLUDED.findall((execution_root / compiled).read_text())
    # Generated and external files are not checked.
    if compiled.startswith(("external/", "bazel-out/")) or not (ROOT / compiled).exists():
        return []
    return [compiled]


def compile_commands(execution_root):
    """Maps each source to the compiled file, itself or a unit that includes it, and its flags."""
    answer = json.loads(bazel("aquery", "--noshow_progress", "--ui_event_filters=-info",
                              "--output=jsonproto", 'mnemonic("CppCompile", //...)'))
    commands = {}
    for action in answer["actions"]:
        arguments = action["arguments"]
        compiled = arguments[arguments.index("-c") + 1]
        flags = clang_flags(arguments, compiled)
        for source in sources_of(compiled, execution_root):
            commands.setdefault(source, (compiled, flags))
    return commands


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"clang-tidy: git {' '.join(arguments)} ended with status {done.returncode}")
    return done.stdout.split()


def changed_since(revision):
    """Returns the sources that differ between `revision` and the tree, or whose header does.

    Commits that only move files (.git-blame-ignore-revs) count as no change: the nightly run, which
    checks everything, would find what they broke.
    """
    listed = (ROOT / ".git-blame-ignore-revs").read_text().split()
    patterns = ["--", "*.cc", "*.h"]
    names = set()
    for commit in git("rev-list", "--reverse", f"{revision}..HEAD"):
        if commit in listed:
            fields = git("diff-tree", "-r", "-M30%", "-l0", "--no-commit-id", "--name-status",
                         "--diff-filter=R", commit, *patterns)
            moved = dict(zip(fields[1::3], fields[2::3]))
            names = {moved.get(name, name) for name in names}
        else:
            names.update(git("diff-tree", "-r", "--no-renames", "--no-commit-id", "--name-only",
                             commit, *patterns))
    names.update(git("diff", "--name-only", "--no-renames", "HEAD", *patterns))
    return {name[:-2] + ".cc" if name.endswith(".h") else name for name in names}


def is_test(source):
    return source.startswith("tests/") or source.endswith("_test.cc")


def key_of(text_of, flags, execution_root):
    """Returns a hash of all that clang-tidy would see; None if the preprocessor fails."""
    text = subprocess.run(["clang-14", *flags, "-E", "-P", "-C", text_of], cwd=execution_root,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if text.returncode != 0:
        return None
    digest = hashlib.sha256(text.stdout)
    digest.update((ROOT / ".clang-tidy").read_bytes())
    digest.update("\0".join(flags).encode())
    return digest.hexdigest()


def tidy(sources, flags, execution_root):
    """Returns what clang-tidy finds in `sources`, checked as one; empty if they passed before."""
    with tempfile.TemporaryDirectory(prefix="pollux-tidy-") as directory:
        looked_at = sources[0]
        if len(sources) > 1:
            looked_at = os.path.join(directory, "sources.cc")
            pathlib.Path(looked_at).write_text("".join(
                f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n'
                for source in sources))
        key = key_of(looked_at, flags, execution_root)
        stamp = PASSED / key if key else None
        if stamp and stamp.exists():
            return ""
        done = subprocess.run(
            ["clang-tidy-14", "--quiet", f"--config-file={ROOT}/.clang-tidy", looked_at, "--",
             *flags],
            cwd=execution_root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)
    if done.returncode != 0:
        return done.stdout or done.stderr or "clang-tidy failed\n"
    if stamp:
        stamp.touch()
    return ""


def main():
    parser = argparse.ArgumentParser(prog="tools/dev check", description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also check unchanged files and tests")
    parser.add_argument("--since", metavar="REVISION", help="check only what differs from REVISION")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    PASSED.mkdir(parents=True, exist_ok=True)
    # Puts the headers of installed libraries, and generated ones, where the compile commands look.
    bazel("build", "--noshow_progress", "--ui_event_filters=-info", "--show_result=0", "//...")
    execution_root = pathlib.Path(bazel("info", "execution_root").strip())
    commands = compile_commands(execution_root)
    if options.files:
        sources = [file for file in options.files if file in commands]
    else:
        sources = [file for file in commands if options.all or not is_test(file)]
    if options.since:
        changed = changed_since(options.since)
        sources = [file for file in sources if file in changed]
    groups = {}
    for source in sorted(sources):
        compiled, flags = commands[source]
        alone = options.all and not is_test(source)
        group = groups.setdefault(source if alone else compiled, ([], flags))
        group[0].append(source)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(tidy, together, flags, execution_root)
                for together, flags in groups.values()]
        for job in concurrent.futures.as_completed(jobs):
            found = job.result()
            if found:
                failed += 1
                print(found.replace(f"{execution_root}/", ""), end="")
    print(f"{len(sources)} sources in {len(jobs)} translation units, {failed} with findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
