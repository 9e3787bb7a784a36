"""pollux run: the pingpongs of libibverbs on both sides, with their check of the data.

UC and UD repeat nothing: over a wire that loses frames a pingpong would wait for ever.
"""

from case import need
from programs import cases_of, places
from process import last_line

PORT = 18515
COUNT, LOSSY_COUNT, BYTES, DATAGRAM_BYTES = 100, 1000, 4096, 1000
LAST_UNACKNOWLEDGED = "transport retry counter exceeded"


def exits_with_zero(place):
    return place.wait() == 0


def both_ended(active, passive, loss):
    """Checks that both sides ended well. A side exits when it has all that it waits for; if its
    last acknowledgement is lost, it can no longer repeat it to the other."""
    good = [exits_with_zero(place) for place in (active, passive)]
    for place, well in zip((active, passive), good):
        excused = loss and any(good) and LAST_UNACKNOWLEDGED in place.output
        need(well or excused, f"{place.name}'s pingpong ended badly: {last_line(place.output)}")
        need("invalid data" not in place.output, f"{place.name} got damaged data")
        need("iters in" in place.output or excused, f"{place.name} says {place.output}")


def define(name, program, doc, wants, *options, size=BYTES, lossy=False, extra=True):
    def run(bench, loss):
        count = LOSSY_COUNT if loss else COUNT
        common = (program, "-c", "-n", count, "-s", size, *options)
        with places(bench, loss) as (active, passive):
            passive.start(*common, "-g", passive.gid_index)
            passive.wait_for_tcp(PORT)
            active.start(*common, "-g", active.gid_index, active.peer_tcp)
            both_ended(active, passive, loss)

    run.__doc__ = doc
    cases_of(name, wants, loss_wants=wants if lossy else None, extra=extra)(run)


def many_packets(transport):
    """Returns the wants for 4096 bytes each way at the programs' path MTU of 1024."""
    return [(side, f"{transport} SEND {part}") for side in ("active", "passive")
            for part in ("FIRST", "MIDDLE", "LAST")]


define("rc_pingpong", "ibv_rc_pingpong", "ibv_rc_pingpong: messages of four packets.",
       many_packets("RC"), lossy=True, extra=False)
define("rc_pingpong-events", "ibv_rc_pingpong", "ibv_rc_pingpong that sleeps between messages.",
       many_packets("RC"), "-e", lossy=True)
define("rc_pingpong-new", "ibv_rc_pingpong",
       "ibv_rc_pingpong by the calls that build requests.", many_packets("RC"), "-N", lossy=True)
define("rc_pingpong-mtu-256", "ibv_rc_pingpong", "ibv_rc_pingpong at the least path MTU.",
       many_packets("RC"), "-m", 256)
define("uc_pingpong", "ibv_uc_pingpong", "ibv_uc_pingpong: messages of four packets.",
       many_packets("UC"))
define("ud_pingpong", "ibv_ud_pingpong", "ibv_ud_pingpong: datagrams both ways.",
       [("active", "UD SEND ONLY"), ("passive", "UD SEND ONLY")], size=DATAGRAM_BYTES)
define("srq_pingpong", "ibv_srq_pingpong",
       "ibv_srq_pingpong: 16 queue pairs on a shared receive queue at each end.",
       many_packets("RC"), lossy=True)
