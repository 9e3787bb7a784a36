"""Tests lint.py: each rule on a line that breaks it and on one that does not."""

import unittest

from tools.build import lint


def messages(path, text):
    return [message for _, _, message in lint.check_file(path, text)]


class LintTest(unittest.TestCase):

    def test_a_room_includes_only_rooms_before_it(self):
        up = '#include "stack/base/types.h"\n'
        down = '#include "cm/mad.h"\n'
        self.assertEqual(messages("stack/io/port/port.cc", up), [])
        self.assertEqual(messages("stack/io/port/port.cc", down),
                         ["stack/io may not include cm/mad.h: cm comes after it in ROOMS"])
        self.assertEqual(messages("cm/mad.cc", '#include "rpcrdma/header.h"\n'),
                         ["cm may not include rpcrdma/header.h: "
                          "rpcrdma comes after it in ROOMS"])
        self.assertEqual(messages("tests/sim/fabric.cc", down), [])
        self.assertEqual(messages("stack/io/port/port_test.cc", down), [])

    def test_compat_may_include_cm_and_is_included_by_no_room(self):
        self.assertEqual(messages("compat/runtime/runtime.cc", '#include "cm/manager.h"\n'), [])
        self.assertEqual(messages("compat/runtime/runtime.cc",
                                  '#include "compat/process/wait.h"\n'), [])
        self.assertEqual(messages("compat/runtime/runtime.cc", '#include "rpcrdma/client.h"\n'),
                         ["compat may not include rpcrdma/client.h: it does not see rpcrdma"])
        self.assertEqual(messages("tools/common/run.cc", '#include "compat/runtime/runtime.h"\n'),
                         ["tools may not include compat/runtime/runtime.h: "
                          "nothing sees compat"])

    def test_oncrpc_may_include_only_stack_base(self):
        self.assertEqual(messages("oncrpc/xdr.cc", '#include "stack/base/types.h"\n'), [])
        self.assertEqual(messages("oncrpc/xdr.cc", '#include "cm/manager.h"\n'),
                         ["oncrpc may not include cm/manager.h: it does not see cm"])

    def test_folders_include_only_folders_before_them(self):
        for path, included, why in (
                ("cm/gsi/gsi.cc", "cm/wire/mad.h", None),
                ("cm/manager.cc", "cm/gsi/gsi.h", None),
                ("cm/wire/mad.cc", "cm/gsi/gsi.h", "its folder comes after cm/wire in INNER"),
                ("cm/gsi/gsi.cc", "cm/manager.h", "its folder comes after cm/gsi in INNER"),
                ("cm/other/a.cc", "cm/wire/mad.h", "INNER has no such folder of cm"),
                ("rpcrdma/tirpc/host.cc", "rpcrdma/client.h", None),
                ("cm/gsi/gsi_test.cc", "cm/manager.h", None)):
            expected = [f"cm may not include {included}: {why}"] if why else []
            with self.subTest(path):
                self.assertEqual(messages(path, f'#include "{included}"\n'), expected)

    def test_programs_include_only_public_headers(self):
        public = lint.read_public(
            'PUBLIC_HEADERS = {\n    "stack": ["stack/engine/loop/worker.h"],\n}\n'
            'OTHERS = ["stack/io/link.h"]\n')
        self.assertEqual(public, {"stack/engine/loop/worker.h"})
        self.assertEqual(lint.check_listed(public, ["stack/engine/loop/worker.h"]), [])
        self.assertEqual(len(lint.check_listed(public, ["stack/engine/loop/other.h"])), 1)
        inside = '#include "stack/io/link.h"\n'
        for path, text, why in (
                ("tools/common/node.cc", '#include "stack/engine/loop/worker.h"\n', []),
                ("tools/common/node.cc", '#include "tools/common/node.h"\n', []),
                ("tools/common/node_test.cc", inside, []),
                ("tests/sim/fabric.cc", inside, []),
                ("examples/rpcgen/block_server.c", inside,
                 ["stack/io/link.h is internal: BUILD.bazel lists what programs may include"]),
                ("tools/common/node.cc", inside,
                 ["stack/io/link.h is internal: BUILD.bazel lists what programs may include"])):
            with self.subTest(path=path, text=text):
                found = [message for _, _, message in lint.check_file(path, text, public=public)]
                self.assertEqual(found, why)

    def test_former_class_names_are_refused(self):
        for path, line, why in (
                ("stack/engine/loop/a.cc", "class Party {", "Party is called Actor now"),
                ("stack/engine/loop/a.cc", "class Party;", "Party is called Actor now"),
                ("stack/engine/loop/a.cc", "class Actor {", None),
                ("stack/engine/loop/a.cc", "// A class Party was here", None),
                ("stack/engine/loop/a.cc", "struct PartyLine {", None),
                ("stack/base/a.cc", "using Question = int;", "Question is called StatsQuery now"),
                ("tools/a.cc", "using base::Question;", "Question is called StatsQuery now"),
                ("compat/runtime/a.cc", "enum class Standing : int {",
                 "Standing is called SchedulingBoost now"),
                ("stack/engine/polling/a.cc", "enum class Standing : int {",
                 "Standing is called SchedulingBoost now"),
                ("stack/engine/polling/a.cc", "class Activity {",
                 "Activity is called ApplicationActivity now"),
                ("stack/engine/device.cc", "  struct alignas(64) Seat final {",
                 "Seat is called WorkerPort now"),
                ("compat/process/a.cc", "class LivingThreads {",
                 "LivingThreads is called ThreadRegistry now"),
                ("compat/runtime/a.cc", "class World {", "World is called Runtime now"),
                ("cm/connection/a.cc", "class World {", None),
                ("compat/verbs/a.cc", "class [[nodiscard]] Turn {",
                 "Turn is called ScopedWorkerOwnership now"),
                ("tools/common/progress.cc", "using Progress = int;", None),
                ("compat/runtime/a.cc", "class Progress {",
                 "Progress is called ProgressThread now"),
                ("stack/engine/polling/a.cc", "class Progress {",
                 "Progress is called ProgressThread now"),
                ("stack/transport/rc/a.cc", "  struct Progress {", None),
                ("compat/runtime/a.py", "class World:", None)):
            with self.subTest(path=path, line=line):
                self.assertEqual(messages(path, line + "\n"), [why] if why else [])

    def test_former_file_names_are_refused(self):
        for path, why in (
                ("stack/engine/loop/party.cc", "party is called actor now"),
                ("compat/process/farewell_test.cc", "farewell is called disconnect_linger now"),
                ("cm/connection/report.cc", "report is called stats now"),
                ("compat/process/living_threads.cc",
                 "living_threads is called thread_registry now"),
                ("stack/engine/seat.cc", "seat is called worker_port now"),
                ("stack/engine/telemetry_answer.cc",
                 "telemetry_answer is called telemetry_reply now"),
                ("tools/common/report.cc", None),
                ("tools/common/progress.cc", None),
                ("stack/transport/rc/round_trip_for_test.cc",
                 "round_trip is called rtt_estimator now"),
                ("stack/transport/rc/read_gap_tracker.cc", None)):
            with self.subTest(path):
                self.assertEqual(messages(path, "int a;\n"), [why] if why else [])

    def test_product_files_do_not_include_test_headers(self):
        self.assertEqual(messages("stack/io/port/a.cc",
                                  '#include "stack/io/link/eal_for_test.h"\n'),
                         ["stack/io/link/eal_for_test.h is for tests only"])

    def test_the_header_guard_follows_the_path(self):
        good = "// Words.\n#ifndef POLLUX_CM_MAD_H_\n#define POLLUX_CM_MAD_H_\n#endif\n"
        self.assertEqual(messages("cm/mad.h", good), [])
        self.assertEqual(messages("cm/other.h", good),
                         ["the header guard is not POLLUX_CM_OTHER_H_"])
        self.assertEqual(messages("cm/mad.cc", "int i;\n"), [])

    def test_lines_over_100_columns_are_reported(self):
        self.assertEqual(messages("cm/a.cc", "x" * 100), [])
        self.assertEqual(messages("cm/a.cc", "x" * 101), ["101 columns, at most 100"])

    def test_unfinished_marks_local_paths_and_trailing_blanks_are_refused(self):
        self.assertEqual(messages("cm/a.cc", "// TO" "DO: more"), ["a mark of unfinished work"])
        self.assertEqual(messages("cm/a.cc", '"/ho' 'me/me/x"'), ["a path of one machine"])
        self.assertEqual(messages("cm/a.cc", "int i; "), ["blanks at the end of the line"])

    def test_every_source_has_a_test(self):
        paths = ["cm/a.cc", "cm/a_test.cc", "cm/b.cc", "tests/sim/c.cc"]
        self.assertEqual([path for path, _, _ in lint.check_tests(paths, {})], ["cm/b.cc"])
        self.assertEqual(lint.check_tests(paths, {"cm/b.cc": "cm/a_test.cc"}), [])
        gone = lint.check_tests(paths, {"cm/b.cc": "cm/x_test.cc"})
        self.assertEqual([message for _, _, message in gone], ["cm/x_test.cc does not exist"])
        self.assertEqual(len(lint.check_tests(paths, {"cm/a.cc": "cm/a_test.cc",
                                                      "cm/b.cc": "cm/a_test.cc"})), 1)

    def test_new_top_level_entries_are_refused(self):
        self.assertEqual(lint.check_top_level(["README.md", ".ci/run", "cm/a.cc"]), [])
        self.assertEqual(len(lint.check_top_level(["doc/a.md"])), 1)


if __name__ == "__main__":
    unittest.main()
