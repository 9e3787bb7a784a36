"""Cases of rping over a wire that impairs frames: every ping arrives whole, and frames were
impaired.

Frames are impaired by pollux at its port, both ways, or by the guest's kernel (netem), when it
sends.
"""

import re

from case import case, need
from cases_rping import exchange

CONNECT = [("active", "REQ"), ("passive", "REP"), ("active", "RC SEND ONLY")]
SIZE = 65535
# The number of pings for each rate, enough to impair some frames: a ping has some 40 frames at the
# larger path MTU, and four times as many at the smaller. The impairment at the port has a seed.
PINGS = {0.001: 300, 0.01: 25, 0.1: 4}
# netem has none, and impairs only the guest's frames, 20 a ping: none of them is impaired in one
# run of ten million.
GUEST_PINGS = {0.001: 900, 0.01: 80, 0.1: 8}
# Only a READ's responses follow one another closely enough to be reordered, 15 a ping.
REORDERED_PINGS = {0.001: 1200, 0.01: 120, 0.1: 12}
NETEM = {
    "loss": "loss {percent}%",
    "dup": "duplicate {percent}%",
    # Frames that are not selected wait, and the selected ones overtake them.
    "reorder": "delay 2ms reorder {percent}%",
    "corrupt": "corrupt {percent}%",
}
COUNTER_OF = {"loss": "lost", "dup": "duplicated", "reorder": "reordered", "corrupt": "corrupted"}
LOSES_FRAMES = ("loss", "corrupt")
# Impairs only the RoCE packets that the guest sends. It asks only three times for an address, and
# answers only as often for its own: if ARP were impaired, all three frames might be lost.
BY_NETEM = """set -e
modprobe ifb numifbs=0
ip link add ifb0 type ifb
ip link set ifb0 mtu 9000 up
tc qdisc add dev ifb0 root netem limit 10000 {netem}
tc qdisc add dev eth0 clsact
tc filter add dev eth0 egress protocol ip u32 match ip protocol 17 0xff \
  match ip dport 4791 0xffff action mirred egress redirect dev ifb0
"""
# hw_counters of rxe0 that count recoveries, its own and those of its peer.
RECOVERY = ("duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err",
            "retry_exceeded_err")


def rxe_counters(bench):
    text = bench.guest.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *",
                           bench.deadline)
    return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)$", text, re.MULTILINE)}


def recovered(bench, before, answer):
    """Checks, by the counters of either side, that something was sent again."""
    after = rxe_counters(bench)
    rxe = {name: after[name] - before[name] for name in RECOVERY if after[name] != before[name]}
    mine = {name: answer[name] for name in ("retransmitted_packets", "duplicate_request",
                                            "out_of_seq_request", "sent_seq_nak") if answer[name]}
    need(rxe or mine, "neither side's counters show a repeated or missing packet")


def at_port(bench, kind, rate):
    before = rxe_counters(bench)
    answer = exchange(bench, PINGS[rate], SIZE,
                      arguments=("--impair", f"{kind}={rate},seed={bench.port.number}"),
                      dreq_may_be_lost=kind in LOSES_FRAMES)
    for way in ("sent", "received"):
        need(answer["impaired"][way][COUNTER_OF[kind]] > 0, f"no frame {way} was {kind}: {answer}")
    if kind != "dup":
        recovered(bench, before, answer)
    return None


def in_guest(bench, kind, rate):
    before = rxe_counters(bench)
    bench.guest.run(BY_NETEM.format(netem=NETEM[kind].format(percent=rate * 100)), bench.deadline)
    pings = REORDERED_PINGS if kind == "reorder" else GUEST_PINGS
    answer = exchange(bench, pings[rate], SIZE, dreq_may_be_lost=kind in LOSES_FRAMES)
    # Duplicates need no recovery, and neither side counts a repeated response.
    if kind != "dup":
        recovered(bench, before, answer)
    if kind == "loss":
        status = bench.guest.run("tc -s qdisc show dev ifb0", bench.deadline)
        dropped = re.search(r"dropped (\d+)", status)
        need(dropped and int(dropped[1]) > 0, f"netem dropped nothing: {status}")
        return None
    return {"dup": show_duplicates, "reorder": show_overtaking, "corrupt": show_damage}[kind]


def show_duplicates(evidence):
    linux = [(frame.opcode, frame.psn, frame.qpn, frame.payload) for frame in evidence.frames
             if evidence.sender(frame) == "linux"]
    need(any(one == other for one, other in zip(linux, linux[1:])), "no frame came twice")


def show_overtaking(evidence):
    last = {}
    for frame in evidence.frames:
        if evidence.sender(frame) != "linux" or "RC ACK" in frame.names:
            continue
        if frame.qpn in last and (frame.psn - last[frame.qpn]) & 0xFFFFFF >= 1 << 23:
            return
        last[frame.qpn] = frame.psn
    need(False, "no frame overtook another")


def show_damage(evidence):
    need(any(not frame.good_icrc for frame in evidence.frames
             if evidence.sender(frame) == "linux"), "no frame of the guest's was damaged")


def define(place, kind, rate, extra):
    name = f"{'rxe-' if place is in_guest else ''}{kind}-{rate * 100:g}%"

    @case(name, wants=CONNECT, corrupted=kind == "corrupt", extra=extra, deadline_s=240)
    def run(bench):
        return place(bench, kind, rate)

    run.__doc__ = (f"{rate * 100:g} % of frames: {COUNTER_OF[kind]}, "
                   + ("both ways." if place is at_port else "on their way from the guest."))


for one_kind in NETEM:
    for one_rate in PINGS:
        define(at_port, one_kind, one_rate, extra=one_rate != 0.01)
        define(in_guest, one_kind, one_rate,
               extra=one_rate != 0.1 or one_kind not in ("loss", "reorder"))
