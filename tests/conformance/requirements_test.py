import glob
import os
import unittest

from tests.conformance import mutations, requirements

TABLE = "tests/conformance/requirements.txt"
MUTATIONS = "tests/conformance/mutations.txt"
# Every citation in these files must have a row. The table may name other files, too.
SOURCES = ("oncrpc/*.h", "oncrpc/*.cc", "rpcrdma/*.h", "rpcrdma/*.cc", "rpcrdma/*/*.h",
           "rpcrdma/*/*.cc", "nfs/*/*.h", "nfs/*/*.cc", "tests/hostile/*.cc", "tests/sim/rpc_*",
           "tests/packet_path/*.cc")
ROW = "err | RFC 8166 | 4.5.2 | MUST | answer ERR_CHUNK | a.cc | a_test.cc | //r:t Suite.Case"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class TableTest(unittest.TestCase):
    """Tests of the table in this tree."""

    def test_table_and_citations_agree(self):
        rows, wrong = requirements.parse_table(read(TABLE))
        self.assertEqual(wrong, [])
        self.assertGreater(len(rows), 100)
        paths = {path for pattern in SOURCES for path in glob.glob(pattern)}
        self.assertGreater(len(paths), 50)
        paths |= {path for row in rows for path in row.code + row.tests if os.path.exists(path)}
        cited = {path: requirements.citations(read(path)) for path in paths}
        self.assertEqual(requirements.disagreements(rows, cited), [])

    def test_each_case_is_in_a_test_of_its_target(self):
        rows, _ = requirements.parse_table(read(TABLE))
        self.assertEqual(requirements.missing_cases(rows, read), [])

    def test_each_mutation_can_be_made(self):
        rows, _ = requirements.parse_table(read(TABLE))
        found, wrong = mutations.parse(read(MUTATIONS))
        self.assertEqual(wrong, [])
        self.assertGreater(len(found), 150)
        self.assertEqual(
            mutations.disagreements(found, rows,
                                    lambda path: read(path) if os.path.exists(path) else None), [])


class CitationsTest(unittest.TestCase):
    def expect(self, text, *sections):
        self.assertEqual(requirements.citations(text), {("RFC 8166", s) for s in sections})

    def test_every_form_of_citation_is_found(self):
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

    def test_a_cited_row_agrees(self):
        cite = {("RFC 8166", "4.5.2")}
        self.assertEqual(self.wrong(ROW, {"a.cc": cite, "a_test.cc": cite}), [])

    def test_missing_and_unlisted_citations_are_reported(self):
        cite = {("RFC 8166", "4.5.2")}
        self.assertIn("no a_test.cc", self.wrong(ROW, {"a.cc": cite})[0])
        self.assertIn("a.cc does not cite", self.wrong(ROW, {"a.cc": set(), "a_test.cc": cite})[0])
        self.assertIn("b.cc cites RFC 8166 section 4.5.2",
                      self.wrong(ROW, {"a.cc": cite, "a_test.cc": cite, "b.cc": cite})[0])
        other = cite | {("RFC 8797", "4")}
        self.assertIn("a.cc cites RFC 8797 section 4",
                      self.wrong(ROW, {"a.cc": other, "a_test.cc": cite})[0])

    def test_invalid_rows_are_reported(self):
        for row in ("a | RFC 8166 | 4.5.2 | MUST | answer",
                    "a | RFC 1 | 4.5.2 | MUST | answer | a.cc | a_test.cc | //r:t S.C",
                    "a | RFC 8166 | four | MUST | answer | a.cc | a_test.cc | //r:t S.C",
                    "a | RFC 8166 | 4 | WILL | answer | a.cc | a_test.cc | //r:t S.C",
                    "A b | RFC 8166 | 4 | MUST | answer | a.cc | a_test.cc | //r:t S.C",
                    "a | RFC 8166 | 4 | MUST | answer | a.cc | - | -",
                    "a | RFC 8166 | 4 | MUST | answer | - | - | -",
                    "a | RFC 8166 | 4 | MUST | answer | - | a_test.cc | //r:t S.C",
                    "a | RFC 8166 | 4 | MUST | answer | a.cc | reason: no | -",
                    "a | RFC 8166 | 4 | MUST | answer | a.cc | a_test.cc | -",
                    "a | RFC 8166 | 4 | MUST | answer | a.cc | a_test.cc | r:t S.C",
                    "a | RFC 8166 | 4 | MUST | answer | - | reason: no | //r:t S.C",
                    ROW + "\n" + ROW,
                    ROW + "\n" + ROW.replace("answer", "send"),
                    ROW + "\n" + ROW.replace("err |", "other |"),
                    ROW + "\na | RFC 8166 | 4.5 | MUST | b | a.cc | a_test.cc | //r:t S.C"):
            self.assertNotEqual(requirements.parse_table(row)[1], [], row)
        for row in (ROW, "# a comment",
                    "a | RFC 8166 | 4 | SHOULD | do | - | reason: it cannot be | -",
                    "a | RFC 8166 | 4 | defines | the header | a.h | - | -",
                    "a | IB | A17 | shall | send | a.cc | a_test.cc | //r:t S.C",
                    ROW + "\na | RFC 8166 | 4.10 | MUST | b | a.cc | a_test.cc | //r:t S.C"):
            self.assertEqual(requirements.parse_table(row)[1], [], row)


class CasesTest(unittest.TestCase):
    FILES = {"r/BUILD.bazel": 'room_test(name = "t", srcs = ["a_test.cc"])\n'
                              'python_test(name = "p", src = "p_test.py")\n',
             "r/a_test.cc": "TEST_F(Suite,\n       Case) {}",
             "r/p_test.py": "class Suite(X):\n    def test_it(self):\n        pass\n"}

    def wrong(self, tests, case):
        rows, wrong = requirements.parse_table(
            f"a | RFC 8166 | 4 | MUST | answer | a.cc | {tests} | {case}")
        self.assertEqual(wrong, [])
        return requirements.missing_cases(rows, lambda path: self.FILES.get(path, ""))

    def test_existing_cases_are_found(self):
        self.assertEqual(self.wrong("r/a_test.cc", "//r:t Suite.Case"), [])
        self.assertEqual(self.wrong("r/p_test.py r/a_test.cc", "//r:p Suite.test_it"), [])

    def test_missing_cases_are_reported(self):
        self.assertNotEqual(self.wrong("r/a_test.cc", "//r:t Suite.Other"), [])
        self.assertNotEqual(self.wrong("r/a_test.cc", "//r:other Suite.Case"), [])
        self.assertNotEqual(self.wrong("r/p_test.py", "//r:t Suite.Case"), [])


class MutationsTest(unittest.TestCase):
    ENTRY = "err a.cc\n- if (x)\n-   y();\n+ y();\n"

    def wrong(self, text, source="{\n  if (x)\n  y();\n}", table=ROW):
        found, wrong = mutations.parse(text)
        rows, _ = requirements.parse_table(table)
        return wrong + mutations.disagreements(found, rows, {"a.cc": source}.get)

    def test_old_text_is_replaced(self):
        found, wrong = mutations.parse("# why\n\n" + self.ENTRY + "\nother b.cc\n- z\n")
        self.assertEqual(wrong, [])
        self.assertEqual([mutation.row for mutation in found], ["err", "other"])
        self.assertEqual(found[1].new, "")
        self.assertEqual(mutations.apply(found[0], "{\n  if (x)\n  y();\n}"), "{\n  y();\n}")

    def test_applicable_mutations_are_accepted(self):
        self.assertEqual(self.wrong(self.ENTRY), [])
        self.assertEqual(self.wrong("err none: it cannot be\n"), [])

    def test_inapplicable_mutations_are_reported(self):
        for text in ("err a.cc\n", "err\n- x\n", "err a.cc\n- x\n+ x\n", "", self.ENTRY * 2,
                     self.ENTRY.replace("err", "other"), self.ENTRY.replace("a.cc", "b.cc")):
            self.assertNotEqual(self.wrong(text), [], text)
        self.assertNotEqual(self.wrong(self.ENTRY, source="if (y)"), [])
        self.assertNotEqual(self.wrong("err a.cc\n- x\n", source="x x"), [])


if __name__ == "__main__":
    unittest.main()
