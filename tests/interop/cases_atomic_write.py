"""Cases of ATOMIC WRITE, which Linux has since 6.2."""

import ibv
from case import case, need
from peers import bare, peers
from process import CaseSkipped

WORD = 4096
ATOMIC_WRITE = [("active", "RC ATOMIC WRITE")]


def two_sides(bench, access=ibv.EVERY_ACCESS):
    """Returns both sides, connected, and the passive side's key."""
    release = bench.guest.run("uname -r", bench.deadline).split(".")
    if (int(release[0]), int(release[1])) < (6, 2):
        raise CaseSkipped("Linux has ATOMIC WRITE since 6.2: --guest trixie")
    active, passive = peers(bench)
    active.mr()
    key = passive.mr(access=access)
    bare(active, passive, "rc", ops={"atomic_write": 1})
    return active, passive, key


@case("atomic-write", wants=ATOMIC_WRITE + [("passive", "RC READ RESPONSE ONLY")])
def atomic_write(bench):
    """Each ATOMIC WRITE replaces eight bytes, in order."""
    active, passive, key = two_sides(bench)
    for number in range(1, 33):
        data = f"{number:02x}" * 8
        active.do("poke", at=0, data=data)
        active.run(qp=0, op="atomic_write", at=0, len=8, remote=passive.base + WORD, rkey=key)
        found = passive.word(WORD)
        need(found == int(data, 16), f"ATOMIC WRITE {number} left {found:x}")
    active.run(qp=0, op="read", at=64, len=8, remote=passive.base + WORD, rkey=key)
    need(active.word(64) == passive.word(WORD), "a READ brought something else")


@case("nak-atomic-write-not-allowed", extra=True,
      wants=ATOMIC_WRITE + [("passive", "NAK ACCESS")])
def nak_atomic_write_not_allowed(bench):
    """An ATOMIC WRITE to a region that allows only READs and atomics."""
    active, passive, key = two_sides(
        bench, access=ibv.LOCAL_WRITE | ibv.REMOTE_READ | ibv.REMOTE_ATOMIC)
    active.do("poke", at=0, data="11" * 8)
    active.run(status=ibv.WC_REM_ACCESS_ERR, qp=0, op="atomic_write", at=0, len=8,
               remote=passive.base + WORD, rkey=key)
    need(passive.word(WORD) == 0, "it was executed")
