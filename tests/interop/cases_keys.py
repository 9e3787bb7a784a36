"""Cases of access by keys: memory windows, invalidation, protection domains, deregistration."""

import ibv
from case import BOTH, NICS, TO_POLLUX, case, need
from peers import LinuxPeer, bare, connect, disconnect, pattern, peers

AT, LENGTH = 32768, 8192  # of the window
ACCESS = ibv.REMOTE_WRITE | ibv.REMOTE_READ | ibv.REMOTE_ATOMIC
SEED = 3
REFUSED = [("passive", "NAK ACCESS")]


def with_window(bench, access=ACCESS, count=1):
    """Returns both sides, connected, and the key of the passive side's window of type 2 for queue
    pair 0."""
    active, passive = peers(bench)
    active.mr()
    active.do("fill", at=0, len=LENGTH, seed=SEED)
    passive.mr(access=ibv.EVERY_ACCESS)
    passive.do("mw", n=0)
    connect(active, passive, count)
    return active, passive, bind(passive, access)


def bind(passive, access=ACCESS):
    key, = passive.do("send", qp=0, op="bind", window=0, mr=0, at=AT, len=LENGTH, access=access)
    done, = passive.poll()
    need(done.status == ibv.WC_SUCCESS, f"binding: {done}")
    return int(key)


def write(active, passive, key, offset=0, length=LENGTH, status=ibv.WC_SUCCESS, qp=0):
    active.run(status=status, qp=qp, op="write", at=0, len=length,
               remote=passive.base + AT + offset, rkey=key)


def check_written(passive, length=LENGTH):
    passive.check_memory(AT, pattern(0, length, SEED), "what the window covers")


def refuse(name, doc, directions=BOTH, wants=REFUSED, **options):
    """Registers a case in which the last access is refused."""
    def register(function):
        def run(bench):
            active, passive, key = with_window(bench, **options)
            function(active, passive, key)
            passive.check_memory(AT + LENGTH, bytes(64), "what lies behind the window")

        run.__doc__ = doc
        case(name, directions=directions, wants=wants)(run)
        return function

    return register


@case("window", nics=NICS, wants=[("active", "RC WRITE LAST"), ("active", "RC READ REQUEST"),
                       ("active", "RC FETCH_ADD")])
def window(bench):
    """WRITE, READ and fetch-and-add through a window of type 2."""
    active, passive, key = with_window(bench)
    write(active, passive, key)
    check_written(passive)
    active.run(qp=0, op="read", at=65536, len=LENGTH, remote=passive.base + AT, rkey=key)
    active.check_memory(65536, pattern(0, LENGTH, SEED), "what was read")
    active.run(qp=0, op="fadd", at=0, len=8, add=1, remote=passive.base + AT, rkey=key)
    need(passive.word(AT) == int.from_bytes(pattern(0, 8, SEED), "little") + 1, "the word is wrong")
    disconnect(active, passive)


# Rxe checks only the bounds of the region.
@refuse("nak-window-bounds", "A WRITE that leaves the window, though not its region.",
        directions=(TO_POLLUX,))
def nak_window_bounds(active, passive, key):
    write(active, passive, key, offset=1, status=ibv.WC_REM_ACCESS_ERR)


@refuse("nak-window-not-allowed", "A WRITE through a window for reading.",
        access=ibv.REMOTE_READ, wants=REFUSED + [("active", "RC READ REQUEST")])
def nak_window_not_allowed(active, passive, key):
    active.run(qp=0, op="read", at=65536, len=64, remote=passive.base + AT, rkey=key)
    write(active, passive, key, status=ibv.WC_REM_ACCESS_ERR)
    passive.check_memory(AT, bytes(LENGTH), "what the window covers")


@refuse("nak-window-other-qp", "A WRITE through a window by another queue pair than its own.",
        count=2)
def nak_window_other_qp(active, passive, key):
    write(active, passive, key)
    write(active, passive, key, qp=1, length=8, status=ibv.WC_REM_ACCESS_ERR)


@refuse("nak-window-rebound", "A WRITE by the key that a window had before it was bound again.")
def nak_window_rebound(active, passive, key):
    passive.run(qp=0, op="local_inv", inv=key)
    again = bind(passive)
    need(again != key, "the key stayed the same")
    write(active, passive, again)
    check_written(passive)
    write(active, passive, key, status=ibv.WC_REM_ACCESS_ERR)


@refuse("local-invalidate", "The passive side takes its window back.")
def local_invalidate(active, passive, key):
    write(active, passive, key)
    passive.run(qp=0, op="local_inv", inv=key)
    write(active, passive, key, length=1, status=ibv.WC_REM_ACCESS_ERR)
    check_written(passive)


def invalidate_by_send(active, passive, key, length):
    passive.do("recv", qp=0, wr=9, at=100_000, len=20_000)
    active.run(qp=0, op="send_inv", at=0, len=length, inv=key)
    done, = passive.poll()
    need((done.wr, done.status, done.length) == (9, ibv.WC_SUCCESS, length), f"{done}")
    # Rxe reports the kernel's flag, which means something else in libibverbs.
    need(done.flags & ibv.KERNEL_WITH_INV if isinstance(passive, LinuxPeer)
         else done.flags & ibv.WITH_INV and done.imm == key,
         f"flags {done.flags:x}, key {done.imm:x}, not {key:x}")
    passive.check_memory(100_000, pattern(0, length, SEED), "the message")


@refuse("send-invalidate", "SEND with invalidate takes the window away, small and large.",
        wants=REFUSED + [("active", "RC SEND ONLY INV"), ("active", "RC SEND LAST INV")])
def send_invalidate(active, passive, key):
    invalidate_by_send(active, passive, key, 100)
    key = bind(passive)
    write(active, passive, key)
    invalidate_by_send(active, passive, key, LENGTH)
    write(active, passive, key, length=1, status=ibv.WC_REM_ACCESS_ERR)
    check_written(passive)


@case("nak-deregistered", wants=REFUSED)
def nak_deregistered(bench):
    """A WRITE with the key of a deregistered region."""
    active, passive = peers(bench)
    active.mr()
    key = passive.mr(access=ibv.EVERY_ACCESS)
    connect(active, passive)
    write(active, passive, key)
    passive.do("dereg", n=0)
    write(active, passive, key, status=ibv.WC_REM_ACCESS_ERR)


@case("nak-other-domain", wants=REFUSED)
def nak_other_domain(bench):
    """A READ with the key of a region of another protection domain."""
    active, passive = peers(bench)
    active.mr()
    key = passive.mr(access=ibv.EVERY_ACCESS, pd=1)
    connect(active, passive)
    active.run(status=ibv.WC_REM_ACCESS_ERR, qp=0, op="read", at=0, len=64,
               remote=passive.base, rkey=key)
    active.check_memory(0, bytes(64), "what should have been read")


@case("nak-qp-not-allowed", wants=[("passive", "NAK INVALID"), ("active", "RC WRITE ONLY"),
                                   ("active", "RC READ REQUEST"), ("active", "RC FETCH_ADD")])
def nak_qp_not_allowed(bench):
    """WRITE, READ and fetch-and-add to queue pairs that allow none, on a region that allows all."""
    active, passive = peers(bench)
    active.mr()
    key = passive.mr(access=ibv.EVERY_ACCESS)
    operations = ("write", "read", "fadd")
    for number, op in enumerate(operations):
        bare(active, passive, "rc", number=number, access=ibv.LOCAL_WRITE)
        active.run(status=ibv.WC_REM_INV_REQ_ERR, qp=number, op=op, at=0, len=8,
                   remote=passive.base + AT, rkey=key, add=1)
        need(active.do("state", n=number) == [f"{ibv.QPS_ERR}"], "the queue pair is in no error")
    passive.check_memory(AT, bytes(8), "what was not to be reached")

    def look(evidence):
        count = evidence.count(bench.sides[1], "NAK INVALID")
        need(count >= len(operations), f"{count} NAKs")

    return look


@case("zero-length-any-key", wants=[("active", "RC WRITE ONLY"), ("active", "RC READ REQUEST")])
def zero_length_any_key(bench):
    """WRITE and READ of zero bytes: neither the key nor the address is checked (IB C9-88).

    But if a READ arrives a second time, rxe (Linux 6.1) looks up its key even for zero bytes. If
    there is no such key, it goes to ERR and sends a NAK with a PSN that is already answered. A
    guest that answers late receives the READ twice, so a READ to the guest has a key that exists.
    """
    active, passive = peers(bench)
    active.mr()
    key = passive.mr(access=ibv.EVERY_ACCESS)
    connect(active, passive)
    active.run(qp=0, op="write", remote=12345, rkey=0xDEADBEEF)
    active.run(qp=0, op="read", remote=12345, rkey=key if bench.to_linux else 0xDEADBEEF)
    passive.do("recv", qp=0, wr=1, at=0, len=4)
    active.run(qp=0, op="write_imm", remote=54321, rkey=0xDEADBEEF, imm=77)
    done, = passive.poll()
    need((done.length, done.imm, done.flags & ibv.WITH_IMM) == (0, 77, ibv.WITH_IMM), f"{done}")
    disconnect(active, passive)
