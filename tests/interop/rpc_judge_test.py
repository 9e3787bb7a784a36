"""Tests that the check of NFS captures finds every error that it looks for."""

import sys
import types
import unittest

sys.path.insert(0, "tests/interop")  # where the cases run, and import from

# pylint: disable=wrong-import-position
import rpc_judge

CLIENT, SERVER = "192.0.2.10", "192.0.2.1"
GETATTR = 1


def call(frame, xid, procedure=GETATTR, qpn="0x11", **chunks):
    values = {"reads": 0, "writes": 0, "reply": 0, **chunks}
    return rpc_judge.Message(frame, CLIENT, qpn, xid, 128, procedure=procedure, **values)


def reply(frame, xid, grant):
    return rpc_judge.Message(frame, SERVER, "0x22", xid, grant, 0, 0, 0, GETATTR)


class RpcJudgeTest(unittest.TestCase):

    def test_calls_within_the_grant_pass(self):
        seen = [call(1, "a"), reply(2, "a", 2), call(3, "b"), call(4, "c"), reply(5, "b", 2),
                call(6, "d")]
        self.assertEqual(rpc_judge.above_grant(seen, CLIENT), [])

    def test_two_calls_before_the_first_grant_fail(self):
        found = rpc_judge.above_grant([call(1, "a"), call(2, "b")], CLIENT)
        self.assertEqual(len(found), 1)
        self.assertIn("frame 2", found[0])

    def test_a_call_above_a_reduced_grant_fails(self):
        seen = [call(1, "a"), reply(2, "a", 3), call(3, "b"), call(4, "c"), reply(5, "b", 1),
                call(6, "d")]
        self.assertIn("frame 6", rpc_judge.above_grant(seen, CLIENT)[0])

    def test_each_connection_has_its_own_grant(self):
        seen = [call(1, "a"), reply(2, "a", 8), call(3, "b", qpn="0x33"), call(4, "c", qpn="0x33")]
        self.assertIn("frame 4", rpc_judge.above_grant(seen, CLIENT)[0])

    def test_an_rnr_nak_of_the_server_fails(self):
        def frame(number, destination, *names):
            return types.SimpleNamespace(number=number, destination=destination, names=names)

        seen = [frame(1, CLIENT, "RC ACK"), frame(2, SERVER, "RC ACK", "RNR NAK"),
                frame(3, CLIENT, "RC ACK", "NAK SEQUENCE")]
        self.assertEqual(rpc_judge.receives_missing(seen, CLIENT), [])
        seen.append(frame(4, CLIENT, "RC ACK", "RNR NAK"))
        self.assertIn("frame 4", rpc_judge.receives_missing(seen, CLIENT)[0])

    def test_only_chunks_of_the_four_eligible_items_pass(self):
        good = [call(1, "a", rpc_judge.WRITE, reads=3), call(2, "b", rpc_judge.READ, writes=1),
                call(3, "c", GETATTR, reply=1)]
        procedures = {message.xid: message.procedure for message in good}
        self.assertEqual(rpc_judge.wrong_chunks(good, procedures), [])
        bad = [call(1, "a", rpc_judge.READ, reads=1), call(2, "b", rpc_judge.WRITE, writes=1)]
        procedures = {message.xid: message.procedure for message in bad}
        self.assertEqual(len(rpc_judge.wrong_chunks(bad, procedures)), 2)


class RecallTest(unittest.TestCase):
    """Tests of wrong_recall(), with rows of CB_FIELDS as tshark prints them."""

    CALL = [SERVER, "0x7", "2", "0", "0", "0", "0", "1073741824", "1", "11,4"]
    REPLY = [CLIENT, "0x7", "2", "0", "0", "0", "1", "1073741824", "1", "11,4"]

    def check(self, *rows):
        return rpc_judge.wrong_recall(rows, SERVER, CLIENT)

    @staticmethod
    def but(row, place, value):
        return [*row[:place], value, *row[place + 1:]]

    def test_an_answered_recall_passes(self):
        forward = [CLIENT, "0x7", "32", "0", "0", "0", "0", "100003", "1", ""]
        nothing = [CLIENT, "0x9", "32", "1", "0", "0", "", "", "", ""]
        self.assertEqual(self.check(forward, nothing, self.CALL, self.REPLY), [])

    def test_an_unanswered_recall_fails(self):
        for rows in ((), (self.CALL,), (self.REPLY, self.CALL),
                     (self.CALL, self.but(self.REPLY, 1, "0x8")),
                     (self.CALL, self.but(self.REPLY, 2, "0")),
                     (self.CALL, self.but(self.REPLY, 9, "11")),
                     (self.but(self.CALL, 0, CLIENT), self.but(self.REPLY, 0, SERVER))):
            self.assertEqual(self.check(*rows), ["no CB_RECALL that was answered"])

    def test_chunks_in_the_reverse_direction_fail(self):
        found = self.check(self.but(self.CALL, 5, "1"), self.REPLY)
        self.assertEqual(found, [f"{SERVER} sends chunks in the reverse direction"])


class NotificationTest(unittest.TestCase):
    """Tests of unanswered_notification(), with rows of NSM_FIELDS as tshark prints them."""

    CALL, REPLY = [CLIENT, "0x7", "0", "6"], [SERVER, "0x7", "1", "6"]

    def test_an_answered_notification_passes(self):
        found = rpc_judge.unanswered_notification([self.CALL, self.CALL, self.REPLY], CLIENT)
        self.assertEqual(found, [])

    def test_without_an_answered_notification_it_fails(self):
        for rows in ((), (self.CALL,), (self.REPLY,), (self.CALL, [SERVER, "0x8", "1", "6"]),
                     ([CLIENT, "0x7", "0", "2"], self.REPLY),
                     ([SERVER, "0x7", "0", "6"], [CLIENT, "0x7", "1", "6"])):
            self.assertEqual(len(rpc_judge.unanswered_notification(rows, CLIENT)), 1, rows)
