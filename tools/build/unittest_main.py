"""Runs one unittest file and writes its cases as JUnit XML to $XML_OUTPUT_FILE.

If a test has a shard_count, Bazel starts that many processes; each runs its share of the cases.
"""

import os
import pathlib
import runpy
import sys
import unittest
from xml.sax.saxutils import quoteattr


class Recorder(unittest.TextTestResult):

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.ran = []

    def startTest(self, test):
        super().startTest(test)
        self.ran.append(test)


def write_xml(result, path):
    bad = {test.id(): ("failure", text) for test, text in result.failures + result.errors}
    bad.update({test.id(): ("skipped", reason) for test, reason in result.skipped})
    with open(path, "w", encoding="utf-8") as file:
        file.write("<testsuites><testsuite>\n")
        for test in result.ran:
            file.write(f"<testcase name={quoteattr(test.id())}>")
            kind, text = bad.pop(test.id(), (None, None))
            if kind:
                file.write(f"<{kind} message={quoteattr(text)}/>")
            file.write("</testcase>\n")
        # Failures outside a case, as in setUpClass.
        for name, (kind, text) in bad.items():
            file.write(f"<testcase name={quoteattr(name)}><{kind} message={quoteattr(text)}/>"
                       "</testcase>\n")
        file.write("</testsuite></testsuites>\n")


def of_this_shard(cases):
    status_file = os.environ.get("TEST_SHARD_STATUS_FILE")
    if status_file is None:
        return cases
    # Without this file Bazel takes the test for one that runs all cases in each shard.
    pathlib.Path(status_file).touch()
    return cases[int(os.environ["TEST_SHARD_INDEX"])::int(os.environ["TEST_TOTAL_SHARDS"])]


def check_left_out(variant):
    """Checks that each `test_x = None` leaves out an inherited case; otherwise the name is
    misspelt."""
    for name, value in vars(variant).items():
        if name.startswith("test") and value is None and not any(
                callable(vars(base).get(name)) for base in variant.__mro__):
            sys.exit(f"{sys.argv[1]}: {variant.__name__}.{name} = None: no class that it inherits "
                     "from has this case; correct or remove the line")


def check_has_cases(own):
    """Checks that each class of the file has cases, unless another one is derived from it. Cases
    that move to other base classes would otherwise be lost unnoticed."""
    for one in own:
        derived = any(other is not one and issubclass(other, one) for other in own)
        if not derived and not unittest.defaultTestLoader.getTestCaseNames(one):
            sys.exit(f"{sys.argv[1]}: {one.__name__} has no cases; derive it from a class that has "
                     "some, or remove it")


def main():
    sys.path.insert(0, os.getcwd())
    names = runpy.run_path(sys.argv[1], run_name="tested")
    tests = [value for value in names.values()
             if isinstance(value, type) and issubclass(value, unittest.TestCase)]
    check_has_cases([one for one in tests if one.__module__ == "tested"])
    cases = []
    for one in tests:
        check_left_out(one)
        cases += unittest.defaultTestLoader.loadTestsFromTestCase(one)
    suite = unittest.TestSuite(of_this_shard(cases))
    result = unittest.TextTestRunner(resultclass=Recorder, verbosity=2).run(suite)
    if "XML_OUTPUT_FILE" in os.environ:
        write_xml(result, os.environ["XML_OUTPUT_FILE"])
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)


if __name__ == "__main__":
    main()
