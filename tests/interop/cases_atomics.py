"""Cases of compare-and-swap and fetch-and-add, alone and by many queue pairs on one word."""

import collections

import ibv
from case import NICS, case, need
from peers import bare, connect, disconnect, peers

TIMEOUT = 14  # 67 ms
WORD, RESULTS, LAST_WORD = 4096, 8192, 256 * 1024 - 8
ATOMICS = [("active", "RC FETCH_ADD"), ("active", "RC CMP_SWAP"), ("passive", "RC ATOMIC ACK")]


def two_sides(bench, *pollux_arguments, count=1, access=ibv.EVERY_ACCESS):
    """Returns both sides, connected and with all their memory registered, and the passive side's
    key."""
    active, passive = peers(bench, *pollux_arguments)
    active.mr()
    key = passive.mr(access=access)
    connect(active, passive, count)
    return active, passive, key


def atomic(active, passive, key, op, at=WORD, status=ibv.WC_SUCCESS, **values):
    """Runs an atomic operation and returns the old value of the word."""
    active.run(status=status, qp=0, op=op, at=RESULTS, len=8, remote=passive.base + at, rkey=key,
               **values)
    return active.word(RESULTS)


@case("atomics", nics=NICS, wants=ATOMICS)
def atomics(bench):
    """Each atomic returns the old value, and changes it or not."""
    active, passive, key = two_sides(bench)
    passive.do("poke", at=WORD, data="f0ffffffffffffff")  # all but 15 of 2^64
    for op, values, before, after in (
            ("fadd", {"add": 5}, -16, -11), ("fadd", {"add": 12}, -11, 1),
            ("fadd", {"add": 0}, 1, 1),
            ("cas", {"compare": 1, "swap": 0x1122334455667788}, 1, 0x1122334455667788),
            ("cas", {"compare": 2, "swap": 3}, 0x1122334455667788, 0x1122334455667788),
            ("fadd", {"add": (1 << 64) - 1}, 0x1122334455667788, 0x1122334455667787)):
        found = atomic(active, passive, key, op, **values)
        need(found == before % (1 << 64), f"{op} {values} found {found:x}, not {before:x}")
        found = passive.word(WORD)
        need(found == after % (1 << 64), f"{op} {values} left {found:x}, not {after:x}")
    need(atomic(active, passive, key, "fadd", at=LAST_WORD, add=1) == 0, "the last word")
    disconnect(active, passive)


def increments(active, passive, key, qps, count, depth):
    """Increments the word by both operations on all queue pairs. Checks that each value is found
    once."""
    for op, more in (("fadd", {"add": 1, "depth": depth}), ("cas", {})):
        before = passive.word(WORD)
        active.do("burst", op=op, qp=0, qps=qps, count=count, at=RESULTS,
                  remote=passive.base + WORD, rkey=key, **more)
        if op == "fadd":
            size = 8 * qps * count
            found = b"".join(active.peek(RESULTS + at, 512) for at in range(0, size, 512))
            values = [int.from_bytes(found[i:i + 8], "little") for i in range(0, size, 8)]
            need(sorted(values) == list(range(before, before + qps * count)),
                 "a value was found twice, or never")
            for i in range(qps):
                mine = values[i * count:(i + 1) * count]
                need(mine == sorted(mine), f"queue pair {i} found values out of order")
        need(passive.word(WORD) == before + qps * count,
             f"{op}: the word is {passive.word(WORD)}, not {before + qps * count}")


@case("atomics-contended", nics=NICS, wants=ATOMICS, deadline_s=180)
def atomics_contended(bench):
    """Four queue pairs increment one word: no increment is lost, and none is done twice."""
    active, passive, key = two_sides(bench, count=4)
    increments(active, passive, key, qps=4, count=32, depth=4)
    disconnect(active, passive)


@case("atomics-both-ways", extra=True, deadline_s=180,
      wants=ATOMICS + [("passive", "RC FETCH_ADD"), ("active", "RC ATOMIC ACK")])
def atomics_both_ways(bench):
    """Each side increments the other's word at the same time, on the same queue pairs."""
    active, passive, key = two_sides(bench, count=4)
    own_key = active.mr(n=1)
    for side, far, its in ((active, passive, key), (passive, active, own_key)):
        side.begin("burst", op="fadd", qp=0, qps=4, count=64, depth=4, add=1, at=RESULTS,
                   remote=far.base + WORD, rkey=its)
    for side in (active, passive):
        need(side.answer() == ["ok", "256"], f"{side} failed")
    for side in (active, passive):
        need(side.word(WORD) == 256, f"{side}'s word is {side.word(WORD)}")
    atomic(active, passive, key, "cas", compare=256, swap=1)
    disconnect(active, passive)


def repeated(evidence):
    """Returns how many fetch-and-adds and answers were repeated."""
    seen = collections.Counter((evidence.sender(frame), frame.qpn, frame.psn)
                               for frame in evidence.frames if "RC FETCH_ADD" in frame.names
                               or "RC ATOMIC ACK" in frame.names)
    return sum(count - 1 for count in seen.values())


@case("atomics-loss", wants=ATOMICS, deadline_s=240)
def atomics_loss(bench):
    """Four queue pairs increment one word with 10 % loss each way: still exactly once."""
    active, passive = peers(bench, "--impair", f"loss=0.1,seed={bench.port.number}")
    active.mr()
    key = passive.mr()
    for number in range(4):
        bare(active, passive, "rc", number=number, timeout=TIMEOUT)
    increments(active, passive, key, qps=4, count=32, depth=4)

    def look(evidence):
        need(repeated(evidence) > 0, "no atomic was sent or answered twice")

    return look


@case("atomic-misaligned", wants=[("active", "RC FETCH_ADD")])
def atomic_misaligned(bench):
    """An atomic on a misaligned word is refused when it is posted; the queue pair keeps working."""
    active, passive, key = two_sides(bench)
    active.begin("send", qp=0, op="fadd", at=RESULTS, len=8, remote=passive.base + WORD + 4,
                 rkey=key, add=1)
    words = active.answer()
    need(words == ["error", "Invalid", "argument"], f"{' '.join(words)}")
    need(atomic(active, passive, key, "fadd", add=1) == 0, "the word has changed")
    disconnect(active, passive)


def define_refused(name, doc, nak, status, op="fadd", at=WORD, access=ibv.EVERY_ACCESS):
    @case(name, wants=[("passive", nak)])
    def run(bench):
        active, passive, key = two_sides(bench, access=access)
        atomic(active, passive, key, op, at=at, status=status, add=1)
        need(passive.word(WORD) == 0, "the word has changed")
        need(active.do("state", n=0) == [f"{ibv.QPS_ERR}"], "the queue pair is in no error")

    run.__doc__ = doc


define_refused("nak-atomic-not-allowed", "An atomic on a region that allows all but that.",
               "NAK ACCESS", ibv.WC_REM_ACCESS_ERR, op="cas",
               access=ibv.LOCAL_WRITE | ibv.REMOTE_WRITE | ibv.REMOTE_READ)
define_refused("nak-atomic-beyond-region", "An atomic on the word behind the region.",
               "NAK ACCESS", ibv.WC_REM_ACCESS_ERR, at=LAST_WORD + 8)
