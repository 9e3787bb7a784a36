"""Tests coverage.py: how it reads a report, and which errors it finds."""

import unittest

from tools.build import coverage

REPORT = """SF:./stack/wire/a.cc
FN:1,first
FN:5,second
FNDA:3,first
FNDA:0,second
DA:1,3
DA:2,3
DA:5,0
DA:6,0
BRDA:2,0,0,3
BRDA:2,0,1,-
end_of_record
SF:./stack/wire/a_test.cc
DA:1,0
end_of_record
SF:./tools/pollux.cc
DA:1,0
end_of_record
"""


class CoverageTest(unittest.TestCase):

    def setUp(self):
        self.files = coverage.parse_lcov(REPORT)

    def test_only_product_files_of_rooms_are_measured(self):
        self.assertEqual(list(self.files), ["stack/wire/a.cc"])
        summary = self.files["stack/wire/a.cc"].summary()
        self.assertEqual(summary["functions"], {"total": 2, "missed": 1})
        self.assertEqual(summary["lines"], {"total": 4, "missed": 2})
        self.assertEqual(summary["branches"], {"total": 2, "missed": 1})
        self.assertEqual(summary["lines_missed"], [5, 6])

    def test_template_instantiations_count_as_one_function(self):
        files = coverage.parse_lcov("SF:cm/a.h\nFN:1,one<int>\nFN:1,one<char>\n"
                                    "FNDA:0,one<int>\nFNDA:2,one<char>\nend_of_record\n")
        self.assertEqual(coverage.judge(files, {}), [])

    def test_uncovered_code_is_an_error_unless_listed(self):
        wrong = coverage.judge(self.files, {})
        self.assertEqual(len(wrong), 2)
        self.assertIn("1 functions not reached, at most 0; they begin in lines 5", wrong[0])
        self.assertIn("2 of 4 lines", wrong[1])
        listed = coverage.read_exceptions("# words\n\nstack/wire/a.cc 1 2 no such device here\n")
        self.assertEqual(coverage.judge(self.files, listed), [])
        listed = coverage.read_exceptions("stack/wire/a.cc 1 1 no such device here\n")
        self.assertEqual(len(coverage.judge(self.files, listed)), 1)

    def test_exceptions_need_an_existing_file_and_a_reason(self):
        wrong = coverage.judge(self.files, coverage.read_exceptions(
            "stack/wire/a.cc 1 2 why\nstack/wire/gone.cc 0 1 why\n"))
        self.assertEqual(len(wrong), 1)
        self.assertIn("gone.cc", wrong[0])
        with self.assertRaises(SystemExit):
            coverage.read_exceptions("stack/wire/a.cc 1 2\n")

    def test_the_table_lists_uncovered_lines(self):
        text = coverage.table(self.files, {}, True)
        self.assertIn("not reached: 5-6", text)
        self.assertIn("50.0", text)


if __name__ == "__main__":
    unittest.main()
