"""Tests malformed RPC-over-RDMA messages on connections that the server has accepted."""

import struct

from tests.hostile.victim import OnTwoCores, Victim, only

STAT, READ, CREATE, WRITE, LIST = 1, 2, 3, 4, 5
MSG, NOMSG, MSGP, DONE, ERROR = 0, 1, 2, 3, 4
GIB4 = 0xFFFFFFFF


def words(*values):
    return struct.pack(f"!{len(values)}I", *(value & 0xFFFFFFFF for value in values))


def segment(length, handle=0x1234, offset=0x10000):
    return words(handle, length) + struct.pack("!Q", offset)


def read_list(*segments):
    """Returns a Read list of (position, segment) pairs."""
    return b"".join(words(1, position) + one for position, one in segments) + words(0)


def array(*segments, count=None):
    return words(len(segments) if count is None else count) + b"".join(segments)


def header(xid, reads=words(0), writes=words(0), reply=words(0), kind=MSG, version=1, credits=32):
    return words(xid, version, credits, kind) + reads + writes + reply


def opaque(data, length=None):
    return words(len(data) if length is None else length) + data + bytes(-len(data) % 4)


class HostileRpcTest(Victim):
    # The program that the cases call, and the authentication of the caller.
    program, version = 0x20504C58, 1
    credential = words(0, 0)

    def setUp(self):
        super().setUp()
        self.connection = None
        self.xid = 0

    # ---- Calls of the program. Procedure 0 has no arguments.

    def call(self, xid, procedure=0, arguments=b"", **changes):
        """Returns an RPC call. `changes`: kind, rpc_version, program, version, credential,
        verifier."""
        return (words(xid, changes.get("kind", 0), changes.get("rpc_version", 2),
                      changes.get("program", self.program), changes.get("version", self.version),
                      procedure)
                + changes.get("credential", self.credential)
                + changes.get("verifier", words(0, 0)) + arguments)

    def stat(self, xid):
        return self.call(xid, STAT, opaque(b"there"))

    def read(self, xid, size):
        return self.call(xid, READ, opaque(b"there") + words(0, 0, size))

    def write(self, xid, size):
        """Returns a call that ends before the data, which are in a chunk."""
        return self.call(xid, WRITE, opaque(b"new") + words(0, 0, size))

    def write_of_chunk(self, size):
        """Returns a message that writes `size` bytes of the caller's memory."""
        message = self.write(self.next_xid(), size)
        return header(self.xid, reads=read_list((len(message), segment(size)))) + message

    def list(self, xid):
        return self.call(xid, LIST, opaque(b""))

    def invalid_arguments(self):
        """Yields pairs of a procedure and arguments."""
        for procedure in (STAT, READ, CREATE, WRITE, LIST):
            for arguments in (b"", words(GIB4), words(1 << 31), opaque(b"a" * 900),
                              opaque(b"../../etc/passwd") + words(0, 0, 10),
                              opaque(b"/etc/passwd") + words(0, 0, 10),
                              opaque(b"there\0x") + words(0, 0, 10), opaque(b"\xff" * 50),
                              opaque(b"there", length=4) + words(GIB4, GIB4, GIB4),
                              opaque(b"there") + words(GIB4, GIB4, GIB4),
                              opaque(b"there") + words(0, 0, 1 << 31)):
                yield procedure, arguments

    def next_xid(self):
        self.xid += 1
        return self.xid

    def say(self, message):
        """Sends a message on the present connection, or on a new one if that has ended. Returns
        what came back: a message, a NAK or the end of the connection; None after TIMEOUT_S."""
        if self.connection is None:
            self.connection = self.hostile.connect(self.service_port)
        self.connection.send(message)
        while (heard := self.connection.next(self.TIMEOUT_S)) is not None:
            if heard[0] == "ack":
                if heard[1] >= 0x60:  # a NAK that ends the connection
                    break
                continue
            if heard[0] == "end":
                break
            return heard
        self.connection = None
        return heard

    # How long to wait for a reply to a message that may be dropped silently. No case depends on the
    # value.
    TIMEOUT_S = 0.1

    def say_all(self, messages):
        for message in messages:
            self.say(message)
        # A connection that has received them serves the next call. If it has ended, a new one does.
        xid = self.next_xid()
        heard = self.say(header(xid) + self.call(xid))
        if heard is None or heard[0] != "message":
            heard = self.hostile.connect(self.service_port).ask(header(xid) + self.call(xid))
        self.assertEqual(heard[0], "message")
        self.assertEqual(heard[1][:4], words(xid))
        self.check_service()

    def test_service_survives_truncated_and_unknown_headers(self):
        xid = self.next_xid()
        whole = header(xid) + self.call(xid)
        self.say_all([whole[:length] for length in range(0, len(whole), 3)]
                     + [header(self.next_xid(), version=version) + self.call(xid)
                        for version in (0, 2, GIB4)]
                     + [header(self.next_xid(), kind=kind) + self.call(xid)
                        for kind in (MSGP, DONE, ERROR, 5, GIB4)]
                     + [header(self.next_xid(), credits=credits) + self.call(self.xid)
                        for credits in (0, 1, GIB4)])

    def test_service_survives_malformed_chunk_lists(self):
        def of(**lists):
            return header(self.next_xid(), **lists) + self.read(self.xid, 100)

        self.say_all([
            # Lists without an end, or with counts beyond the message.
            of(reads=words(1)), of(reads=words(2, 0)), of(reads=words(GIB4)),
            of(writes=words(1) + array(count=GIB4)), of(writes=words(1) + array(count=1)),
            of(writes=words(1) + array(count=0) + words(0)), of(writes=words(7)),
            of(reply=words(1) + array(count=GIB4)), of(reply=words(1) + array(count=0)),
            of(reply=words(1) + array(count=1)), of(reply=words(5)),
            of(reads=read_list(*[(0, segment(1))] * 40)),
            of(writes=words(1) + array(*[segment(1)] * 50) + words(0)),
            of(writes=(words(1) + array(segment(100))) * 30 + words(0)),
            # Positions that are outside the message, unaligned, out of order, or near 4 GiB.
            *(of(reads=read_list((position, segment(8))))
              for position in (0, 1, 2, 3, 4, 44, 1 << 16, 1 << 31, GIB4 - 3, GIB4)),
            of(reads=read_list((64, segment(8)), (60, segment(8)))),
            # Lengths whose sum is 4 GiB or more.
            of(reads=read_list((44, segment(GIB4)), (44, segment(GIB4)))),
            of(reads=read_list((GIB4 - 3, segment(GIB4)), (GIB4 - 3, segment(8)))),
            of(reads=read_list((0, segment(0)), (0, segment(0)))),
            of(writes=words(1) + array(segment(GIB4), segment(GIB4)) + words(0)),
            of(reply=words(1) + array(segment(GIB4), segment(GIB4), segment(GIB4))),
            of(writes=words(1) + array(segment(0)) + words(0)),
            # Addresses that wrap.
            of(reads=read_list((44, segment(GIB4, offset=(1 << 64) - 1)))),
            of(writes=words(1) + array(segment(100, offset=(1 << 64) - 1)) + words(0)),
            # A call both after the header and in its chunk, or in neither.
            header(self.next_xid(), reads=read_list((0, segment(0))), kind=NOMSG)
            + self.stat(self.xid),
            header(self.next_xid(), kind=NOMSG),
            header(self.next_xid(), kind=NOMSG) + self.call(self.xid),
            header(self.next_xid(), reads=read_list((4, segment(8))), kind=NOMSG),
            header(self.next_xid(), reads=read_list((0, segment(GIB4))), kind=NOMSG),
            header(self.next_xid(), reads=read_list((0, segment(40))), kind=NOMSG),
        ])

    def test_keys_the_server_may_not_use_end_only_the_connection(self):
        """Checks that a refused READ or WRITE ends its connection, and no other."""
        for message in (
                lambda: header(self.next_xid(), reads=read_list((0, segment(40))), kind=NOMSG),
                lambda: self.write_of_chunk(1 << 20),
                lambda: header(self.next_xid(), writes=words(1) + array(segment(1 << 20))
                               + words(0)) + self.read(self.xid, 1 << 17),
                lambda: header(self.next_xid(), reply=words(1) + array(segment(1 << 20)))
                + self.list(self.xid)):
            self.say_all([message() for _ in range(5)])

    def test_service_survives_malformed_calls(self):
        def of(*arguments, **changes):
            xid = self.next_xid()
            return header(xid) + self.call(xid, *arguments, **changes)

        self.say_all([
            of(kind=1), of(kind=2), of(rpc_version=1), of(rpc_version=GIB4),
            of(program=0), of(program=100003), of(version=0), of(version=GIB4), of(6), of(GIB4),
            of(credential=words(1, GIB4)), of(credential=words(6, 400) + bytes(400)),
            of(credential=words(0, 401) + bytes(404)), of(verifier=words(0, GIB4)),
            of(verifier=words(GIB4, 3) + bytes(4)),
            *(of(*pair) for pair in self.invalid_arguments()),
        ])

    def test_service_survives_mutated_valid_messages(self):
        random = self.hostile.random
        good = [header(1) + self.call(1), header(2) + self.stat(2), self.write_of_chunk(64),
                header(4, writes=words(1) + array(segment(64), segment(64)) + words(0),
                       reply=words(1) + array(segment(64))) + self.read(4, 128)]
        self.TIMEOUT_S = 0.02
        messages = []
        for _ in range(300):
            changed = bytearray(random.choice(good))
            for _ in range(random.randrange(1, 5)):
                at = random.randrange(len(changed) // 4) * 4
                changed[at:at + 4] = random.choice([
                    random.randbytes(4), words(0), words(1), words(GIB4), words(1 << 31)])
            if random.random() < 0.2:
                del changed[random.randrange(len(changed)):]
            messages.append(bytes(changed))
        self.say_all(messages)

    def test_service_survives_oversized_and_misordered_messages(self):
        """Sends messages larger than the receives, messages without an end, and packets in the
        wrong order."""
        for opcodes in ((0, 1, 1, 1, 1, 1, 1, 1, 2), (0,), (1,), (2,), (0, 0), (0, 2, 1)):
            connection = self.hostile.connect(self.service_port)
            for opcode in opcodes:
                connection.send_raw(opcode, bytes(1024), ack=True)
        self.check_service()

    def test_service_survives_more_calls_than_credits(self):
        connection = self.hostile.connect(self.service_port)

        def burst():
            for _ in range(20):
                xid = self.next_xid()
                connection.send(header(xid, credits=GIB4) + self.stat(xid))

        self.check_service_during(burst)

    def test_service_survives_unacknowledged_replies(self):
        """Sends calls continuously from a host that acknowledges nothing."""
        connections = [self.hostile.connect(self.service_port) for _ in range(5)]

        def burst():
            for connection in connections:
                for _ in range(8):
                    xid = self.next_xid()
                    connection.send(header(xid) + self.list(xid))
            self.to_server.receive()

        for _ in range(5):
            self.check_service_during(burst)


@only("service_survives_malformed_chunk_lists", "service_survives_mutated_valid_messages")
class HostileRpcOnTwoCoresTest(OnTwoCores, HostileRpcTest):
    pass
