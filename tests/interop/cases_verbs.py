"""Cases of SEND, WRITE and READ in all sizes, and of their refusals, between a verbs program in the
guest and one on Pollux, both ways, with a model of the expected results."""

import collections

import ibv
from case import NICS, case, need
from peers import REGION, connect, disconnect, pattern, peers

HALF, RECEIVES_AT, GAP = REGION // 2, 64 * 1024, 16
SEED = 7
ACCESS = ibv.LOCAL_WRITE | ibv.REMOTE_WRITE | ibv.REMOTE_READ


class Op:
    """One work request of the active side, and its expected completion status."""

    def __init__(self, name, length, offset=0, imm=0, elements=1, key_xor=0,
                 status=ibv.WC_SUCCESS):
        self.name, self.length, self.offset, self.imm = name, length, offset, imm
        self.elements, self.key_xor, self.status = elements, key_xor, status

    def pieces(self):
        each = self.length // self.elements
        return [each] * (self.elements - 1) + [self.length - each * (self.elements - 1)]


class Model:
    """The expected state after the work requests: the memory of both sides, the place of each work
    request's bytes, and the passive side's receives as (opcode, length, flags, immediate)."""

    def __init__(self, ops, receives):
        self.active = bytearray(pattern(0, HALF, SEED) + bytes(HALF))
        self.passive = bytearray(bytes(HALF) + pattern(HALF, REGION, SEED))
        self.receives = []
        self.places = []
        source, sink, receive, place, failed = 0, HALF, 0, RECEIVES_AT, False
        for op in ops:
            at = sink if op.name == "read" else source
            self.places.append(at)
            where = []
            for piece in op.pieces():
                where.append((at, piece))
                at += piece + GAP
            if op.name == "read":
                sink = at
            else:
                source = at
            failed = failed or op.status != ibv.WC_SUCCESS
            if failed:
                continue  # what follows is flushed
            if op.name == "read":
                data = self.passive[op.offset:op.offset + op.length]
                for begin, piece in where:
                    self.active[begin:begin + piece], data = data[:piece], data[piece:]
                continue
            data = b"".join(self.active[begin:begin + piece] for begin, piece in where)
            if op.name.startswith("write"):
                self.passive[op.offset:op.offset + op.length] = data
            else:
                self.passive[place:place + op.length] = data
            if op.name != "write":
                with_imm = op.name.endswith("imm")
                opcode = ibv.WC_RECV_RDMA_WITH_IMM if op.name.startswith("write") else ibv.WC_RECV
                self.receives.append((opcode, op.length, ibv.WITH_IMM if with_imm else 0,
                                      op.imm if with_imm else 0))
                place += receives[receive]
                receive += 1


def post_receives(passive, lengths):
    place = RECEIVES_AT
    for number, length in enumerate(lengths):
        passive.do("recv", qp=0, wr=number, at=place, len=length)
        place += length


def run_ops(active, ops, model, base, key):
    failed = False
    for number, op in enumerate(ops):
        active.run(status=ibv.WC_FLUSHED if failed else op.status, qp=0, op=op.name, wr=number,
                   at=model.places[number], len=op.length, gap=GAP, imm=op.imm,
                   elements=op.elements if op.length else 0, remote=base + op.offset,
                   rkey=key ^ op.key_xor)
        failed = failed or op.status != ibv.WC_SUCCESS


def check_receives(passive, model):
    for number, wanted in enumerate(model.receives):
        done, = passive.poll()
        found = (done.opcode, done.length, done.flags & ~ibv.WITH_GRH, done.imm)
        need((done.wr, done.status) == (number, ibv.WC_SUCCESS) and found == wanted,
             f"receive {number} completed as {done}: {found}, not {wanted}")


def play(bench, ops, receives=(), passive_access=ACCESS, **param):
    """Runs the work requests in the bench's direction and compares everything with the model."""
    active, passive = peers(bench)
    active.mr(access=ACCESS)
    key = passive.mr(access=passive_access)
    active.do("fill", at=0, len=HALF, seed=SEED)
    passive.do("fill", at=HALF, len=HALF, seed=SEED)
    connect(active, passive, **param)
    post_receives(passive, receives)
    model = Model(ops, receives)
    run_ops(active, ops, model, passive.base, key)
    check_receives(passive, model)
    disconnect(active, passive)
    active.check_memory(0, model.active, "memory")
    passive.check_memory(0, model.passive, "memory")


def define(name, doc, ops, wants, extra=False, **options):
    @case(name, nics=NICS, wants=wants, extra=extra)
    def run(bench):
        play(bench, ops, **options)

    run.__doc__ = doc


def active(*names):
    return [("active", name) for name in names]


LONG, ROUNDS = 100_000, 3  # bytes of a READ that takes long


@case("verbs-flags", nics=NICS, wants=active("RC READ REQUEST", "RC SEND ONLY"))
def verbs_flags(bench):
    """An unsignalled READ, and a SEND of its data, fenced and solicited."""
    one, other = peers(bench)
    one.mr(access=ACCESS)
    key = other.mr(access=ACCESS)
    connect(one, other)
    for number in range(ROUNDS):
        other.do("fill", at=HALF, len=HALF, seed=number)
        other.do("recv", qp=0, wr=number, at=RECEIVES_AT, len=1000)
        # Posts both at once: without the fence the SEND's data would not have arrived yet.
        one.begin("send", qp=0, op="read", at=0, len=LONG, remote=other.base + HALF, rkey=key,
                  flags=0)
        one.begin("send", qp=0, op="send", wr=number, at=LONG - 1000, len=1000,
                  flags=ibv.SEND_FENCE | ibv.SEND_SIGNALED | ibv.SEND_SOLICITED)
        for _ in range(2):
            need(one.answer()[0] == "ok", "a work request was refused")
        done, = one.poll()
        need((done.wr, done.status, done.opcode) == (number, ibv.WC_SUCCESS, ibv.WC_SEND),
             f"the SEND: {done}")
        done, = other.poll()
        need((done.wr, done.status, done.length) == (number, ibv.WC_SUCCESS, 1000),
             f"the receive: {done}")
        other.check_memory(RECEIVES_AT, pattern(HALF + LONG - 1000, HALF + LONG, number),
                           "what was sent")
    one.nothing_comes(0)
    disconnect(one, other)

    def look(evidence):
        solicited = collections.Counter(frame.names[0] for frame in evidence.frames
                                        if frame.solicited and frame.names[0].startswith("RC"))
        need(set(solicited) == {"RC SEND ONLY"} and solicited["RC SEND ONLY"] >= ROUNDS,
             f"solicited are {dict(solicited)}")

    return look


FRAGMENTS = 10_000  # bytes: first, middle and last packets at either path MTU
define("verbs-send", "SEND of zero, one and many packets.",
       [Op("send", 0), Op("send", 1), Op("send", 1021), Op("send", FRAGMENTS)],
       active("RC SEND ONLY", "RC SEND FIRST", "RC SEND MIDDLE", "RC SEND LAST"),
       receives=(16, 16, 1024, FRAGMENTS))
define("verbs-send-imm", "SEND with immediate, of zero, one and many packets.",
       [Op("send_imm", 0, imm=0x01020304), Op("send_imm", 33, imm=0xFFFFFFFF),
        Op("send_imm", FRAGMENTS, imm=0x80000001)],
       active("RC SEND ONLY IMM", "RC SEND LAST IMM"), receives=(16, 64, FRAGMENTS + 5))
define("verbs-write", "RDMA WRITE of zero, one and many packets, at odd addresses.",
       [Op("write", 0, 0), Op("write", 1, 3), Op("write", 1023, 101),
        Op("write", FRAGMENTS + 3, 5001)],
       active("RC WRITE ONLY", "RC WRITE FIRST", "RC WRITE MIDDLE", "RC WRITE LAST"))
define("verbs-write-imm", "RDMA WRITE with immediate: takes a receive, writes elsewhere.",
       [Op("write_imm", 0, 0, imm=7), Op("write_imm", 77, 9, imm=0xABCDEF01),
        Op("write_imm", FRAGMENTS, 1000, imm=0x10000000)],
       active("RC WRITE ONLY IMM", "RC WRITE LAST IMM"), receives=(0, 0, 16))
define("verbs-read", "RDMA READ of zero, one and many packets.",
       [Op("read", 0, HALF), Op("read", 1, HALF + 1), Op("read", 1022, HALF + 333),
        Op("read", FRAGMENTS + 1, HALF + 4097)],
       active("RC READ REQUEST") + [("passive", f"RC READ RESPONSE {kind}")
                                    for kind in ("ONLY", "FIRST", "MIDDLE", "LAST")])
define("verbs-elements", "Several scatter/gather elements in each operation.",
       [Op("send", 5003, elements=4), Op("write", FRAGMENTS, 17, elements=3),
        Op("read", FRAGMENTS - 1, HALF + 9, elements=4), Op("send_imm", 7, imm=1, elements=2)],
       active("RC SEND LAST", "RC WRITE LAST", "RC READ REQUEST", "RC SEND ONLY IMM"),
       receives=(5003, 16))
define("nak-write-beyond-region", "A WRITE that ends past its region.",
       [Op("write", 64, 0), Op("write", 20, REGION - 10, status=ibv.WC_REM_ACCESS_ERR),
        Op("write", 5, 0)],
       [("passive", "NAK ACCESS")])
define("nak-read-beyond-region", "A READ that ends past its region.",
       [Op("read", 64, HALF), Op("read", 20, REGION - 10, status=ibv.WC_REM_ACCESS_ERR)],
       [("passive", "NAK ACCESS")])
define("nak-wrong-key", "A WRITE by a key that names nothing.",
       [Op("write", 8, 0, key_xor=0x5A5A5A00, status=ibv.WC_REM_ACCESS_ERR)],
       [("passive", "NAK ACCESS")])
define("nak-read-not-allowed", "A READ of a region that allows local and remote writing only.",
       [Op("write", 9, 5), Op("read", 8, HALF, status=ibv.WC_REM_ACCESS_ERR)],
       [("passive", "NAK ACCESS")],
       passive_access=ibv.LOCAL_WRITE | ibv.REMOTE_WRITE)
define("nak-write-not-allowed", "A WRITE to a region that allows remote reading only.",
       [Op("read", 9, HALF), Op("write", 8, 0, status=ibv.WC_REM_ACCESS_ERR)],
       [("passive", "NAK ACCESS")],
       passive_access=ibv.LOCAL_WRITE | ibv.REMOTE_READ)
define("rnr-exhausted", "A SEND that finds no receive, until the retries are used up.",
       [Op("send", 4), Op("send", 5, status=ibv.WC_RNR_RETRY_EXC_ERR)],
       [("passive", "RNR NAK")], receives=(16,), rnr=1)
