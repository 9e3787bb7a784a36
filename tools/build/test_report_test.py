"""Tests test_report.py on events and XML as Bazel 4.2 and GoogleTest 1.12 write them."""

import unittest

from tools.build import test_report

GTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="1" errors="0" name="AllTests">
  <testsuite name="A" tests="4" failures="1" disabled="1" skipped="1" errors="0">
    <testcase name="Good" status="run" result="completed" classname="A" />
    <testcase name="Bad" status="run" result="completed" classname="A">
      <failure message="a.cc:7&#x0A;Expected 1" type=""><![CDATA[a.cc:7]]></failure>
    </testcase>
    <testcase name="Off" status="notrun" result="suppressed" classname="A" />
    <testcase name="Tap" status="run" result="skipped" classname="A">
      <skipped message="a.cc:9&#x0A;needs /dev/net/tun"><![CDATA[a.cc:9]]></skipped>
    </testcase>
  </testsuite>
</testsuites>"""

GOOD = """<testsuites><testsuite name="s"><testcase name="One" status="run"/>
<testcase name="Two" status="run"/></testsuite></testsuites>"""


def result(label, status, xml=None, attempt=1, shard=1):
    outputs = [{"name": "test.log", "uri": "log"}]
    if xml:
        outputs.append({"name": "test.xml", "uri": xml})
    return {"id": {"testResult": {"label": label, "run": 1, "shard": shard, "attempt": attempt}},
            "testResult": {"status": status, "testActionOutput": outputs}}


def completed(label, success):
    return {"id": {"targetCompleted": {"label": label}},
            "completed": {"success": True} if success else {}}


def report(events, status=0):
    return test_report.make_report(events, status, {"gtest": GTEST, "good": GOOD}.__getitem__)


class TestReportTest(unittest.TestCase):

    def test_counts_cases_not_targets(self):
        self.assertEqual(report([result("//a:t", "PASSED", "good")]).summary(),
                         "2 passed, 0 failed")

    def test_failed_and_skipped_cases_are_listed(self):
        found = report([result("//a:t", "FAILED", "gtest")], 3)
        self.assertEqual(found.summary(), "1 passed, 1 failed, 1 skipped")
        self.assertEqual(found.skipped, [("//a:t A.Tap", "needs /dev/net/tun")])
        self.assertEqual(found.failed, [("//a:t A.Bad", "a.cc:7 Expected 1")])

    def test_shards_are_summed_and_only_the_last_attempt_counts(self):
        found = report([result("//a:t", "FAILED", "gtest", attempt=1),
                        result("//a:t", "PASSED", "good", attempt=2),
                        result("//a:t", "PASSED", "good", shard=2)])
        self.assertEqual(found.summary(), "4 passed, 0 failed")

    def test_crash_or_timeout_without_a_failed_case_is_a_failure(self):
        found = report([result("//a:t", "TIMEOUT", "good"), result("//a:u", "FAILED")], 3)
        self.assertEqual(found.summary(), "2 passed, 2 failed")

    def test_pass_without_xml_is_a_failure(self):
        self.assertEqual(report([result("//a:t", "PASSED")]).summary(), "0 passed, 1 failed")

    def test_a_target_that_did_not_build_is_a_failure(self):
        found = report([result("//a:t", "PASSED", "good"), completed("//a:t", True),
                        completed("//a:lib", True), completed("//a:u", False)], 1)
        self.assertEqual(found.summary(), "2 passed, 1 failed")
        self.assertEqual(found.failed, [("//a:u", "did not build")])

    def test_another_bazel_error_is_a_failure(self):
        self.assertEqual(report([result("//a:t", "PASSED", "good")], 1).summary(),
                         "2 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
