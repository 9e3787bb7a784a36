"""pollux run: rdma-core's programs for the connection manager, on Pollux and in the guest.

udaddy and mckey wait for every datagram, so they have no case over a wire that loses frames. Two
programs have no case over IPv6: mckey, since the guest's one sends nothing to IPv6 groups, and
rdma_xserver, which takes no address and listens on IPv4's wildcard address. rping checks what it
receives (-V); the others have no option for that.
"""

import ipaddress

from case import NICS, need
from cases_rping import check_lines
from guest import VLAN
from process import last_line
from programs import LOSS_OF_FEW, cases_of, end_well, places

CONNECT = [("active", "REQ"), ("passive", "REP"), ("active", "RTU")]
RPING_PORT, UDADDY_PORT, OTHERS_PORT = 7174, 7174, 7471
RPING = CONNECT + [("active", "RC SEND ONLY"), ("passive", "RC READ REQUEST"),
                   ("active", "RC READ RESPONSE FIRST"), ("passive", "RC WRITE FIRST"),
                   ("passive", "RC WRITE LAST")]
# The server sends first, and disconnects.
TALK = CONNECT + [("passive", "RC SEND ONLY"), ("active", "RC SEND ONLY"), ("passive", "DREQ")]
LARGE = CONNECT + [("passive", "RC SEND FIRST"), ("active", "RC SEND LAST"), ("passive", "DREQ")]
LOOK_UP = [("active", "SIDR_REQ"), ("passive", "SIDR_REP")]
GROUP = "239.1.2.3"
NETWORKS = ("ipv6", "vlan")
NO_NEIGHBOUR = "rdma_create_ep: Connection timed out"
RUNS_OF_FEW = 10  # over a wire that loses, for a program that exchanges only a dozen frames
MCAST_MESSAGES, MCAST_BYTES = 20, 700
TYPE_OF_SERVICE = 0x28


def rping_ended(place):
    """Returns whether rping succeeded. When rping is done it closes the channel on which its other
    thread may wait; a failure caused by that alone is ignored."""
    status = place.wait()
    odd = [line for line in place.output.splitlines()
           if "ping data: " not in line and "DISCONNECT EVENT" not in line]
    return status == 0 or status == 255 and odd == ["rdma_get_cm_event: Bad file descriptor"]


@cases_of("rping", RPING + [("active", "DREQ"), ("passive", "DREP")], loss_wants=RPING,
          networks=NETWORKS, nics=NICS, extra=False)
def rping(bench, loss):
    """rping: pings of several packets, verified by the client and printed by both."""
    count, size = (60 if loss else 20), 20_000
    common = ("-C", count, "-S", size, "-v", "-V")
    with places(bench, loss) as (active, passive):
        passive.start("rping", "-s", "-a", passive.address, *common)
        passive.wait_for_cm(RPING_PORT)
        active.start("rping", "-c", "-a", active.peer, *common)
        need(rping_ended(active), f"the client says {last_line(active.output)}")
        if loss and not bench.to_linux:
            # The server learns of the end only by a DREQ, which Linux does not repeat for a client
            # that has exited.
            bench.deadline.wait_for("the server's last ping",
                                    lambda: f"rdma-ping-{count - 1}:" in passive.output)
            passive.kill()
        else:
            need(rping_ended(passive), f"the server says {last_line(passive.output)}")
        check_lines("the client", active.output, "ping data: ", count, size)
        check_lines("the server", passive.output, "server ping data: ", count, size)


def exchange(bench, port, server, client, loss=0.0, turn=0):
    """Runs `server(place)` and, when it listens by CM, `client(place)`, until both succeed. Returns
    what they printed, the client's output first."""
    with places(bench, loss, turn) as (active, passive):
        passive.start(*server(passive))
        passive.wait_for_cm(port)
        active.start(*client(active))
        # rdma_create_ep(3) waits two seconds for ARP, which asks once a second. If the answers are
        # lost nothing has begun, and the client can be started again.
        while loss and active.wait() != 0 and NO_NEIGHBOUR in active.output:
            active.start(*client(active))
        end_well(active, passive)
        return active.output, passive.output


def run_both_ends(bench, program, port, *options, loss=0.0, says="data transfers complete"):
    """Runs ucmatose or udaddy with the same options at both ends."""
    for output in exchange(bench, port, lambda place: (program, "-b", place.address, *options),
                           lambda place: (program, "-s", place.peer, *options), loss):
        need(says in output and "return status 0" in output, f"{program} says {output}")


def define_matose(name, doc, *options, wants, look=None, says="data transfers complete", **cases):
    def run(bench, loss):
        run_both_ends(bench, "ucmatose", OTHERS_PORT, *options, loss=loss, says=says)
        return look

    run.__doc__ = doc
    cases_of(name, wants, **cases)(run)


define_matose("ucmatose", "ucmatose: connections, messages both ways, disconnects.", "-c", 4, "-C",
              10, "-S", 100, wants=TALK + [("active", "DREP")], networks=NETWORKS, extra=False)
define_matose("ucmatose-large", "ucmatose: messages of many packets.", "-c", 2, "-C", 40, "-S",
              50_001, wants=LARGE, loss_wants=LARGE)
define_matose("ucmatose-ib", "ucmatose: port space RDMA_PS_IB.", "-c", 2, "-C", 3, "-S", 64, "-P",
              "ib", wants=TALK)
define_matose("ucmatose-empty", "ucmatose: connections that bear no message.", "-c", 3, "-C", 0,
              wants=CONNECT + [("passive", "DREQ"), ("active", "DREP")], says="test complete")
define_matose("ucmatose-100", "ucmatose: a hundred connections at once.", "-c", 100, "-C", 2, "-S",
              64, wants=TALK)


def all_have_the_type_of_service(evidence):
    data = [frame for frame in evidence.frames if frame.names[0].startswith("RC ")]
    odd = [frame.number for frame in data if frame.traffic_class & 0xFC != TYPE_OF_SERVICE]
    need(not odd, f"frame {odd[:1]} of {len(data)} has another type of service")


define_matose("ucmatose-tos", "ucmatose: every data packet of both sides bears its service.", "-C",
              5, "-t", TYPE_OF_SERVICE, wants=TALK, look=all_have_the_type_of_service)


@cases_of("udaddy", LOOK_UP + [("active", "UD SEND ONLY IMM"), ("passive", "UD SEND ONLY IMM")],
          networks=NETWORKS, nics=NICS, extra=False)
def udaddy(bench, loss):
    """udaddy: datagrams to queue pairs that SIDR finds, and back."""
    run_both_ends(bench, "udaddy", UDADDY_PORT, "-c", 4, "-C", 5, "-S", 500, loss=loss)


@cases_of("udaddy-nobody", LOOK_UP, extra=False)
def udaddy_nobody(bench, loss):
    """udaddy: SIDR finds no service; the client is told, and ends."""
    with places(bench, loss) as (active, passive):
        passive.start("ucmatose", "-b", passive.address)  # of another port space
        passive.wait_for_cm(OTHERS_PORT)
        active.start("udaddy", "-s", active.peer)
        need(active.wait() != 0 and "RDMA_CM_EVENT_UNREACHABLE" in active.output,
             f"the client says {active.output}")
        passive.kill()


@cases_of("cmtime", CONNECT + [("active", "DREQ"), ("passive", "DREP")], loss_wants=CONNECT,
          networks=NETWORKS)
def cmtime(bench, loss):
    """cmtime: connections one after the other, and many at once."""
    count = 100
    with places(bench, loss) as (active, passive):
        # The server never ends by itself.
        passive.start("cmtime", "-b", passive.address)
        passive.wait_for_cm(OTHERS_PORT)
        active.start("cmtime", "-s", active.peer, "-c", count)
        end_well(active)
        passive.kill()

    def look(evidence):
        for sender, name in zip(bench.sides, ("REQ", "REP")):
            need(evidence.count(sender, name) >= count,
                 f"{evidence.count(sender, name)} {name} of {sender}, not {count}")

    return look


def exchange_few(bench, server, client, loss):
    """Runs exchange() of endpoints, which print their status at the end; several times over a wire
    that loses frames."""
    for turn in range(RUNS_OF_FEW if loss else 1):
        for output in exchange(bench, OTHERS_PORT, server, client, loss, turn):
            need("end 0" in output, f"it says {output}")


@cases_of("rdma_server", CONNECT + [("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY")],
          loss_wants=CONNECT, loss=LOSS_OF_FEW, networks=NETWORKS, extra=False)
def rdma_server(bench, loss):
    """rdma_client and rdma_server: an endpoint, a message each way."""
    exchange_few(bench, lambda place: ("rdma_server", "-s", place.address),
                 lambda place: ("rdma_client", "-s", place.peer), loss)


@cases_of("rdma_xserver", CONNECT + [("active", "RC SEND ONLY")], loss_wants=CONNECT,
          loss=LOSS_OF_FEW, networks=("vlan",))
def rdma_xserver(bench, loss):
    """rdma_xclient and rdma_xserver: an endpoint with a shared receive queue, over RC."""
    exchange_few(bench, lambda place: ("rdma_xserver", "-c", "r"),
                 lambda place: ("rdma_xclient", "-s", place.peer, "-c", "r"), loss)


@cases_of("mckey", [("active", "UD SEND ONLY IMM")], networks=("vlan",), nics=NICS, extra=False)
def mckey(bench, loss):
    """mckey: datagrams to a group that the other side has joined."""
    interface = f"eth0.{VLAN}" if bench.network == "vlan" else "eth0"
    bench.guest.run(f"ip route replace 224.0.0.0/4 dev {interface}", bench.deadline)
    with places(bench, loss) as (active, passive):
        def join(place, *role):
            place.start("mckey", "-b", place.address, "-m", GROUP, "-C", MCAST_MESSAGES, "-S",
                        MCAST_BYTES, *role)

        join(passive)
        passive.wait_for_output("receiving data transfers")
        join(active, "-s")
        end_well(active, passive)
        need("data transfers complete" in passive.output, f"mckey says {passive.output}")

    def look(evidence):
        frames = [frame for frame in evidence.frames if "UD SEND ONLY IMM" in frame.names]
        need(len(frames) == MCAST_MESSAGES
             and all((ipaddress.ip_address(frame.destination), frame.qpn)
                     == (ipaddress.ip_address(GROUP), 0xFFFFFF) for frame in frames),
             f"{len(frames)} datagrams, or some that were not to the group")
        members = {sender for sender, joined in evidence.memberships() if joined == GROUP}
        need(members == {"pollux", "linux"} or bench.network != "ipv4",
             f"IGMP reports of {members}")

    return look
