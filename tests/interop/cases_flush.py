"""Cases of FLUSH, which Linux has since 6.2.

rxe of Linux 6.12 computes the ICRC of a FLUSH over the masked headers and then over BTH, FETH and
RETH once more (its table of opcodes has no offset of the payload), so each side drops the other's.
"""

import ibv
from case import case, need
from peers import bare, peers
from process import CaseSkipped

AT = 4096
TIMEOUT = 14  # 67 ms
GLOBAL, PERSISTENT, WHOLE_REGION = 1, 2, 16  # for imm=
FLUSH = [("active", "RC FLUSH")]
ANSWERED = FLUSH + [("passive", "RC READ RESPONSE ONLY")]


def two_sides(bench, *pollux_arguments, access=ibv.EVERY_ACCESS | ibv.FLUSH_GLOBAL, **values):
    """Returns both sides, connected, and the passive side's key. The queue pair allows every
    FLUSH. `values`: of the queue pairs."""
    release = bench.guest.run("uname -r", bench.deadline).split(".")
    if (int(release[0]), int(release[1])) <= (6, 12):
        raise CaseSkipped("rxe has FLUSH since Linux 6.2, but up to 6.12 with a wrong ICRC")
    active, passive = peers(bench, *pollux_arguments)
    active.mr()
    key = passive.mr(access=access)
    bare(active, passive, "rc", access=ibv.EVERY_REMOTE | ibv.FLUSH_GLOBAL | ibv.FLUSH_PERSISTENT,
         ops={"flush": 1}, **values)
    return active, passive, key


@case("flush", wants=ANSWERED)
def flush(bench):
    """FLUSHes of a range and of the whole region, each after an RDMA WRITE."""
    active, passive, key = two_sides(bench)
    for number in range(1, 33):
        data = f"{number:02x}" * 8
        active.do("poke", at=0, data=data)
        active.do("send", qp=0, op="write", at=0, len=8, remote=passive.base + AT, rkey=key)
        active.do("send", qp=0, op="flush", len=8, remote=passive.base + AT, rkey=key,
                  imm=GLOBAL | (WHOLE_REGION if number % 2 == 0 else 0))
        done = active.poll(2)
        need(all(one.status == ibv.WC_SUCCESS for one in done), f"{done[0]}; {done[1]}")
        found = passive.word(AT)
        need(found == int(data, 16), f"after FLUSH {number} there was {found:x}")


@case("flush-many", wants=ANSWERED)
def flush_many(bench):
    """More FLUSHes at once than the passive side has resources for READs: rxe does not count
    them."""
    active, passive, key = two_sides(bench)
    active.do("burst", op="flush", qp=0, count=256, depth=32, at=0, remote=passive.base + AT,
              rkey=key, imm=GLOBAL)


@case("flush-loss", wants=ANSWERED, deadline_s=240)
def flush_loss(bench):
    """FLUSHes with 10 % loss each way, each before an RDMA WRITE, whose ACK acknowledges it: rxe
    does not answer a repeated FLUSH."""
    active, passive, key = two_sides(bench, "--impair", f"loss=0.1,seed={bench.port.number}",
                                     timeout=TIMEOUT)
    for number in range(1, 65):
        active.do("send", qp=0, op="flush", len=8, remote=passive.base + AT, rkey=key, imm=GLOBAL)
        active.do("send", qp=0, op="write", at=0, len=8, remote=passive.base + AT, rkey=key)
        done = active.poll(2)
        need(all(one.status == ibv.WC_SUCCESS for one in done),
             f"FLUSH {number}: {done[0]}; {done[1]}")

    def look(evidence):
        need(evidence.repeats(), "nothing was sent twice")

    return look


@case("nak-flush-not-allowed", extra=True, wants=FLUSH + [("passive", "NAK ACCESS")])
def nak_flush_not_allowed(bench):
    """A FLUSH of a region that allows everything else."""
    active, passive, key = two_sides(bench, access=ibv.EVERY_ACCESS)
    active.run(status=ibv.WC_REM_ACCESS_ERR, qp=0, op="flush", len=8, remote=passive.base + AT,
               rkey=key, imm=GLOBAL)


@case("nak-flush-persistent", extra=True, wants=FLUSH + [("passive", "NAK ACCESS")])
def nak_flush_persistent(bench):
    """Neither side has persistent memory: no region is registered as such, and none is flushed as
    such."""
    active, passive, key = two_sides(bench)
    for side in (active, passive):
        side.begin("mr", n=1, access=ibv.EVERY_ACCESS | ibv.FLUSH_PERSISTENT)
        words = side.answer()
        need(words[0] == "error", f"{side} has registered persistent memory")
    active.run(status=ibv.WC_REM_ACCESS_ERR, qp=0, op="flush", len=8, remote=passive.base + AT,
               rkey=key, imm=PERSISTENT)
