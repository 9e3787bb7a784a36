"""Checks what clang-format and clang-tidy do not. Prints PATH:LINE: MESSAGE; exit status 1 if any.

usage: lint.py [FILE...]   (default: every tracked file)
"""

import ast
import os
import pathlib
import re
import subprocess
import sys

# A room may include only rooms before it in this list. tests/ may include all.
ROOMS = ["stack/base", "stack/wire", "stack/io", "stack/memory", "stack/verbs", "stack/transport",
         "stack/ip", "stack/kernel", "stack/engine", "cm", "oncrpc", "rpcrdma", "nfs", "compat",
         "tools"]
# Rooms that no other room may include, each with the only other rooms that it may include.
ASIDE = {"compat": [room for room in ROOMS if room.startswith("stack/")] + ["cm"]}
# Rooms that may include only these of the rooms before them.
NARROW = {"oncrpc": ["stack/base"]}
# The folders of a room; each may include those before it. Files in the room's own folder may
# include all of them; "" is that folder, if others may include it.
INNER = {
    "stack/io": ["link", "port", "steering", "capture"],
    "stack/transport": ["diagnostics", "message", "congestion", "rc"],
    "stack/engine": ["timer", "objects", "loop", "polling"],
    "cm": ["wire", "gsi", "connection"],
    "rpcrdma": ["wire", "connection", "requester", "responder", "", "tirpc"],
    "nfs": ["v3", "export", "procedures", "storage", "server", "mount", "lock", "client"],
    "compat": ["loader", "process", "runtime", "verbs", "rdmacm"],
    "tools": ["build", "decode", "common", "stat", "file_service", "nfs", "tirpc", "bench",
              "doctor", "exporter", "pollux"],
}
# The file that lists, room by room, the headers that a program outside the tree may include, and
# the folders whose files may include no other headers of a room.
PUBLIC = "BUILD.bazel"
PROGRAMS = ("tools/", "examples/")
# Names that were replaced by words of the field: the new name, and a pattern of the paths in which
# the old name is refused, for words that are plain English elsewhere. A name is refused as that of
# a type and of a file.
OLD_NAMES = {
    "AckTrust": ("PeerAckBehavior", ""),
    "Activity": ("ApplicationActivity", "stack/engine/|compat/"),
    "Answers": ("AckPolicy", "stack/engine/"),
    "ArrivedResponses": ("ReceivedPsnBitmap", ""),
    "Bell": ("FdWaiter", ""),
    "Copied": ("ForkedChild", ""),
    "Deliveries": ("UnackedEvents", ""),
    "Driver": ("ProgressThread", "stack/engine/|compat/"),
    "Duplex": ("MessageDemux", ""),
    "EarlyRequests": ("RelistenGraceQueue", ""),
    "EndingSignal": ("TerminationSignals", ""),
    "FakeWorld": ("FakeNetwork", ""),
    "Farewell": ("DisconnectLinger", ""),
    "FlightLimit": ("InFlightWindow", ""),
    "FrameOwner": ("RxDestination", ""),
    "FrameSorter": ("RxClassifier", ""),
    "HeldAnswers": ("AckPolicy", ""),
    "Insistence": ("RepeatedSignalFilter", ""),
    "Journal": ("QpDiagnostics", "stack/|compat/"),
    "KernelPath": ("ExceptionPath", ""),
    "KernelSide": ("HostInterface", ""),
    "LastThread": ("ProgramThreadsExit", ""),
    "LivingThreads": ("ThreadRegistry", ""),
    "LogBudget": ("LogRateLimiter", ""),
    "Owed": ("AckPolicy", "stack/"),
    "Pace": ("ProgressPolicy", ""),
    "Party": ("Actor", ""),
    "Patience": ("SpinThenSleepBackoff", ""),
    "Progress": ("ProgressThread", "stack/engine/|compat/"),
    "Question": ("StatsQuery", ""),
    "ReachableHandle": ("ResolvedAh", ""),
    "ReadRepairs": ("ReadGapTracker", ""),
    "Report": ("Stats", r"stack/(?!ip/)|cm/|rpcrdma/"),
    "Reporter": ("StatsProvider", ""),
    "Retired": ("RecentlyDestroyed", "compat/"),
    "RoundTrip": ("RttEstimator", "stack/transport/"),
    "Seat": ("WorkerPort", "stack/engine/"),
    "ServedAt": ("ListenAddresses", ""),
    "SpareMemory": ("OomReserve", ""),
    "StandInPages": ("InstallFatalSignalHandlers", ""),
    "Standing": ("SchedulingBoost", "stack/engine/|compat/"),
    "TelemetryAnswer": ("TelemetryReply", ""),
    "TellOnce": ("LogOnce", ""),
    "Turn": ("ScopedWorkerOwnership", ""),
    "UnwantedHandles": ("DeferredAhDestroy", ""),
    "Waited": ("StallTolerantStopwatch", ""),
    "World": ("Runtime", "compat/"),
}
DECLARED = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:friend\s+)?"
                      r"(?:class|struct|enum(?:\s+(?:class|struct))?|using)\s+"
                      r"(?:\[\[.*?\]\]\s*|alignas\(.*?\)\s*)*(?:\w+::)*(\w+)")
# Code that only tests link may include everything.
TEST_ONLY = re.compile(
    r"(_test|_for_test|_fixture|_fuzz|_samples|_bench)\.(cc|h)$|/(test|fake)_[^/]*$")
TOP_LEVEL = {"WORKSPACE", "BUILD.bazel", "README.md", "CONTRIBUTING.md", "SECURITY.md",
             "CHANGELOG.md", "LICENSE", "VERSION", "stack", "cm", "oncrpc",
             "rpcrdma", "nfs", "compat", "tools", "examples", "tests", "docs"}
LINE_COLUMNS_MAX = 100
FILE_LINES_MAX = 700
MARK = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
# Paths that exist on one developer's machine only.
OWN_PATH = re.compile(r"/(home|Users|work|workspace)/\w")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
SOURCES = (".cc", ".h", ".c")
TEXTS = SOURCES + (".py", ".sh", ".bzl", ".bazel", ".BUILD", ".md")
# Sources without a test of their own, each with the test that covers it. A line whose source has a
# test beside it, or one of whose files is gone, is an error too.
TESTED_ELSEWHERE = "tools/build/tested_elsewhere.txt"


def room_of(path):
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def guard_of(path):
    return "POLLUX_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"


def inner_rank(path, room):
    """Returns the position of a file's folder among its room's folders; None if it is not
    listed."""
    folder = path[len(room) + 1:].rpartition("/")[0]
    order = INNER[room] if "" in INNER[room] else INNER[room] + [""]
    return order.index(folder) if folder in order else None


def breach(path, included):
    """Returns why a file may not include another file of a room; empty if it may."""
    mine, theirs = room_of(path), room_of(included)
    if theirs in ASIDE and mine != theirs:
        return f"nothing sees {theirs}"
    if mine != theirs and theirs not in ASIDE.get(mine, NARROW.get(mine, ROOMS)):
        return f"it does not see {theirs}"
    if ROOMS.index(theirs) > ROOMS.index(mine):
        return f"{theirs} comes after it in ROOMS"
    if mine != theirs or mine not in INNER:
        return ""
    rank, other = inner_rank(path, mine), inner_rank(included, mine)
    if rank is None or other is None:
        return f"INNER has no such folder of {mine}"
    return f"its folder comes after {os.path.dirname(path)} in INNER" if other > rank else ""


def read_public(text):
    """Returns the headers that a BUILD file lists as public."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "PUBLIC_HEADERS":
            lists = ast.literal_eval(statement.value)
            return {header for headers in lists.values() for header in headers}
    return set()


def check_public(path, number, included, public):
    """Reports a file outside the rooms that includes a header which is not public."""
    if not path.startswith(PROGRAMS) or TEST_ONLY.search(path):
        return []
    if room_of(included) in (None, "tools") or included in public:
        return []
    return [(path, number, f"{included} is internal: {PUBLIC} lists what programs may include")]


def check_listed(public, paths):
    return [(PUBLIC, 1, f"{header} does not exist") for header in sorted(public - set(paths))]


def check_include(path, number, included):
    mine, theirs = room_of(path), room_of(included)
    if mine is None or theirs is None or TEST_ONLY.search(path):
        return []
    why = breach(path, included)
    if why:
        return [(path, number, f"{mine} may not include {included}: {why}")]
    if TEST_ONLY.search(included):
        return [(path, number, f"{included} is for tests only")]
    return []


def check_guard(path, lines):
    if not path.endswith(".h"):
        return []
    guard = guard_of(path)
    directives = [line.strip() for line in lines if line.startswith("#")]
    if directives[:2] == [f"#ifndef {guard}", f"#define {guard}"]:
        return []
    return [(path, 1, f"the header guard is not {guard}")]


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def new_name(name, path):
    """Returns the new name of a type that has an old name in that file; empty if it has none."""
    new, where = OLD_NAMES.get(name, ("", ""))
    return new if re.match(where, path) else ""


def check_old_names(path, lines):
    """Reports the file, and each type declared in it, that has an old name."""
    stem = re.sub(r"(_for_test|_test)$", "", os.path.basename(path).partition(".")[0])
    found = [(path, 1, f"{stem} is called {snake(new_name(name, path))} now")
             for name in OLD_NAMES if stem == snake(name) and new_name(name, path)]
    for number, line in enumerate(lines, 1):
        declared = DECLARED.match(line)
        new = new_name(declared.group(1), path) if declared else ""
        if new:
            found.append((path, number, f"{declared.group(1)} is called {new} now"))
    return found


def check_file(path, text, public=None):
    """Returns the findings of one file as (path, line, message); checks public headers if `public`
    is given."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX and path.endswith(SOURCES + (".py", ".sh")):
            found.append((path, number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}"))
        if MARK.search(line):
            found.append((path, number, "a mark of unfinished work"))
        if OWN_PATH.search(line):
            found.append((path, number, "a path of one machine"))
        if line != line.rstrip() and not path.endswith(".md"):
            found.append((path, number, "blanks at the end of the line"))
        include = INCLUDE.match(line) if path.endswith(SOURCES) else None
        if include:
            found += check_include(path, number, include.group(1))
            if public is not None:
                found += check_public(path, number, include.group(1), public)
    if path.endswith(SOURCES) and len(lines) > FILE_LINES_MAX:
        found.append((path, 1, f"{len(lines)} lines, at most {FILE_LINES_MAX}: one concept a file"))
    if path.endswith(SOURCES):
        found += check_old_names(path, lines)
    return found + check_guard(path, lines)


def check_tests(paths, elsewhere):
    """Checks that every NAME.cc of a room has NAME_test.cc beside it, or a test listed in
    `elsewhere`."""
    paths = set(paths)
    found = []
    for path in sorted(paths):
        if not path.endswith(".cc") or room_of(path) is None or TEST_ONLY.search(path):
            continue
        has_test = path[:-3] + "_test.cc" in paths
        if not has_test and path not in elsewhere:
            found.append((path, 1, f"has no test beside it and no line in {TESTED_ELSEWHERE}"))
        if has_test and path in elsewhere:
            found.append((TESTED_ELSEWHERE, 1, f"{path} has a test; take its line out"))
    for pair in elsewhere.items():
        found += [(TESTED_ELSEWHERE, 1, f"{path} does not exist")
                  for path in pair if path not in paths]
    return found


def check_top_level(paths):
    names = {path.split("/")[0] for path in paths}
    return [(name, 1, "does not belong at the top level") for name in sorted(names - TOP_LEVEL)
            if not name.startswith(".")]


def read_elsewhere(text):
    """Returns lines `SOURCE TEST` as a map."""
    return dict(line.split() for line in text.splitlines() if line and line[0] != "#")


def main():
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    tracked = subprocess.check_output(["git", "ls-files"], text=True).splitlines()
    tracked = [path for path in tracked if os.path.exists(path)]
    found = check_top_level(tracked)
    with open(PUBLIC, encoding="utf-8") as file:
        public = read_public(file.read())
    for path in sys.argv[1:] or tracked:
        if path.endswith(TEXTS) or path in ("tools/dev", ".ci/run"):
            with open(path, encoding="utf-8") as file:
                found += check_file(path, file.read(), public)
    with open(TESTED_ELSEWHERE, encoding="utf-8") as file:
        found += check_tests(tracked, read_elsewhere(file.read()))
    found += check_listed(public, tracked)
    for path, number, message in found:
        print(f"{path}:{number}: {message}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    import closed_pipe
    closed_pipe.run(main)
