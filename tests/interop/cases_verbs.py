"""Every operation and refusal between a verbs program in the guest and one on Pollux, both ways.
Both run the same script (peer/script.h); here is the model of what must come of it."""

import ibv
from case import case, need
from process import CaseFailure

REGION, HALF, RECEIVES_AT, GAP = 256 * 1024, 128 * 1024, 64 * 1024, 16
PORT = 7175
FNV_BASIS, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def pattern(begin, end):
    return bytes((i * 31 + (i >> 8) * 13 + 7) & 0xFF for i in range(begin, end))


def digest(memory):
    value = FNV_BASIS
    for byte in memory:
        value = (value ^ byte) * FNV_PRIME & MASK
    return f"{value:016x}"


class Op:
    """One work request of the active side, and the status that it must complete with."""

    def __init__(self, name, length, offset=0, imm=0, elements=1, key_xor=0,
                 status=ibv.WC_SUCCESS):
        self.name, self.length, self.offset, self.imm = name, length, offset, imm
        self.elements, self.key_xor, self.status = elements, key_xor, status

    def argument(self):
        return f"{self.name}:{self.length}:{self.offset}:{self.imm:x}:{self.elements}:" \
               f"{self.key_xor:x}"

    def pieces(self):
        each = self.length // self.elements
        return [each] * (self.elements - 1) + [self.length - each * (self.elements - 1)]


class Model:
    """Memory of both sides and the passive side's completions, after the script."""

    def __init__(self, ops, receives):
        self.active = bytearray(pattern(0, HALF) + bytes(HALF))
        self.passive = bytearray(bytes(HALF) + pattern(HALF, REGION))
        self.lines = []
        source, sink, receive, place = 0, HALF, 0, RECEIVES_AT
        for op in ops:
            at = sink if op.name == "read" else source
            where = []
            for piece in op.pieces():
                where.append((at, piece))
                at += piece + GAP
            if op.name == "read":
                sink = at
            else:
                source = at
            if op.status != ibv.WC_SUCCESS:
                break  # and what follows is flushed
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
                imm = f"imm {op.imm:08x}" if op.name.endswith("imm") else "- 00000000"
                self.lines.append(f"receive {receive} 0 {op.length} {imm}")
                place += receives[receive]
                receive += 1


def check_output(whose, text, wanted):
    lines = [line for line in text.splitlines() if not line.startswith("listening")]
    for line, expected in zip(lines + ["(nothing)"] * len(wanted), wanted):
        if line != expected:
            raise CaseFailure(f"{whose} says '{line}', not '{expected}'")
    need(len(lines) == len(wanted), f"{whose} says '{lines[-1]}' too")


def play(bench, ops, receives=(), passive_receive_lines=(), active_arguments=(),
         passive_arguments=()):
    """Runs the script in the bench's direction and compares everything with the model."""
    passive = ["--service-port", str(PORT), *passive_arguments]
    for length in receives:
        passive += ["--receive", str(length)]
    active = ["--service-port", str(PORT), *active_arguments]
    for op in ops:
        active += ["--op", op.argument()]
    limit = bench.deadline.seconds
    if bench.to_linux:
        server = bench.guest.begin(f"timeout {limit} stdbuf -oL /host/peer {' '.join(passive)}")
        server.wait_for_output("listening", bench.deadline)
        client = bench.pollux_peer("--connect", bench.guest_address, *active)
        client.expect(0, bench.deadline)
        active_text, passive_text = client.stdout, server.expect(0, bench.deadline)
    else:
        server = bench.pollux_peer(*passive)
        bench.listening(server)
        active_text = bench.guest.run(
            f"timeout {limit} /host/peer --connect {bench.port.address} {' '.join(active)}",
            bench.deadline)
        server.expect(0, bench.deadline)
        passive_text = server.stdout
    model = Model(ops, receives)
    statuses, failed = [], False
    for number, op in enumerate(ops):
        statuses.append(f"op {number} {op.name} {ibv.WC_FLUSHED if failed else op.status}")
        failed = failed or op.status != ibv.WC_SUCCESS
    check_output("the active side", active_text,
                 statuses + [f"memory {digest(model.active)}"])
    # The order of the end and the completions is each program's own.
    ended = [line for line in passive_text.splitlines() if line.startswith("ended")]
    need(ended == ["ended RDMA_CM_EVENT_DISCONNECTED"], f"the passive side says {ended}")
    check_output("the passive side",
                 "\n".join(line for line in passive_text.splitlines() if line not in ended),
                 model.lines + list(passive_receive_lines) + [f"memory {digest(model.passive)}"])


def define(name, doc, ops, wants, extra=False, **options):
    @case(name, wants=wants, extra=extra)
    def run(bench):
        play(bench, ops, **options)

    run.__doc__ = doc


def active(*names):
    return [("active", name) for name in names]


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
       passive_arguments=("--access", str(ibv.LOCAL_WRITE | ibv.REMOTE_WRITE)))
define("nak-write-not-allowed", "A WRITE to a region that allows remote reading only.",
       [Op("read", 9, HALF), Op("write", 8, 0, status=ibv.WC_REM_ACCESS_ERR)],
       [("passive", "NAK ACCESS")],
       passive_arguments=("--access", str(ibv.LOCAL_WRITE | ibv.REMOTE_READ)))
define("rnr-exhausted", "A SEND that finds no receive, until the retries are used up.",
       [Op("send", 4), Op("send", 5, status=ibv.WC_RNR_RETRY_EXC_ERR)],
       [("passive", "RNR NAK")], receives=(16,),
       # Each side says how often the other may try again.
       active_arguments=("--rnr-retry", "1"), passive_arguments=("--rnr-retry", "1"))
