"""Tests that the main paths stay within their instruction budget."""

import os
import unittest

from tests.bench import instructions

BENCH = os.path.abspath("tests/bench/bench")
BUDGET = os.path.abspath("tests/bench/instructions.txt")


class InstructionsTest(unittest.TestCase):

    def test_every_path_stays_within_its_budget(self):
        with open(BENCH, "rb") as binary:
            program = binary.read()
            if any(name in program for name in (b"__asan_init", b"__tsan_init", b"__llvm_prf")):
                self.skipTest("what a sanitizer or coverage adds is not the paths'")
        figures, spent = instructions.measure(BENCH)
        budget = instructions.read_budget(BUDGET)
        print(instructions.table(figures, budget))
        for path, (message, _) in figures.items():
            self.assertAlmostEqual(sum(spent[path].values()), message, places=3)
        self.assertEqual(instructions.complaints(figures, budget), [],
                         "if it is worth it: tools/dev bench --instructions --update")

    def test_grown_and_shrunk_paths_are_reported(self):
        figures = {"kept": (1000.0, 2.0), "grown": (1051.0, 2.0), "as much": (1050.0, 2.0),
                   "shrunk": (949.0, 2.0), "as little": (950.0, 2.0), "new": (1.0, 1.0)}
        budget = {"kept": 1000, "grown": 1000, "as much": 1000, "shrunk": 1000, "as little": 1000,
                  "gone": 1}
        complaints = instructions.complaints(figures, budget)
        self.assertEqual([text.split(":")[0] for text in complaints],
                         ["grown", "shrunk", "new", "gone"])
        self.assertIn("update the budget", complaints[1])


if __name__ == "__main__":
    unittest.main()
