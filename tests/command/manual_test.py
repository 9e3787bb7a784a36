"""Tests that the manual pages render without warnings and contain the whole --help text."""

import functools
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from tests.command.harness import POLLUX

PAGES = pathlib.Path("tools/pollux")
SERVICES = ("nfsd", "port", "serve")
# Wider than the longest paragraph, so that no line is broken.
ONE_LINE = 20000


def ended(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, check=True, **options)


def words_of(text):
    return " ".join(text.split())


@functools.lru_cache(maxsize=None)
def help_of(*command):
    return ended(POLLUX, *command, "--help").stdout


def below(*command):
    """Returns the commands that the help of `command` lists."""
    listed = re.search(r"^commands:\n((?:  .*\n)+)", help_of(*command), re.MULTILINE)
    return re.findall(r"^  (\S+) ", listed.group(1), re.MULTILINE) if listed else []


class ManualTest(unittest.TestCase):
    def pages(self):
        found = sorted(page for page in PAGES.iterdir() if re.fullmatch(r"\.[178]", page.suffix))
        self.assertGreater(len(found), 15)
        return found

    def commands(self):
        """Returns all commands as lists of words."""
        found = []
        for name in below():
            found += [[name]] + [[name, sub] for sub in below(name)]
        return found

    def page_of(self, command):
        section = 8 if command[0] in SERVICES else 1
        return PAGES / f"pollux-{'-'.join(command)}.{section}"

    def text_of(self, page, width=ONE_LINE):
        shown = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbuo", "-Kutf8",
                                f"-rLL={width}n", page], capture_output=True, check=True)
        self.assertEqual(shown.stderr.decode(), "", page)
        text = shown.stdout.decode()
        return text.translate({0x2010: "-", 0x2212: "-", 0x2019: "'", 0x2018: "`"})

    def test_man_gives_no_warnings(self):
        for page in self.pages():
            with self.subTest(page.name), tempfile.TemporaryDirectory() as home:
                self.text_of(page, 60)
                shown = ended("man", "--warnings", "-l", page.resolve(),
                              env=os.environ | {"MANWIDTH": "80", "HOME": home,
                                                "LC_ALL": "C.UTF-8"})
                self.assertEqual(shown.stderr, "")
                self.assertIn(page.stem.upper(), shown.stdout)

    def test_each_command_has_a_page_with_its_complete_help(self):
        for command in self.commands():
            with self.subTest(command):
                text = words_of(self.text_of(self.page_of(command)))
                about, _, options = help_of(*command).partition("\noptions:\n")
                usage, _, about = about.partition("\n\n")
                for alternative in usage.removeprefix("usage: ").split(" | "):
                    self.assertIn(words_of(alternative).removeprefix("pollux "), text)
                self.assertIn(words_of(about).split(" commands: ")[0], text)
                for option in re.split(r"^  (?=-)", options, flags=re.MULTILINE)[1:]:
                    self.assertIn(words_of(option), text)

    def test_each_page_has_a_command(self):
        pages = {self.page_of(command).name for command in self.commands()}
        self.assertEqual({page.name for page in self.pages()},
                         pages | {"pollux.1", "pollux.7"})

    def test_overview_lists_each_command(self):
        text = self.text_of(PAGES / "pollux.1", 100)
        for command in below():
            self.assertRegex(text, rf"\n +pollux-{command}\([18]\)\s")

    def test_references_name_existing_pages(self):
        names = {(page.stem, page.suffix[1:]) for page in self.pages()}
        for page in self.pages():
            for name, section in re.findall(r"\b(pollux[a-z-]*)\((\d)\)", self.text_of(page)):
                self.assertIn((name, section), names, page)

    def test_pages_have_the_version_of_the_program(self):
        version = ended(POLLUX, "--version").stdout.split()[1].removesuffix("-dev")
        for page in self.pages():
            self.assertIn(f"Pollux {version}", self.text_of(page, 80))
