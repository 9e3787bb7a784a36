"""Counts the test cases of one `bazel test` invocation.

usage: test_report.py BUILD_EVENTS.json BAZEL_EXIT_STATUS

Reads the targets and their test.xml files from the build event protocol, so that cached results
count and results of removed targets do not. Lists the failed and the skipped cases, and ends with
the line `N passed, N failed` (and `, N skipped` if some were). The exit status is 0 only if nothing
failed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


class Report:
    """The results: the number of passed cases, and failed and skipped ones as lists of (name,
    reason)."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []

    def summary(self):
        line = f"{self.passed} passed, {len(self.failed)} failed"
        return line + (f", {len(self.skipped)} skipped" if self.skipped else "")


def reason_of(element):
    """Returns the text of a <failure>, <error> or <skipped> element, on one line."""
    text = element.get("message") or element.text or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # GoogleTest puts FILE:LINE on a line of its own before the reason.
    if element.tag == "skipped" and len(lines) > 1 and ":" in lines[0] and " " not in lines[0]:
        lines = lines[1:]
    return " ".join(lines) or "no reason given"


def count_cases(report, label, xml_text):
    """Adds the cases of one test.xml; returns how many of them failed."""
    failures = 0
    for case in xml.etree.ElementTree.fromstring(xml_text).iter("testcase"):
        name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
        name = name if name.startswith("//") else f"{label} {name}"
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = case.find("skipped")
        if bad is not None:
            report.failed.append((name, reason_of(bad)))
            failures += 1
        elif skipped is not None:
            report.skipped.append((name, reason_of(skipped)))
        elif case.get("status") != "notrun":
            report.passed += 1
    return failures


def last_attempts(events):
    """Maps (label, run, shard) to the result of its last attempt."""
    results = {}
    for event in events:
        key = event["id"].get("testResult")
        if key is None or "testResult" not in event:
            continue
        place = (key["label"], key.get("run", 1), key.get("shard", 1))
        attempt = key.get("attempt", 1)
        if place not in results or attempt >= results[place][0]:
            results[place] = (attempt, event["testResult"])
    return {place: result for place, (_, result) in sorted(results.items())}


def read_file_uri(uri):
    with open(urllib.parse.unquote(urllib.parse.urlparse(uri).path), encoding="utf-8",
              errors="replace") as file:
        return file.read()


def make_report(events, bazel_status, read=read_file_uri):
    report = Report()
    results = last_attempts(events)
    for (label, _, _), result in results.items():
        xml_uris = [output["uri"] for output in result.get("testActionOutput", [])
                    if output["name"] == "test.xml"]
        failures = 0
        try:
            for uri in xml_uris:
                failures += count_cases(report, label, read(uri))
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            report.failed.append((label, f"test.xml cannot be read: {error}"))
            failures += 1
        status = result.get("status", "NO_STATUS")
        if status not in ("PASSED", "FLAKY") and not failures:
            # A crash or a time-out may leave an XML file without a failed case, or none at all.
            report.failed.append((label, status.lower().replace("_", " ")))
        elif not xml_uris and not failures:
            report.failed.append((label, "left no test.xml"))
    tested = {label for label, _, _ in results}
    for event in events:
        completed = event["id"].get("targetCompleted")
        if completed is None or completed["label"] in tested:
            continue
        if not event.get("completed", {}).get("success"):
            report.failed.append((completed["label"], "did not build"))
            tested.add(completed["label"])
    if bazel_status != 0 and not report.failed:
        meaning = {4: "no tests found", 8: "interrupted"}.get(bazel_status, "see its output")
        report.failed.append(("bazel", f"exit status {bazel_status}: {meaning}"))
    return report


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        events = [json.loads(line) for line in file if line.strip()]
    report = make_report(events, int(sys.argv[2]))
    for kind, cases in (("skipped", report.skipped), ("FAILED", report.failed)):
        for name, reason in cases:
            print(f"{kind}: {name}: {reason}"[:400])
    print(report.summary())
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
