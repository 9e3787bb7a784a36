import pathlib
import subprocess
import tempfile
import unittest

from tests.conformance import mutations, requirements
from tools.build import mutate

TABLE = ("one | RFC 8166 | 4 | MUST | do | b.cc | a_test.cc | //r:t Suite.One\n"
         "two | RFC 8166 | 4 | MUST | do more | a.cc | a_test.cc | //r:t Suite.Two\n"
         "three | RFC 8166 | 4 | MUST | do most | a.cc | a_test.cc | //r:t Suite.Three\n")
MUTATIONS = "one b.cc\n- x\n+ y\n\ntwo a.cc\n- x\n\nthree none: why\n"


class MutateTest(unittest.TestCase):
    def setUp(self):
        self.rows, _ = requirements.parse_table(TABLE)
        self.found, _ = mutations.parse(MUTATIONS)
        self.bazel_test = mutate.bazel_test

    def tearDown(self):
        mutate.bazel_test = self.bazel_test

    def test_chooses_all_mutations_or_the_named_ones(self):
        chosen = mutate.choose(self.found, self.rows, [])
        self.assertEqual([row.name for _, row in chosen], ["two", "one"])
        chosen = mutate.choose(self.found, self.rows, ["one"])
        self.assertEqual([row.name for _, row in chosen], ["one"])
        for name in ("three", "four"):
            self.assertRaises(SystemExit, mutate.choose, self.found, self.rows, [name])

    def test_results_of_parameterized_cases_are_combined(self):
        xml = ('<testsuites><testsuite>'
               '<testcase classname="Suite" name="One" status="run"/>'
               '<testcase classname="Suite" name="Left" status="notrun"/>'
               '<testcase classname="All/Suite" name="Two/0" status="run"/>'
               '<testcase classname="All/Suite" name="Two/1" status="run"><failure/></testcase>'
               '</testsuite></testsuites>')
        self.assertEqual(mutate.cases_of(xml), {"Suite.One": True, "Suite.Two": False})
        self.assertEqual(mutate.filter_of(["A.B"]), "A.B:*/A.B/*")

    def test_the_source_is_restored_after_every_outcome(self):
        seen = []
        with tempfile.TemporaryDirectory() as name:
            tree = pathlib.Path(name)
            for status, result in ((mutate.TESTS_FAILED, "caught"), (0, "survived"),
                                   (1, "does not compile")):
                (tree / "b.cc").write_text("a x b")

                def bazel_test(*_, status=status, **__):
                    seen.append((tree / "b.cc").read_text())
                    return status, "output"
                mutate.bazel_test = bazel_test
                self.assertEqual(mutate.try_mutation(tree, self.found[0], self.rows[0])[0], result)
                self.assertEqual((tree / "b.cc").read_text(), "a x b")
            self.assertEqual(seen, ["a y b"] * 3)
            (tree / "b.cc").write_text("a x x b")
            self.assertEqual(mutate.try_mutation(tree, self.found[0], self.rows[0])[0],
                             "old text is not there once")

    def test_the_copy_follows_the_checkout(self):
        with tempfile.TemporaryDirectory() as name:
            source, target = pathlib.Path(name) / "source", pathlib.Path(name) / "target"
            (source / "r").mkdir(parents=True)
            subprocess.run(["git", "init", "-q"], cwd=source, check=True)
            (source / ".gitignore").write_text("ignored\n")
            for path in ("r/a", "r/b", "ignored"):
                (source / path).write_text("1")
            mutate.copy_tree(source, target)
            self.assertEqual((target / "r/a").read_text(), "1")
            self.assertFalse((target / "ignored").exists())
            kept = (target / "r/a").stat().st_mtime_ns
            (source / "r/b").unlink()
            (source / "r/c").write_text("2")
            mutate.copy_tree(source, target)
            self.assertFalse((target / "r/b").exists())
            self.assertEqual((target / "r/c").read_text(), "2")
            self.assertEqual((target / "r/a").stat().st_mtime_ns, kept)


if __name__ == "__main__":
    unittest.main()
