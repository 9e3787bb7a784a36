"""Cases of UC and UD queue pairs, connected without the connection manager."""

import ipaddress

import ibv
from case import NICS, TO_LINUX, case, need
from peers import bare, pattern, peers

QKEY, OTHER_QKEY = 0x1234567, 0x7654321
OWN_QKEY = 0x80000000  # in a work request: send the queue pair's own Q_Key (IB C10-15)
SEED = 11
RECEIVES_AT = 65536
GRH = 40
GROUP6, MULTICAST_QPN = "ff1e::1:2:3", 0xFFFFFF


def uc_pair(bench, *pollux_arguments):
    active, passive = peers(bench, *pollux_arguments)
    active.mr()
    active.do("fill", at=0, len=RECEIVES_AT, seed=SEED)
    key = passive.mr()
    bare(active, passive, "uc")
    return active, passive, key


def receive(side, number, size, length):
    side.do("recv", qp=0, wr=number, at=RECEIVES_AT + number * size, len=length)


def check_receive(side, done, number, size, length, imm, opcode=ibv.WC_RECV):
    need((done.wr, done.status, done.opcode, done.length) == (number, 0, opcode, length)
         and (not imm or (done.flags & ibv.WITH_IMM and done.imm == imm)), f"{side}: {done}")
    if opcode == ibv.WC_RECV:
        side.check_memory(RECEIVES_AT + number * size, pattern(0, length, SEED), "the message")


@case("uc-send", nics=NICS, wants=[("active", f"UC SEND {kind}")
                        for kind in ("ONLY", "FIRST", "MIDDLE", "LAST", "ONLY IMM", "LAST IMM")])
def uc_send(bench):
    """SEND of zero, one and many packets, with and without immediate."""
    active, passive, _ = uc_pair(bench)
    for number, (op, length, imm) in enumerate((
            ("send", 0, 0), ("send", 1000, 0), ("send", 10_001, 0), ("send_imm", 7, 0xFEDCBA98),
            ("send_imm", 9_999, 1))):
        receive(passive, number, 12_000, 12_000)
        active.run(qp=0, op=op, at=0, len=length, imm=imm)
        check_receive(passive, passive.poll()[0], number, 12_000, length, imm)


@case("uc-write", nics=NICS, wants=[("active", f"UC WRITE {kind}")
                         for kind in ("ONLY", "FIRST", "MIDDLE", "LAST", "ONLY IMM", "LAST IMM")])
def uc_write(bench):
    """RDMA WRITE of zero, one and many packets, with and without immediate."""
    active, passive, key = uc_pair(bench)
    wanted = bytearray(RECEIVES_AT)
    for number, (op, length, at, imm) in enumerate((
            ("write", 0, 0, 0), ("write", 333, 3, 0), ("write", 10_001, 1001, 0),
            ("write_imm", 5, 20_000, 9), ("write_imm", 9_999, 30_000, 0xFFFFFFFF))):
        receive(passive, number, 16, 16)
        active.run(qp=0, op=op, at=0, len=length, imm=imm, remote=passive.base + at, rkey=key)
        wanted[at:at + length] = pattern(0, length, SEED)
        if imm:
            # WRITEs without immediate have taken no receive.
            check_receive(passive, passive.poll()[0], number - 3, 16, length, imm,
                          ibv.WC_RECV_RDMA_WITH_IMM)
    passive.check_memory(0, wanted, "what was written")


@case("uc-write-refused", wants=[("active", "UC WRITE ONLY")])
def uc_write_refused(bench):
    """A WRITE with a wrong key or past the region: no error is reported, nothing is written."""
    active, passive, key = uc_pair(bench)
    active.run(qp=0, op="write", at=0, len=64, remote=passive.base, rkey=key ^ 0x55AA00)
    active.run(qp=0, op="write", at=0, len=64, remote=passive.base + 256 * 1024 - 1, rkey=key)
    passive.nothing_comes(200)
    passive.check_memory(0, bytes(256 * 1024), "memory")


@case("uc-loss", wants=[("active", "UC SEND FIRST"), ("active", "UC SEND LAST IMM")],
      deadline_s=180)
def uc_loss(bench):
    """With 5 % loss messages arrive whole or not at all, and later ones arrive."""
    count, length = 60, 3000
    active, passive, _ = uc_pair(bench, "--impair", f"loss=0.05,seed={bench.port.number}")
    for number in range(count):
        receive(passive, number, length, length)
    for number in range(count):
        active.run(qp=0, op="send_imm", at=0, len=length, imm=number)
    came = [word for word in passive.do("poll", count=count, ms=3000) if word]
    need(0 < len(came) < count, f"{len(came)} of {count} messages arrived")
    numbers = [int(word.split("/")[5], 16) for word in came]
    need(numbers == sorted(set(numbers)), f"messages arrived twice or out of order: {numbers}")
    need(all(word.split("/")[1] == "0" for word in came), f"{came}")
    for number in range(len(came)):
        passive.check_memory(RECEIVES_AT + number * length, pattern(0, length, SEED),
                             f"message {number}")


def ud_pair(bench, active_qkey=QKEY, ipv6=False):
    """Returns both sides, ready, the active one with an address handle, and the passive side's
    number."""
    active, passive = peers(bench, ipv6=ipv6)
    qpn = 0
    for side in (active, passive):
        side.mr()
        side.do("fill", at=0, len=RECEIVES_AT, seed=SEED)
        qpn = side.do("qp", n=0, type="ud")[0]
        side.do("init", n=0, type="ud", qkey=active_qkey if side is active else QKEY)
        side.do("rtr", n=0, type="ud")
        side.do("rts", n=0, type="ud", psn=0xFFFFFE)
    active.do("ah", n=0, to=passive.address)
    return active, passive, qpn


@case("ud-send", nics=NICS, wants=[("active", "UD SEND ONLY"), ("active", "UD SEND ONLY IMM")])
def ud_send(bench):
    """Datagrams of all sizes that fit, with and without immediate; addresses in the GRH area."""
    active, passive, qpn = ud_pair(bench)
    for number, (op, length, imm) in enumerate((
            ("send", 0, 0), ("send", 1, 0), ("send", 1024, 0), ("send_imm", 5, 0x0BADCAFE),
            ("send_imm", 1023, 2))):
        passive.do("recv", qp=0, wr=number, at=RECEIVES_AT + number * 2048, len=GRH + 1024)
        active.run(qp=0, op=op, at=0, len=length, imm=imm, ah=0, qpn=qpn, qkey=QKEY)
        done, = passive.poll()
        need((done.wr, done.status, done.length) == (number, 0, GRH + length), f"{done}")
        need(done.flags & ibv.WITH_GRH, "no GRH is reported")
        need(done.flags & ibv.WITH_IMM and done.imm == imm or not imm, f"immediate {done.imm:x}")
        at = RECEIVES_AT + number * 2048
        passive.check_memory(at + GRH, pattern(0, length, SEED), f"datagram {number}")
        header = passive.peek(at + 20, 20)
        addresses = [str(ipaddress.ip_address(header[i:i + 4])) for i in (12, 16)]
        need(header[0] == 0x45 and addresses == [active.address, passive.address],
             f"the GRH area holds {header.hex()}")


def receive_datagram(active, passive, number, **to):
    """Sends a datagram from the active side; returns the bytes of its GRH area."""
    length = 500 + number
    passive.do("recv", qp=0, wr=number, at=RECEIVES_AT, len=2048)
    active.run(qp=0, op="send", at=0, len=length, qkey=QKEY, **to)
    done, = passive.poll()
    need((done.wr, done.status, done.length) == (number, 0, GRH + length)
         and done.flags & ibv.WITH_GRH, f"{done}")
    passive.check_memory(RECEIVES_AT + GRH, pattern(0, length, SEED), "the datagram")
    return passive.peek(RECEIVES_AT, GRH)


@case("ud-ipv6", nics=NICS, wants=[("active", "UD SEND ONLY")])
def ud_ipv6(bench):
    """Datagrams over IPv6, to a queue pair and to a group that it has joined (MLD): the GRH area
    holds the IPv6 header."""
    active, passive, qpn = ud_pair(bench, ipv6=True)
    grh = receive_datagram(active, passive, 0, ah=0, qpn=qpn)
    need(ipv6_addresses(grh) == [active.address, passive.address], f"the GRH is {grh.hex()}")
    # Linux's verbs send no MLD report, so `ip` joins the group.
    bench.guest.run(f"ip addr add {GROUP6}/128 dev eth0 autojoin", bench.deadline)
    try:
        passive.do("attach", n=0, group=GROUP6)
        active.do("ah", n=1, to=GROUP6)
        grh = receive_datagram(active, passive, 1, ah=1, qpn=MULTICAST_QPN)
        need(ipv6_addresses(grh) == [active.address, GROUP6], f"the GRH is {grh.hex()}")
        passive.do("detach", n=0, group=GROUP6)
        passive.do("recv", qp=0, wr=2, at=RECEIVES_AT, len=2048)
        active.run(qp=0, op="send", at=0, len=9, ah=1, qpn=MULTICAST_QPN, qkey=QKEY)
        passive.nothing_comes(300)
    finally:
        bench.guest.begin(f"ip addr del {GROUP6}/128 dev eth0")

    def look(evidence):
        groups = [frame.number for frame in evidence.frames
                  if (frame.destination, frame.qpn) == (GROUP6, MULTICAST_QPN)]
        need(len(groups) == 2, f"{len(groups)} datagrams to the group")

    return look


def ipv6_addresses(grh):
    return [str(ipaddress.ip_address(grh[at:at + 16])) for at in (8, 24)]


@case("ud-wrong-qkey", wants=[("active", "UD SEND ONLY")])
def ud_wrong_qkey(bench):
    """A datagram with another Q_Key than the receiver's is dropped."""
    active, passive, qpn = ud_pair(bench)
    for number in range(2):
        passive.do("recv", qp=0, wr=number, at=RECEIVES_AT + 2048 * number, len=2048)
    active.run(qp=0, op="send", at=0, len=10, ah=0, qpn=qpn, qkey=OTHER_QKEY)
    passive.nothing_comes(300)
    active.run(qp=0, op="send", at=0, len=11, ah=0, qpn=qpn, qkey=QKEY)
    done, = passive.poll()
    need((done.wr, done.length) == (0, GRH + 11), f"{done}")

    return lambda evidence: check_qkeys(evidence, qpn, {QKEY, OTHER_QKEY})


def check_qkeys(evidence, qpn, wanted):
    """Checks which Q_Keys the datagrams to a queue pair carry."""
    keys = {int.from_bytes(frame.payload[:4], "big") for frame in evidence.frames
            if "UD SEND ONLY" in frame.names and frame.qpn == int(qpn)}
    need(keys == wanted, f"Q_Keys on the wire: {[hex(key) for key in keys]}")


# Rxe sends the work request's Q_Key, including the high bit.
@case("ud-own-qkey", directions=(TO_LINUX,), wants=[("active", "UD SEND ONLY")])
def ud_own_qkey(bench):
    """A work request's Q_Key has the high bit set: the sending queue pair's own Q_Key is sent."""
    active, passive, qpn = ud_pair(bench)
    for number, given in enumerate((OWN_QKEY, OWN_QKEY | OTHER_QKEY)):
        passive.do("recv", qp=0, wr=number, at=RECEIVES_AT, len=2048)
        active.run(qp=0, op="send", at=0, len=100 + number, ah=0, qpn=qpn, qkey=given)
        done, = passive.poll()
        need((done.wr, done.status, done.length) == (number, 0, GRH + 100 + number), f"{done}")
        passive.check_memory(RECEIVES_AT + GRH, pattern(0, 100 + number, SEED), "the datagram")
    return lambda evidence: check_qkeys(evidence, qpn, {QKEY})


@case("ud-own-qkey-wrong", directions=(TO_LINUX,), wants=[("active", "UD SEND ONLY")])
def ud_own_qkey_wrong(bench):
    """The queue pair's own Q_Key is not the receiver's: the datagram is dropped, although the other
    bits of the work request's Q_Key are the receiver's."""
    active, passive, qpn = ud_pair(bench, active_qkey=OTHER_QKEY)
    passive.do("recv", qp=0, wr=0, at=RECEIVES_AT, len=2048)
    active.run(qp=0, op="send", at=0, len=10, ah=0, qpn=qpn, qkey=OWN_QKEY | QKEY)
    passive.nothing_comes(300)
    active.run(qp=0, op="send", at=0, len=11, ah=0, qpn=qpn, qkey=QKEY)
    done, = passive.poll()
    need((done.wr, done.length) == (0, GRH + 11), f"{done}")
    return lambda evidence: check_qkeys(evidence, qpn, {QKEY, OTHER_QKEY})


@case("ud-too-long", wants=[("active", "UD SEND ONLY")])
def ud_too_long(bench):
    """A datagram longer than its receive is dropped or an error, never written past the end."""
    active, passive, qpn = ud_pair(bench)
    passive.do("recv", qp=0, wr=0, at=RECEIVES_AT, len=GRH + 64)
    active.run(qp=0, op="send", at=0, len=100, ah=0, qpn=qpn, qkey=QKEY)
    came = [word.split("/")[1] for word in passive.do("poll", count=1, ms=300) if word]
    # Rxe has a status of its own for this.
    need(came in ([], [f"{ibv.WC_LOC_LEN_ERR}"]) or bench.to_linux and came != ["0"],
         f"the receive ended with {came}")
    passive.check_memory(RECEIVES_AT + GRH + 64, bytes(64), "what lies behind the receive")
