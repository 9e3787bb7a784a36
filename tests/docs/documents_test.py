"""Documents: links lead somewhere, command lines parse; files, options and functions exist."""

import functools
import glob
import os
import pathlib
import re
import shlex
import subprocess
import unittest

POLLUX = os.path.abspath("tools/pollux/pollux")
# The tree itself: of what a test depends on Bazel lays out links to it.
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
# A class or function without one.
PLAIN_NAME = re.compile(r"([A-Z][a-z]+[A-Z]\w*)(?:\(.*\))?")
# Before a block: the file that it shows, whole. Every block in one of these languages has one.
SHOWN = re.compile(r"^<!-- (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_LANGUAGES = ("c", "cpp")
SOURCES = (".c", ".cc", ".h", ".x")
# A word of a document that stands for what the reader puts there.
PLACEHOLDER = re.compile(r"[A-Z]{2,}$")

# Commands of others in the blocks, which are not looked into, and options of others: of systemctl,
# DPDK and tgtd.
OTHERS = {"bazel"}
OPTIONS_OF_OTHERS = {"now", "in-memory", "iser"}
# Where the options of tools/dev's commands stand, by their first option where that makes another
# program of it. Of `test` they are Bazel's own.
DEV_OPTIONS = {
    "setup": None,
    "install": "--prefix",
    "bench": "tests/bench/bench.cc",
    "bench --programs": "tests/bench/programs.py",
    "bench --nfsd": "tests/bench/nfsd_bench.py",
    "bench --instructions": "tests/bench/instructions.py",
    "bench --icrc": None,
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
    """All but CHANGELOG.md, which names what is no more."""
    return [path for path in sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md"))
            if path.name != "CHANGELOG.md"]


def read(path):
    return path.read_text(encoding="utf-8")


def anchors(text):
    """The anchors that a page's headings get."""
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_lines(text):
    """Those of shell blocks, and of spans that begin as one does; as lists of words."""
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
    """Without what a shell takes away."""
    while ASSIGNMENT.match(words[0]) or words[0] == "sudo":
        words = words[1:]
    return words


@functools.lru_cache(maxsize=None)
def pollux_refuses(words):
    """What the command says against its words; nothing when it understands them."""
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
    """What is wrong with the words behind tools/dev; nothing when nothing is."""
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
    """The help of a command of pollux, and of those that it lists."""
    text = subprocess.run([POLLUX, *command, "--help"], capture_output=True, text=True,
                          check=True).stdout
    listed = re.search(r"^commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    names = re.findall(r"^  (\S+) ", listed.group(1), re.MULTILINE) if listed else []
    return text + "".join(help_of(*command, name) for name in names)


@functools.lru_cache(maxsize=None)
def known_options():
    """Those of pollux, of tools/dev and of the programs that it starts."""
    places = {place for place in DEV_OPTIONS.values() if place and not place.startswith("--")}
    return OPTIONS_OF_OTHERS.union(
        OPTION.findall(help_of()), OPTION.findall(read(ROOT / "tools/dev")),
        *(DECLARED.findall(read(ROOT / place)) for place in places))


def unknown_options(text):
    """In spans, and in blocks that are not command lines to be parsed."""
    shown = spans(text) + [block for language, block in FENCE.findall(text) if language == "text"]
    return [f"--{name}" for part in shown for name in OPTION.findall(part)
            if name not in known_options()]


@functools.lru_cache(maxsize=None)
def is_member(owner, name):
    """Whether a source defines `name` in that class or namespace, or has it beside its owner."""
    declared = re.compile(rf"\b(?:class|struct|enum class|namespace)\s+(?:\w+::)*{owner}\b")
    return any(f"{owner}::{name}" in text or
               (name in text and owner in text and declared.search(text) and
                re.search(rf"\b{name}\b", text)) for text in sources())


@functools.lru_cache(maxsize=None)
def is_name(name):
    return any(name in text and re.search(rf"\b{name}\b", text) for text in sources())


def unknown_names(text):
    """Of classes and functions."""
    return [found[0] for found in map(MEMBER.fullmatch, spans(text))
            if found and not is_member(found[1], found[2])] + [
                found[0] for found in map(PLAIN_NAME.fullmatch, spans(text))
                if found and not is_name(found[1])]


def unknown_files(text):
    """Those of the tree, with their folders or by their names alone."""
    return [span for span in spans(text)
            if (PATH.fullmatch(span) and not glob.glob(str(ROOT / span))) or
            (FILE_NAME.fullmatch(span) and span not in file_names()
             and not span.startswith("NAME"))]


def wrongly_shown(text):
    """Files that are not shown as they are, and blocks of code that are no file's."""
    blocks = {block for _, block in SHOWN.findall(text)}
    return [file for file, block in SHOWN.findall(text) if block != read(ROOT / file)] + [
        block.partition("\n")[0] for language, block in FENCE.findall(text)
        if language in SHOWN_LANGUAGES and block not in blocks]


class DocumentsTest(unittest.TestCase):

    def find_none(self, wrong):
        """`wrong` names what is wrong with a text."""
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
        """`refuses` says what is wrong with the words behind the program."""
        lines = [(path, plain(words)) for path in documents()
                 for words in command_lines(read(path))]
        # Some leave the command itself to the reader.
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
