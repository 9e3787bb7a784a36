"""Tests shell completion: bash and zsh load it and are asked what they offer."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from tests.command.harness import POLLUX

COMPLETIONS = pathlib.Path("tools/pollux").resolve()
# Prints what bash offers for the words $2..., of which the last is incomplete. With "bare" as $1 it
# does not load bash-completion, which completes words at "=" and ":", as on a minimal system.
BASH = """
[[ $1 == bare ]] || source /usr/share/bash-completion/bash_completion
source "$0"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
_pollux 2>&1
printf '%s\\n' "${COMPREPLY[@]}"
"""
# Types the words into a zsh on a pseudoterminal and prints the list of matches. The words are typed
# when zsh reads keys: before, the terminal itself would take the control characters.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1= PROMPT_EOL_MARK= LISTMAX=0 COLUMNS=300; stty -echo"
zpty -w shell "fpath=($1 \\$fpath); autoload -U compinit; compinit -u"
zpty -w shell "zstyle ':completion:*' list-prompt ''; zstyle ':completion:*' menu no"
zpty -w shell "bindkey '^I' complete-word; bindkey '^D' list-choices"
zpty -w shell "zle-line-init() { print -n rea\\dy }; zle -N zle-line-init"
while zpty -r shell line '*ready*'; do break; done
zpty -w -n shell "$2"$'\\x04'$'\\x15print do\\\\ne.\\n'
while zpty -r shell line; do
  print -r -- "$line"
  [[ $line != *done.* ]] || break
done
"""


class CompletionTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "capture.pcapng").touch()
        (self.directory / "exported").mkdir()

    def bash(self, *words, bare=True):
        run = subprocess.run(["bash", "--norc", "-c", BASH, COMPLETIONS / "pollux.bash",
                              "bare" if bare else "full", "pollux", *words],
                             cwd=self.directory, capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return sorted(run.stdout.split())

    def zsh(self, line):
        run = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", COMPLETIONS, line],
                             cwd=self.directory, capture_output=True, text=True, check=False,
                             timeout=60,
                             env=os.environ | {"TERM": "dumb", "HOME": str(self.directory)})
        return run.stdout

    def test_commands_are_completed(self):
        shown = subprocess.run([POLLUX, "--help"], capture_output=True, text=True,
                               check=True).stdout
        commands = re.findall(r"^  ([a-z]+) ", shown, re.MULTILINE)
        self.assertEqual(self.bash(""), sorted(commands))
        self.assertEqual(self.bash("nf"), ["nfs", "nfsd"])
        self.assertEqual(self.bash("nfs", ""), ["get", "ls", "put", "rm", "stat"])

    def test_completed_options_match_the_help(self):
        for command in (["nfsd"], ["run"], ["nfs", "put"], ["decode"], ["stat"]):
            with self.subTest(command):
                shown = subprocess.run([POLLUX, *command, "--help"], capture_output=True, text=True,
                                       check=True).stdout
                options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, re.MULTILINE)
                self.assertEqual(self.bash(*command, "--"), sorted(options))

    def test_values_of_options_are_completed(self):
        interfaces = sorted(os.listdir("/sys/class/net"))
        self.assertEqual(self.bash("serve", "--netdev", ""), interfaces)
        self.assertEqual(self.bash("serve", "--netdev", "=", "l"), ["lo"])
        self.assertEqual(self.bash("serve", "--netdev", "="), interfaces)
        self.assertIn("0", self.bash("serve", "--core", ""))
        self.assertEqual(self.bash("serve", "--idle", "s"), ["sleep", "spin"])
        self.assertEqual(self.bash("serve", "--capture", "cap"), ["capture.pcapng"])
        self.assertEqual(self.bash("nfsd", "--export", ""), ["exported"])
        self.assertEqual(self.bash("serve", "--service-port", ""), [])

    def test_operands_are_files(self):
        self.assertEqual(self.bash("decode", "c"), ["capture.pcapng"])
        self.assertEqual(self.bash("put", "--netdev", "lo", "192.0.2.1", "c"), ["capture.pcapng"])

    def test_the_program_of_run_is_completed(self):
        self.assertIn("true", self.bash("run", "--netdev", "lo", "--", "tru"))
        self.assertIn("true", self.bash("run", "--netdev", "lo", "--", "tru", bare=False))
        self.assertIn("capture.pcapng",
                      self.bash("run", "--netdev", "lo", "--", "cat", "cap", bare=False))

    def test_zsh_completes_commands_options_and_values(self):
        self.assertRegex(self.zsh("pollux n"), r"\nnfs +-- files [^\n]*\n+nfsd +-- ")
        self.assertIn("--service-port", self.zsh("pollux serve --se"))
        for line, expected in (("pollux serve --netdev ", "lo"), ("pollux serve --idle s", "spin"),
                               ("pollux decode c", "capture.pcapng"),
                               ("pollux nfs ", "show attributes"),
                               ("pollux nfsd --export ", "exported"),
                               ("pollux nfs put --cap", "--capture"),
                               ("pollux run --netdev lo -- cat c", "capture.pcapng")):
            with self.subTest(line):
                self.assertIn(expected, self.zsh(line))
