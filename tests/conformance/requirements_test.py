import glob
import os
import unittest

from tests.conformance import requirements

TABLE = "tests/conformance/requirements.txt"
# All of whose citations must have a row. Other files may be named in the table too.
SOURCES = ("oncrpc/*.h", "oncrpc/*.cc", "rpcrdma/*.h", "rpcrdma/*.cc", "rpcrdma/*/*.h",
           "rpcrdma/*/*.cc", "nfs/*/*.h", "nfs/*/*.cc", "tests/hostile/*.cc", "tests/sim/rpc_*",
           "tests/packet_path/*.cc")
ROW = "RFC 8166 | 4.5.2 | MUST | answer ERR_CHUNK | a.cc | a_test.cc"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class TableTest(unittest.TestCase):
    """The table of this tree."""

    def test_table_and_citations_agree(self):
        rows, wrong = requirements.parse_table(read(TABLE))
        self.assertEqual(wrong, [])
        self.assertGreater(len(rows), 100)
        paths = {path for pattern in SOURCES for path in glob.glob(pattern)}
        self.assertGreater(len(paths), 50)
        paths |= {path for row in rows for path in row.code + row.tests if os.path.exists(path)}
        cited = {path: requirements.citations(read(path)) for path in paths}
        self.assertEqual(requirements.disagreements(rows, cited), [])


class CitationsTest(unittest.TestCase):
    def expect(self, text, *sections):
        self.assertEqual(requirements.citations(text), {("RFC 8166", s) for s in sections})

    def test_forms(self):
        self.expect("// RFC 8166 section 4.5.2", "4.5.2")
        self.expect("x; // as asked. RFC 8166 section 4.5.\n", "4.5")
        self.expect("// RFC 8166 section 4.2.4 and section 4.6.2\n", "4.2.4", "4.6.2")
        self.expect("// RFC 8166 sections 4.3.2.1, 4.3.2.2 and 4.3.2.3", "4.3.2.1", "4.3.2.2",
                    "4.3.2.3")
        self.expect("// long. RFC 8166\n  // section 3.4.6 and\n  // section 4", "3.4.6", "4")
        self.expect("// RFC 5531 section 9, RFC 8166")


class DisagreementsTest(unittest.TestCase):
    def wrong(self, table, cited):
        rows, wrong = requirements.parse_table(table)
        self.assertEqual(wrong, [])
        return requirements.disagreements(rows, cited)

    def test_agreement(self):
        cite = {("RFC 8166", "4.5.2")}
        self.assertEqual(self.wrong(ROW, {"a.cc": cite, "a_test.cc": cite}), [])

    def test_what_is_missing(self):
        cite = {("RFC 8166", "4.5.2")}
        self.assertIn("no a_test.cc", self.wrong(ROW, {"a.cc": cite})[0])
        self.assertIn("a.cc does not cite", self.wrong(ROW, {"a.cc": set(), "a_test.cc": cite})[0])
        self.assertIn("b.cc cites RFC 8166 section 4.5.2",
                      self.wrong(ROW, {"a.cc": cite, "a_test.cc": cite, "b.cc": cite})[0])
        other = cite | {("RFC 8797", "4")}
        self.assertIn("a.cc cites RFC 8797 section 4",
                      self.wrong(ROW, {"a.cc": other, "a_test.cc": cite})[0])

    def test_rows_that_are_none(self):
        for row in ("RFC 8166 | 4.5.2 | MUST | answer",
                    "RFC 1 | 4.5.2 | MUST | answer | a.cc | a_test.cc",
                    "RFC 8166 | four | MUST | answer | a.cc | a_test.cc",
                    "RFC 8166 | 4 | WILL | answer | a.cc | a_test.cc",
                    "RFC 8166 | 4 | MUST | answer | a.cc | -",
                    "RFC 8166 | 4 | MUST | answer | - | -",
                    "RFC 8166 | 4 | MUST | answer | - | a_test.cc",
                    "RFC 8166 | 4 | MUST | answer | a.cc | reason: no",
                    ROW + "\n" + ROW,
                    ROW + "\nRFC 8166 | 4.5 | MUST | before | a.cc | a_test.cc"):
            self.assertNotEqual(requirements.parse_table(row)[1], [], row)
        for row in (ROW, "# a comment", "RFC 8166 | 4 | SHOULD | do | - | reason: it cannot be",
                    "RFC 8166 | 4 | defines | the header | a.h | -",
                    ROW + "\nRFC 8166 | 4.10 | MUST | after | a.cc | a_test.cc"):
            self.assertEqual(requirements.parse_table(row)[1], [], row)


if __name__ == "__main__":
    unittest.main()
