"""Tests that the built programs and libraries have the static probes (USDT) that the documents
describe, with the same arguments."""

import pathlib
import re
import subprocess
import unittest

from tests.command.harness import POLLUX

DOCUMENT = pathlib.Path("docs/troubleshooting.md")
COUNTERS = pathlib.Path("stack/transport/diagnostics/counters.h")
# Argument sizes in an ELF note: bytes, negative if the argument is signed.
SIZES = {"u8": 1, "i32": -4, "u32": 4, "u64": 8}
NOTE = re.compile(r"Provider: pollux\n +Name: (\w+)\n +Location: (\w+),.*\n +Arguments: (.*)")


def section():
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition("\n## Probes\n")[2].partition("\n## ")[0]


def documented():
    """Returns the argument sizes of each probe in the document's table."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", section(), re.MULTILINE)
    return {name: [SIZES[kind] for kind in re.findall(r"`(\w+) \w+`", arguments)]
            for name, arguments in rows}


def found_in(path, linked=True):
    """Returns the argument sizes of each probe in a file. A linked file has notes of functions that
    the linker has removed, too; their address is 0."""
    notes = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True)
    found = {}
    for name, location, arguments in NOTE.findall(notes.stdout):
        if linked and int(location, 16) == 0:
            continue
        sizes = [int(argument.partition("@")[0]) for argument in arguments.split()]
        if found.setdefault(name, sizes) != sizes:
            raise AssertionError(f"{path}: {name} has {sizes} and {found[name]}")
    return found


class ProbesTest(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None

    def test_the_document_has_probes(self):
        self.assertIn("packet_drop", documented())

    def test_the_command_has_the_documented_probes(self):
        self.assertEqual(found_in(POLLUX), documented())

    def test_the_shared_library_has_the_documented_probes(self):
        self.assertEqual(found_in("libpollux.so"), documented())

    def test_the_static_library_has_the_documented_probes(self):
        self.assertEqual(found_in("libpollux.a", linked=False), documented())

    def test_the_libraries_of_pollux_run_have_those_without_rpc(self):
        self.assertEqual(found_in("compat/libpollux_verbs.so"),
                         {name: sizes for name, sizes in documented().items()
                          if not name.startswith("rpc_")})

    def test_each_probe_has_a_command_line(self):
        lines = [line for line in section().splitlines() if line.startswith("bpftrace -e ")]
        shown = {name for line in lines for name in re.findall(r":pollux:(\w+)", line)}
        self.assertEqual(shown, set(documented()))

    def test_the_reasons_have_their_numbers(self):
        reasons = re.findall(r"\b(\d+)\s`(\w+)`",
                             section().partition("Reasons of `packet_drop`:")[2])
        declared = COUNTERS.read_text(encoding="utf-8").partition("enum class Drop")[2]
        names = re.findall(r"^  k(\w+)", declared.partition("};")[0], re.MULTILINE)
        self.assertEqual(names.pop(), "Count")
        self.assertEqual([(int(number), name) for number, name in reasons],
                         [(number, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower())
                          for number, name in enumerate(names)])


if __name__ == "__main__":
    unittest.main()
