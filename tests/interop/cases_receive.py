"""Cases of receives that are shared, late, too small or missing, and of peers that are gone."""

import collections
import time

import ibv
from case import NICS, TO_LINUX, TO_POLLUX, case, need
from peers import REGION, bare, connect, disconnect, pattern, peers

SEED = 5
RECEIVES_AT = 65536
RNR_PAUSE_S = 0.5  # while no receive is posted
# 2^17 * 4.096 us = 0.54 s, since a side may not run for 100 ms on a busy machine.
TIMEOUT, RETRIES = 17, 3
PROBES = 10  # the most without progress: kMaxLossyProbes of retransmission_timeout.h
LOSSY_TIMEOUT = 14  # 67 ms
READS, READ_BYTES = 24, 64 * 1024


@case("srq", nics=NICS, deadline_s=180,
      wants=[("active", "RC SEND ONLY"), ("active", "RC SEND LAST"),
             ("active", "RC WRITE ONLY IMM")])
def srq(bench):
    """Two queue pairs share their receives, first come first served; the limit event comes once."""
    active, passive = peers(bench)
    active.mr()
    active.do("fill", at=0, len=RECEIVES_AT, seed=SEED)
    key = passive.mr()
    passive.do("srq", n=0)
    connect(active, passive, count=2, passive_qp={"srq": 0})
    for number in range(6):
        passive.do("recv", srq=0, wr=number, at=RECEIVES_AT + 8192 * number, len=8192)
    passive.do("srqlimit", n=0, limit=3)
    qpns = []
    for number, (qp, op, length) in enumerate((
            (0, "send", 10), (1, "send", 5000), (1, "write_imm", 8), (0, "send", 0),
            (1, "send_imm", 77))):
        active.run(qp=qp, op=op, at=0, len=length, imm=number, remote=passive.base, rkey=key)
        done, = passive.poll()
        need((done.wr, done.status, done.length) == (number, 0, length), f"{done}")
        qpns.append(done.qpn)
        if op != "write_imm":
            passive.check_memory(RECEIVES_AT + 8192 * number, pattern(0, length, SEED),
                                 f"message {number}")
    need(qpns == [qpns[0], qpns[1], qpns[1], qpns[0], qpns[1]] and qpns[0] != qpns[1],
         f"completions name queue pairs {qpns}")
    for ms, wanted in ((5000, "came"), (100, "none")):
        found, = passive.do("async", type=ibv.EVENT_SRQ_LIMIT_REACHED, ms=ms)
        need(found == wanted, f"the limit event: {found}, not {wanted}")
    disconnect(active, passive)


@case("srq-empty", wants=[("active", "RC SEND ONLY"), ("passive", "RNR NAK")])
def srq_empty(bench):
    """An empty shared receive queue: RNR NAKs until there is a receive."""
    send_before_receive(bench, {"srq": 0}, {"srq": 0})


@case("rnr-recovered", nics=NICS, wants=[("active", "RC SEND ONLY"), ("passive", "RNR NAK")])
def rnr_recovered(bench):
    """A SEND waits for its receive; others wait behind it and arrive in order."""
    send_before_receive(bench, None, {"qp": 0})


def send_before_receive(bench, passive_qp, queue):
    active, passive = peers(bench)
    active.mr()
    active.do("fill", at=0, len=4096, seed=SEED)
    passive.mr()
    if passive_qp:
        passive.do("srq", n=0)
    connect(active, passive, passive_qp=passive_qp)
    for number in range(3):
        active.do("send", qp=0, op="send", wr=number, at=0, len=1000 + number)
    time.sleep(RNR_PAUSE_S)
    active.nothing_comes(0)
    for number in range(3):
        passive.do("recv", wr=number, at=RECEIVES_AT + 2048 * number, len=2048, **queue)
    for number, done in enumerate(passive.poll(3)):
        need((done.wr, done.status, done.length) == (number, 0, 1000 + number), f"{done}")
        passive.check_memory(RECEIVES_AT + 2048 * number, pattern(0, 1000 + number, SEED),
                             f"message {number}")
    need([done.wr for done in active.poll(3)] == [0, 1, 2], "completions are out of order")
    disconnect(active, passive)


def too_long(bench, op, **values):
    active, passive = peers(bench)
    active.mr()
    active.do("fill", at=0, len=8192, seed=SEED)
    passive.mr()
    connect(active, passive)
    passive.do("recv", qp=0, wr=0, at=RECEIVES_AT, len=100)
    # Pollux sends the NAK of the specification, rxe another one.
    status = ibv.WC_REM_OP_ERR if bench.to_linux else ibv.WC_REM_INV_REQ_ERR
    active.run(status=status, qp=0, op=op, at=0, **values)
    done, = passive.poll()
    need(done.status != ibv.WC_SUCCESS, f"the receive: {done}")
    need(bench.to_linux or done.status == ibv.WC_LOC_LEN_ERR, f"the receive: {done}")
    passive.check_memory(RECEIVES_AT + 100, bytes(8192), "what lies behind the receive")

    def look(evidence):
        nak = ("linux", "NAK OPERATION") if bench.to_linux else ("pollux", "NAK INVALID")
        need(not evidence.missing([nak]), f"the capture does not show {nak}")

    return look


@case("nak-send-too-long", wants=[("active", "RC SEND ONLY")])
def nak_send_too_long(bench):
    """A SEND larger than its receive: NAK 0x61 from Pollux, 0x63 from Linux."""
    return too_long(bench, "send", len=101)


@case("nak-send-far-too-long", wants=[("active", "RC SEND FIRST")], extra=True)
def nak_send_far_too_long(bench):
    """A SEND of many packets, larger than its receive."""
    return too_long(bench, "send", len=8192)


@case("retry-exhausted", wants=[("active", "RC WRITE ONLY")])
def retry_exhausted(bench):
    """The peer's program is killed: a WRITE is sent again as often as agreed, then fails."""
    active, passive = peers(bench)
    active.mr()
    key = passive.mr()
    bare(active, passive, "rc", timeout=TIMEOUT, retry=RETRIES)
    active.run(qp=0, op="write", at=0, len=4, remote=passive.base, rkey=key)
    passive.kill()
    active.run(status=ibv.WC_RETRY_EXC_ERR, qp=0, op="write", at=0, len=8, remote=passive.base,
               rkey=key)
    active.run(status=ibv.WC_FLUSHED, qp=0, op="write", at=0, len=8, remote=passive.base, rkey=key)
    need(active.do("state", n=0) == [f"{ibv.QPS_ERR}"], "the queue pair is in no error")

    def look(evidence):
        psns = collections.Counter(frame.psn for frame in evidence.frames
                                   if "RC WRITE ONLY" in frame.names)
        sent = max(psns.values(), default=0)
        # Pollux probes between its time-outs.
        most = RETRIES + 1 + (PROBES if bench.to_linux else 0)
        need(RETRIES < sent <= most, f"sent {sent} times, not once and {RETRIES} times again")

    return look


@case("read-partial-retry", wants=[("active", "RC READ REQUEST"),
                                   ("passive", "RC READ RESPONSE MIDDLE")], deadline_s=240)
def read_partial_retry(bench):
    """READs over a wire that loses frames: data that have arrived are not requested again."""
    active, passive = peers(bench, "--impair", f"loss=0.03,seed={bench.port.number}")
    active.mr()
    key = passive.mr()
    passive.do("fill", at=0, len=REGION, seed=SEED)
    bare(active, passive, "rc", timeout=LOSSY_TIMEOUT)
    for number in range(READS):
        at = 4096 * number + number
        active.run(qp=0, op="read", at=0, len=READ_BYTES, remote=passive.base + at, rkey=key)
        active.check_memory(0, pattern(at, at + READ_BYTES, SEED), f"READ {number}")
    return show_partial_retry


def show_partial_retry(evidence):
    """Checks that a READ request repeats a part of an earlier one, at the address that fits its
    PSN."""
    requests = {}
    for frame in evidence.frames:
        if "RC READ REQUEST" in frame.names:
            address = int.from_bytes(frame.payload[:8], "big")
            length = int.from_bytes(frame.payload[12:16], "big")
            requests[frame.psn] = (address, length)
    for psn, (address, length) in requests.items():
        for other, (later, rest) in requests.items():
            ahead = (other - psn) & 0xFFFFFF
            if 0 < ahead < 64 and later > address and later + rest <= address + length:
                need((later - address) % ahead == 0, f"PSN {other:#x} names the wrong address")
                return
    need(False, "every READ that was asked for again was asked for whole")


def mtu_case(name, guest_mtu, path_mtu, doc, extra=False):
    @case(name, directions=(TO_POLLUX,), ports=("af_packet",), extra=extra,
          wants=[("active", "RC SEND MIDDLE"), ("passive", "RC READ RESPONSE MIDDLE")])
    def run(bench):
        bench.guest.run(f"ip link set eth0 mtu {guest_mtu}", bench.deadline)
        active, passive = peers(bench)
        active.mr()
        active.do("fill", at=0, len=20_000, seed=SEED)
        key = passive.mr()
        connect(active, passive)
        passive.do("recv", qp=0, wr=0, at=0, len=20_000)
        active.run(qp=0, op="send", at=0, len=20_000)
        passive.poll()
        active.run(qp=0, op="read", at=65536, len=20_000, remote=passive.base, rkey=key)
        active.check_memory(65536, pattern(0, 20_000, SEED), "what was sent and read back")
        disconnect(active, passive)

        def look(evidence):
            sizes = {len(frame.payload) for frame in evidence.frames
                     if {"RC SEND MIDDLE", "RC READ RESPONSE MIDDLE"} & set(frame.names)}
            need(sizes == {path_mtu}, f"packets of {sizes} bytes")

        return look

    run.__doc__ = doc


mtu_case("path-mtu-guest-1024", 1500, 1024, "A guest that can do less than the port.")
mtu_case("path-mtu-guest-512", 700, 512, "The same, with 512.", extra=True)
mtu_case("path-mtu-guest-256", 400, 256, "The same, with 256.", extra=True)
mtu_case("path-mtu-guest-2048", 3000, 2048, "The same, with 2048.", extra=True)


@case("path-mtu-guest-too-small", directions=(TO_LINUX,), ports=("af_packet",),
      wants=[("active", "RC SEND MIDDLE"), ("passive", "RNR NAK")])
def path_mtu_guest_too_small(bench):
    """The port's path MTU exceeds what the guest can send, which CM cannot express: SENDs arrive,
    but a READ fails, since rxe sends an RNR NAK for a response that it cannot send."""
    bench.guest.run("ip link set eth0 mtu 1500", bench.deadline)
    active, passive = peers(bench)
    active.mr()
    active.do("fill", at=0, len=20_000, seed=SEED)
    key = passive.mr()
    connect(active, passive, rnr=1)
    passive.do("recv", qp=0, wr=0, at=0, len=20_000)
    active.run(qp=0, op="send", at=0, len=20_000)
    passive.poll()
    passive.check_memory(0, pattern(0, 20_000, SEED), "what was sent")
    active.run(status=ibv.WC_RNR_RETRY_EXC_ERR, qp=0, op="read", at=65536, len=20_000,
               remote=passive.base, rkey=key)


@case("path-mtu-each", wants=[("active", "RC WRITE MIDDLE"),
                              ("passive", "RC READ RESPONSE MIDDLE")])
def path_mtu_each(bench):
    """Path MTUs of 256, 512 and 1024, with PSNs that wrap."""
    active, passive = peers(bench)
    active.mr()
    active.do("fill", at=0, len=9_000, seed=SEED)
    key = passive.mr()
    for number, mtu in enumerate((ibv.MTU_256, ibv.MTU_512, ibv.MTU_1024)):
        bare(active, passive, "rc", number=number, mtu=mtu)
        active.run(qp=number, op="write", at=0, len=9_000, remote=passive.base, rkey=key)
        active.run(qp=number, op="read", at=65536, len=9_000, remote=passive.base, rkey=key)
        active.check_memory(65536, pattern(0, 9_000, SEED), "what was written and read back")

    def look(evidence):
        sizes = {len(frame.payload) for frame in evidence.frames
                 if "RC WRITE MIDDLE" in frame.names}
        need(sizes == {256, 512, 1024}, f"packets of {sizes} bytes")

    return look
