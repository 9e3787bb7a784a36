"""Tests the documents: links lead somewhere, command lines parse, and files, options and functions
exist."""

import functools
import glob
import os
import pathlib
import re
import shlex
import subprocess
import unittest

POLLUX = os.path.abspath("tools/pollux/pollux")
# The source tree itself: Bazel's test directory has only links to the files that a test depends on.
ROOT = pathlib.Path(os.path.realpath("README.md")).parent
README_LINES_MAX = 120
TOP_FOLDERS = ("cm", "compat", "docs", "examples", "nfs", "oncrpc", "rpcrdma", "stack", "tests",
               "tools")

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ASSIGNMENT = re.compile(r"[A-Z_]+=")
PATH = re.compile(rf"(?:{'|'.join(TOP_FOLDERS)})(?:/[\w.*-]+)+/?")
# A file that is named without its folder.
FILE_NAME = re.compile(r"[\w-]+\.(?:bzl|cc|c|h|json|md|py|sh|svg|txt|x)")
LABEL = re.compile(r"//[\w/]*(?::[\w.-]+|/\.\.\.)?")
OPTION = re.compile(r"(?<![\w-])--([a-z][\w-]*)")
# A name with its class or namespace, and perhaps with arguments.
MEMBER = re.compile(r"(?:\w+::)*(\w+)::(\w+)(?:\(.*\))?")
# A class or function without its class or namespace.
PLAIN_NAME = re.compile(r"([A-Z][a-z]+[A-Z]\w*)(?:\(.*\))?")
# The comment before a block that names the file which the block shows as a whole. Every block in
# one of SHOWN_LANGUAGES has one.
SHOWN = re.compile(r"^<!-- (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_LANGUAGES = ("c", "cpp")
SOURCES = (".c", ".cc", ".h", ".x")
# A word in a document that the reader replaces.
PLACEHOLDER = re.compile(r"[A-Z]{2,}$")

# Commands of other projects, whose arguments are not checked, and options of other projects:
# systemctl, DPDK, tgtd, pkg-config and SPDK.
OTHERS = {"./configure", "apt-get", "bazel", "bpftrace", "ethtool", "git", "ip", "make", "modprobe",
          "nft", "nvme", "scripts/pkgdep.sh", "scripts/rpc.py", "setpriv", "sysctl", "tc"}
OPTIONS_OF_OTHERS = {"now", "in-memory", "iser", "cflags", "libs", "static", "with-dpdk"}
# The source that declares the options of each command of tools/dev. A command whose first option
# starts another program has an entry with that option. A value that begins with "--" lists the
# options; None means that there are none. The options of `test` are Bazel's own.
DEV_OPTIONS = {
    "setup": None,
    "install": "--prefix",
    "package": "--check --suite",
    "bench": "tests/bench/bench.cc",
    "bench --programs": "tests/bench/programs.py",
    "bench --nfsd": "tests/bench/nfsd_bench.py",
    "bench --instructions": "tests/bench/instructions.py",
    "bench --icrc": None,
    "bench --record": "tests/bench/bench.cc",
    "bench --history": None,
    "bench --portable": None,
    "fuzz": "tools/build/fuzz_run.py",
    "coverage": "tools/build/coverage.py",
    "mutate": "tools/build/mutate.py",
    "interop": "tests/interop/run.py",
    "check": "tools/build/tidy.py",
    "ci": "--nightly --resume",
    "chroot-check": None,
    "conformance": None,
    "help": None,
}
DECLARED = re.compile(r'(?:add_argument\(|options\.\w+\(\s*)"(?:--)?([a-z][\w-]*)"')


def documents():
    """Returns all documents except CHANGELOG.md, which names things that no longer exist."""
    return [path for path in sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md"))
            if path.name != "CHANGELOG.md"]


def read(path):
    return path.read_text(encoding="utf-8")


def anchors(text):
    """Returns the anchors of a page's headings."""
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_lines(text):
    """Returns the command lines of shell blocks, and of spans that begin with `pollux` or
    `tools/dev`, as lists of words."""
    found = []
    for language, block in FENCE.findall(text):
        if language == "sh":
            lines = block.replace("\\\n", " ").splitlines()
            found += [shlex.split(line, comments=True) for line in lines]
    for span in SPAN.findall(FENCE.sub("", text)):
        if span.startswith(("pollux ", "tools/dev ")):
            found.append(shlex.split(span))
    return [words for words in found if words]


def plain(words):
    """Returns the words without leading assignments and `sudo`."""
    while ASSIGNMENT.match(words[0]) or words[0] == "sudo":
        words = words[1:]
    return words


@functools.lru_cache(maxsize=None)
def pollux_refuses(words):
    """Returns the error that pollux prints for these arguments; empty if it accepts them."""
    end = words.index("--") if "--" in words else len(words)
    done = subprocess.run([POLLUX, *words[:end], "--help", *words[end:]], capture_output=True,
                          text=True, check=False)
    return done.stderr.strip() if done.returncode != 0 else ""


def is_target(label):
    package, _, name = label[2:].partition(":")
    package = package.removesuffix("/...").rstrip("/")
    if label.endswith("/..."):
        return (ROOT / package).is_dir()
    build = ROOT / package / "BUILD.bazel"
    name = name or package.rpartition("/")[2]
    if not build.exists():
        return False
    text = read(build)
    return name in ("all", "__pkg__") or f'name = "{name}"' in text or f'"{name}"' in text


def dev_refuses(words):
    """Returns the error in the arguments of tools/dev; empty if there is none."""
    command, arguments = words[0], words[1:]
    if command == "demo":
        return pollux_refuses(("demo", *arguments))
    labels = [word for word in arguments if word.startswith("//")]
    missing = [label for label in labels if not is_target(label)]
    if missing:
        return f"no target {missing[0]}"
    if command == "test":
        return ""
    if arguments and f"{command} {arguments[0]}" in DEV_OPTIONS:
        command, arguments = f"{command} {arguments[0]}", arguments[1:]
    if command not in DEV_OPTIONS:
        return f"no command {command}"
    place = DEV_OPTIONS[command]
    if place is None or place.startswith("--"):
        known = set((place or "").split())
    else:
        known = {f"--{name}" for name in DECLARED.findall(read(ROOT / place))}
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    unknown = sorted(options - known)
    return f"no option {unknown[0]}" if unknown else ""


def spans(text):
    return SPAN.findall(FENCE.sub("", text))


@functools.lru_cache(maxsize=None)
def sources():
    return [read(path) for folder in TOP_FOLDERS for path in (ROOT / folder).rglob("*")
            if path.suffix in SOURCES]


@functools.lru_cache(maxsize=None)
def file_names():
    return {path.name for folder in TOP_FOLDERS for path in (ROOT / folder).rglob("*")} | {
        path.name for path in ROOT.iterdir()}


def help_of(*command):
    """Returns the help of a command of pollux and of the commands that it lists."""
    text = subprocess.run([POLLUX, *command, "--help"], capture_output=True, text=True,
                          check=True).stdout
    listed = re.search(r"^commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    names = re.findall(r"^  (\S+) ", listed.group(1), re.MULTILINE) if listed else []
    return text + "".join(help_of(*command, name) for name in names)


@functools.lru_cache(maxsize=None)
def known_options():
    """Returns the options of pollux, of tools/dev and of the programs that it starts, and
    OPTIONS_OF_OTHERS."""
    places = {place for place in DEV_OPTIONS.values() if place and not place.startswith("--")}
    return OPTIONS_OF_OTHERS.union(
        OPTION.findall(help_of()), OPTION.findall(read(ROOT / "tools/dev")),
        *(DECLARED.findall(read(ROOT / place)) for place in places))


def unknown_options(text):
    """Returns the unknown options in spans and in blocks that are not parsed as command lines."""
    shown = spans(text) + [block for language, block in FENCE.findall(text) if language == "text"]
    return [f"--{name}" for part in shown for name in OPTION.findall(part)
            if name not in known_options()]


@functools.lru_cache(maxsize=None)
def is_member(owner, name):
    """Returns whether a source defines `name` in that class or namespace, or declares `owner` and
    contains `name`."""
    declared = re.compile(rf"\b(?:class|struct|enum class|namespace)\s+(?:\w+::)*{owner}\b")
    return any(f"{owner}::{name}" in text or
               (name in text and owner in text and declared.search(text) and
                re.search(rf"\b{name}\b", text)) for text in sources())


@functools.lru_cache(maxsize=None)
def is_name(name):
    return any(name in text and re.search(rf"\b{name}\b", text) for text in sources())


def unknown_names(text):
    """Returns the unknown classes and functions in spans."""
    return [found[0] for found in map(MEMBER.fullmatch, spans(text))
            if found and not is_member(found[1], found[2])] + [
                found[0] for found in map(PLAIN_NAME.fullmatch, spans(text))
                if found and not is_name(found[1])]


def unknown_files(text):
    """Returns the files in spans that the tree does not have, with their folders or by name
    alone."""
    return [span for span in spans(text)
            if (PATH.fullmatch(span) and not glob.glob(str(ROOT / span))) or
            (FILE_NAME.fullmatch(span) and span not in file_names()
             and not span.startswith("NAME"))]


def wrongly_shown(text):
    """Returns the files that a block shows wrongly, and the first lines of code blocks that show no
    file."""
    blocks = {block for _, block in SHOWN.findall(text)}
    return [file for file, block in SHOWN.findall(text) if block != read(ROOT / file)] + [
        block.partition("\n")[0] for language, block in FENCE.findall(text)
        if language in SHOWN_LANGUAGES and block not in blocks]


class DocumentsTest(unittest.TestCase):

    def find_none(self, wrong):
        """Asserts that `wrong(path, text)` returns nothing for each document."""
        self.assertEqual([f"{path.relative_to(ROOT)}: {what}"
                          for path in documents() for what in wrong(path, read(path))], [])

    def test_link_targets_exist(self):
        def wrong(path, text):
            for target in LINK.findall(text):
                if target.startswith(("http://", "https://")):
                    continue
                file, _, anchor = target.partition("#")
                place = path.parent / file if file else path
                if not place.exists() or (anchor and anchor not in anchors(read(place))):
                    yield target

        self.find_none(wrong)

    def test_named_files_exist(self):
        self.find_none(lambda _, text: unknown_files(text))

    def test_options_exist(self):
        self.find_none(lambda _, text: unknown_options(text))

    def test_classes_and_functions_exist(self):
        self.find_none(lambda _, text: unknown_names(text))

    def test_named_targets_exist(self):
        self.find_none(lambda _, text: [span for span in spans(text) if LABEL.fullmatch(span)
                                        and not is_target(span)])

    def test_quoted_files_match_their_source(self):
        self.find_none(lambda _, text: wrongly_shown(text))
        shown = {file for path in documents() for file, _ in SHOWN.findall(read(path))}
        self.assertEqual({file.split("/")[1] for file in shown},
                         {path.name for path in (ROOT / "examples").iterdir()})

    def test_every_document_is_linked_to(self):
        linked = {os.path.normpath(path.parent / target.partition("#")[0])
                  for path in documents() for target in LINK.findall(read(path))}
        self.assertEqual([path.name for path in sorted((ROOT / "docs").iterdir())
                          if str(path) not in linked], [])

    def test_readme_is_short(self):
        text = read(ROOT / "README.md")
        self.assertLessEqual(len(text.splitlines()), README_LINES_MAX)
        for command in ("demo", "test"):
            self.assertRegex(text, rf"(?m)^tools/dev {command}\b")


class CommandLinesTest(unittest.TestCase):

    def find_none(self, program, refuses, at_least):
        """Asserts that `refuses`, which returns the error in a command line's arguments, accepts
        all command lines of `program`, and that there are at least `at_least` of them."""
        lines = [(path, plain(words)) for path in documents()
                 for words in command_lines(read(path))]
        # In some command lines the command itself is a placeholder.
        lines = [(path, words) for path, words in lines if words[0] == program
                 and not (len(words) > 1 and PLACEHOLDER.match(words[1]))]
        self.assertGreaterEqual(len(lines), at_least)
        found = [(path.relative_to(ROOT), words, refuses(words[1:])) for path, words in lines]
        self.assertEqual([f"{path}: {shlex.join(words)}: {why}" for path, words, why in found
                          if why], [])

    def test_pollux_accepts_its_command_lines(self):
        self.find_none("pollux", lambda words: pollux_refuses(tuple(words)), 60)

    def test_tools_dev_accepts_its_command_lines(self):
        self.find_none("tools/dev", dev_refuses, 40)

    def test_other_programs_are_known(self):
        programs = {plain(words)[0] for path in documents() for words in command_lines(read(path))}
        self.assertEqual({program for program in programs
                          if not program.startswith("bazel-bin/")} - OTHERS,
                         {"pollux", "tools/dev"})

    def test_every_command_of_tools_dev_is_known_here(self):
        done = subprocess.run([ROOT / "tools/dev", "help"], capture_output=True, text=True,
                              check=True)
        commands = set(re.findall(r"^  ([a-z][a-z-]*)\b", done.stdout, re.MULTILINE))
        known = {command.split()[0] for command in DEV_OPTIONS} | {"demo", "test"}
        self.assertEqual(commands, known)


class HelpersTest(unittest.TestCase):

    def test_command_lines_are_extracted(self):
        text = ("```sh\nA=1 sudo pollux ls \\\n  x   # why\n# nothing\n```\n```text\npollux no\n"
                "```\n`tools/dev ci` and `polluxed`\n")
        self.assertEqual([plain(words) for words in command_lines(text)],
                         [["pollux", "ls", "x"], ["tools/dev", "ci"]])

    def test_invalid_command_lines_are_refused(self):
        self.assertIn("frob", pollux_refuses(("ls", "--frob")))
        self.assertIn("frob", pollux_refuses(("frob",)))
        self.assertEqual(dev_refuses(["frob"]), "no command frob")
        self.assertEqual(dev_refuses(["fuzz", "--frob"]), "no option --frob")
        self.assertEqual(dev_refuses(["test", "//frob:all"]), "no target //frob:all")
        self.assertEqual(unknown_options("`--netdev`, `--frob N`\n```text\nls --frobs\n```\n"),
                         ["--frob", "--frobs"])
        self.assertEqual(unknown_names("`Worker::Poll`, `Worker::Frob(x)`, `frob::Worker`, "
                                       "`FrobWorker()`, `PollCq`"),
                         ["Worker::Frob(x)", "frob::Worker", "FrobWorker()"])
        self.assertEqual(unknown_files("`worker.cc`, `frob.cc`, `tools/frob`, `NAME.cc`"),
                         ["frob.cc", "tools/frob"])
        example = "examples/hello_rpc/hello_rpc.cc"
        block = f"```cpp\n{read(ROOT / example)}```\n"
        self.assertEqual(wrongly_shown(f"<!-- {example} -->\n{block}"), [])
        self.assertEqual(len(wrongly_shown(block)), 1)
        self.assertEqual(wrongly_shown(f"<!-- {example} -->\n```cpp\n```\n"), [example])

    def test_anchors_follow_from_headings(self):
        self.assertEqual(anchors("# A `b`, c\n```sh\n# no\n```\n## What's it?\n"),
                         {"a-b-c", "whats-it"})
