"""Tests that the shared library exports what the static library defines, and nothing else."""

import pathlib
import re
import subprocess
import unittest

ARCHIVE, LIBRARY = "libpollux.a", "libpollux.so"
# With tables of virtual functions, type information and thunks.
EXPORT = re.compile(r"_Z(T.|Th\w+_)?NK?6pollux|pollux_rpc_|(clnt|svc)_pollux_create$")
# For DPDK's drivers, which are linked into the library: --wrap.
WRAPPER = re.compile(r"__wrap_")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(*arguments):
    """Returns nm's {symbol: type} of global symbols with a definition."""
    lines = run("nm", "--extern-only", "--defined-only", *arguments).splitlines()
    rows = [line.split() for line in lines if len(line.split()) == 3]
    return {name: kind for _, kind, name in rows}


class SharedLibraryTest(unittest.TestCase):
    def setUp(self):
        number = pathlib.Path("VERSION").read_text(encoding="utf-8").strip().split(".")
        self.abi = number[0] if number[0] != "0" else ".".join(number[:2])

    def exports(self):
        version = f"POLLUX_{self.abi}"
        found = symbols("--dynamic", "--with-symbol-versions", LIBRARY)
        self.assertEqual(found.pop(version, None), "A")
        self.assertEqual({name for name in found if not name.endswith(f"@@{version}")}, set())
        return {name.partition("@")[0]: kind for name, kind in found.items()}

    def test_every_function_that_is_not_inline_is_exported(self):
        defined = {name for name, kind in symbols(ARCHIVE).items()
                   if kind == "T" and not WRAPPER.match(name)}
        self.assertGreater(len(defined), 1000)
        self.assertEqual(defined - set(self.exports()), set())

    def test_nothing_of_other_libraries_is_exported(self):
        self.assertEqual({name for name in self.exports() if not EXPORT.match(name)}, set())

    def test_no_data_is_exported_that_a_program_would_have_a_copy_of(self):
        data = {name for name, kind in self.exports().items() if kind not in "TWV"}
        self.assertEqual({name for name in data if not name.startswith("_ZT")}, set())

    def test_dpdk_is_part_of_it(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", LIBRARY))
        self.assertIn("libstdc++.so.6", needed)
        self.assertEqual([name for name in needed if name.startswith("librte_")], [])

    def test_its_name_has_the_part_of_the_version_that_changes_with_the_api(self):
        dynamic = run("readelf", "-dW", LIBRARY)
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic), [f"libpollux.so.{self.abi}"])


if __name__ == "__main__":
    unittest.main()
