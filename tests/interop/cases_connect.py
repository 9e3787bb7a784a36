"""Cases of connections that are established slowly or not at all, and of the CM messages on the
way."""

from case import TO_LINUX, TO_POLLUX, case, need
from peers import ask, disconnect, establish, listen, peers

DATA = bytes(range(1, 41))
REJ_CONSUMER = 28
REJ, RTU = 0x12, 0x14
# Offsets in an IPv4 packet without options: of the destination queue pair in the BTH, and of the
# attribute of a MAD. Then the filter for the BTH opcode of an RC SEND of one packet.
QPN_AT, ATTRIBUTE_AT = 32, 64
SEND_ONLY = "match u8 0x04 0xff at 28"


def drop_frames(bench, sender, match):
    """Makes the guest's kernel drop the UDP packets of `sender` that match `match` of tc's u32. The
    sender must not be told, since it would try again: hence `trap`, with no program that receives
    them."""
    way = "egress" if sender == "linux" else "ingress"
    bench.guest.run(
        "(tc qdisc show dev eth0 | grep -q clsact || tc qdisc add dev eth0 clsact) && "
        f"tc filter add dev eth0 {way} protocol ip u32 match ip protocol 17 0xff {match} "
        "action trap", bench.deadline)


def drop_mads(bench, sender, attribute):
    """Drops MADs with this attribute; see drop_frames()."""
    drop_frames(bench, sender, f"match u32 1 0xffffff at {QPN_AT} "
                f"match u16 {attribute} 0xffff at {ATTRIBUTE_AT}")


def wait_until_dropped(bench, sender, count):
    way = "egress" if sender == "linux" else "ingress"
    bench.guest.run(
        f"until tc -s filter show dev eth0 {way} | grep -Eq 'bytes ([{count}-9]|[1-9][0-9]+) pkt'; "
        "do sleep 0.1; done", bench.deadline)


def stop_dropping(bench, sender=None):
    """Lets the packets of `sender`, or of both sides, through again."""
    ways = {"linux": "filter del dev eth0 egress", "pollux": "filter del dev eth0 ingress",
            None: "qdisc del dev eth0 clsact"}
    bench.guest.run(f"tc {ways[sender]}", bench.deadline)


def prepared(bench):
    """Returns both programs with registered memory, the passive one listening, and the passive
    side's key."""
    active, passive = peers(bench)
    active.mr()
    key = passive.mr()
    active.do("poke", at=0, data=DATA.hex())
    listen(passive)
    return active, passive, key


def write_and_check(active, passive, key):
    active.run(qp=0, op="write", at=0, len=len(DATA), remote=passive.base + 4096, rkey=key)
    need(passive.peek(4096, len(DATA)) == DATA, "what was written is wrong")


@case("reject-private-data", wants=[("active", "REQ"), ("passive", "REJ")])
def reject_private_data(bench):
    """A program rejects: its private data arrives with reason 28; the next request is accepted."""
    active, passive, key = prepared(bench)
    request = ask(active, passive, number=1, data=DATA[::-1].hex())
    need(request.data.startswith(DATA[::-1]), f"the REQ brings {request.data.hex()}")
    passive.do("reject", id=request.id, data=DATA.hex())
    rejected = active.event("REJECTED")
    need(rejected.status == REJ_CONSUMER and rejected.data.startswith(DATA),
         f"rejected with {rejected.status} and {rejected.data.hex()}")
    request = ask(active, passive)
    established = establish(active, passive, request, data=DATA.hex())
    need(established.data.startswith(DATA), f"the REP brings {established.data.hex()}")
    write_and_check(active, passive, key)
    disconnect(active, passive)


@case("slow-accept", wants=[("active", "REQ"), ("passive", "MRA"), ("passive", "REP")],
      deadline_s=180)
def slow_accept(bench):
    """A program accepts slowly: an MRA answers the repeated REQ, and no third REQ comes."""
    active, passive, key = prepared(bench)
    request = ask(active, passive)
    bench.wait_on_wire(bench.sides[1], "MRA")
    establish(active, passive, request)
    write_and_check(active, passive, key)
    disconnect(active, passive)

    def look(evidence):
        need(evidence.count(bench.sides[0], "REQ") == 2,
             f"{evidence.count(bench.sides[0], 'REQ')} REQs, not 2")

    return look


@case("rtu-lost", directions=(TO_LINUX,), deadline_s=180,
      wants=[("active", "REQ"), ("passive", "REP"), ("active", "RTU")])
def rtu_lost(bench):
    """RTUs are lost: data flows at once, and each repeated REP is answered by another RTU."""
    active, passive, key = prepared(bench)
    request = ask(active, passive)
    drop_mads(bench, "pollux", RTU)
    passive.do("cmqp", n=0, id=request.id)
    passive.do("accept", id=request.id)
    active.event("ESTABLISHED")
    write_and_check(active, passive, key)
    wait_until_dropped(bench, "pollux", 2)
    need(passive.do("event", ms=0) == ["none"], "Linux was told without an RTU")
    stop_dropping(bench)
    passive.event("ESTABLISHED")
    write_and_check(active, passive, key)
    disconnect(active, passive)

    def look(evidence):
        need(evidence.count("linux", "REP") >= 3, "fewer than three REPs")
        need(evidence.count("pollux", "RTU") >= 3, "fewer than three RTUs")

    return look


@case("rtu-lost-data-speaks", directions=(TO_POLLUX,),
      wants=[("active", "REQ"), ("passive", "REP"), ("active", "RC WRITE ONLY")])
def rtu_lost_data_speaks(bench):
    """The RTU is lost: the first message tells the passive side that it is connected."""
    active, passive, key = prepared(bench)
    request = ask(active, passive)
    drop_mads(bench, "linux", RTU)
    passive.do("cmqp", n=0, id=request.id)
    passive.do("accept", id=request.id)
    active.event("ESTABLISHED")
    wait_until_dropped(bench, "linux", 1)
    need(passive.do("event", ms=0) == ["none"], "told before anything came")
    write_and_check(active, passive, key)
    passive.event("ESTABLISHED")
    disconnect(active, passive)

    def look(evidence):
        need(not evidence.count("linux", "RTU"), "an RTU came through")

    return look


@case("rep-without-rtu", wants=[("active", "REQ"), ("passive", "REP")], deadline_s=240, extra=True)
def rep_without_rtu(bench):
    """The active side is killed after its REQ: the REP is repeated, then the passive side is told.
    The next connection works."""
    active, passive, key = prepared(bench)
    request = ask(active, passive)
    # The kernel of a killed program would send a REJ.
    drop_mads(bench, bench.sides[0], REJ)
    active.kill()
    passive.do("cmqp", n=0, id=request.id)
    passive.do("accept", id=request.id)
    passive.event("UNREACHABLE", ms=150_000)
    stop_dropping(bench)
    passive.finish()
    again, passive, key = prepared(bench)
    establish(again, passive, ask(again, passive))
    write_and_check(again, passive, key)
    disconnect(again, passive)
