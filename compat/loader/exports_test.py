"""Tests that the table of exports, rdma-core's libraries and the front libraries have the same
names and versions, and that the engine adds little thread-local storage to each thread."""

import glob
import subprocess
import unittest

from compat.loader.make_front import read_table

LIBRARIES = {"libibverbs": "libibverbs.so.1.14", "librdmacm": "librdmacm.so.1.3"}
# The versions of rdma-core that the table describes, and what they lack of it.
LACKING = {44: {"ibv_cmd_create_cq_ex2", "ibv_wr_opcode_str"}, 56: set()}


def exports(path):
    """Returns the exports of a shared library as {(name, "@" or "@@", version)}."""
    lines = subprocess.run(["nm", "-D", "--with-symbol-versions", "--defined-only", path],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    found = set()
    for line in lines:
        _, kind, versioned = line.split()
        at = "@@" if "@@" in versioned else "@"
        name, _, version = versioned.partition(at)
        # nm also lists the versions themselves, as absolute symbols.
        if kind != "A":
            found.add((name, at, version))
    return found


def table(library):
    with open("compat/loader/exports.txt", encoding="utf-8") as file:
        rows = read_table(file.read())
    return [row[1:4] for row in rows if row[0] == library]


def thread_local_bytes(path):
    headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True)
    sizes = [line.split()[5] for line in headers.stdout.splitlines() if line.split()[:1] == ["TLS"]]
    return sum(int(size, 16) for size in sizes)


class ExportsTest(unittest.TestCase):
    def test_tables_match_the_exports_of_rdma_core(self):
        for library, file in LIBRARIES.items():
            with self.subTest(library):
                real = {version: path for version in LACKING
                        for path in glob.glob(f"/usr/lib/*/{file}.{version}.*")}
                if not real:
                    self.skipTest(f"needs {file} of rdma-core 44 or 56")
                for version, path in real.items():
                    expected = {row for row in table(library) if row[0] not in LACKING[version]}
                    self.assertEqual(exports(path) ^ expected, set())

    def test_tables_match_the_exports_of_the_front_libraries(self):
        for library in LIBRARIES:
            with self.subTest(library):
                self.assertEqual(exports(f"compat/{library}.so.1") ^ set(table(library)), set())

    def test_thread_local_storage_is_small(self):
        # Thread-local storage takes room on every thread's stack, and a program may give a thread
        # only 16 KiB. A path in DPDK's EAL takes 4 KiB of the storage.
        self.assertLess(thread_local_bytes("compat/libpollux_verbs.so"), 4096 + 1024)

    def test_names_are_unique_and_sorted(self):
        for library in LIBRARIES:
            rows = table(library)
            self.assertEqual(len(rows), len(set(rows)))
            self.assertEqual(rows, sorted(rows, key=lambda row: (row[0], row[1] + row[2])))

    def test_invalid_lines_are_errors(self):
        for line in ("libibverbs ibv_x@@V", "libibverbs ibv_x@@V maybe", "l n@@V served errno",
                     "l n@@V refused", "l n@@V refused nonsense"):
            with self.assertRaises(ValueError, msg=line):
                read_table(line)
