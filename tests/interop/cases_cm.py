"""ucmatose, udaddy and mckey of rdma-core in the guest with pollux cm and pollux mckey."""

from case import BOTH, case, need

PORTS = {"ucmatose": 7471, "udaddy": 7174}
CONNECT = [("active", "REQ"), ("passive", "REP"), ("active", "RTU"), ("passive", "DREQ"),
           ("active", "DREP")]
# The server sends first, and disconnects.
TALK = CONNECT + [("passive", "RC SEND ONLY"), ("active", "RC SEND ONLY"), ("active", "RC ACK")]
LOOK_UP = [("active", "SIDR_REQ"), ("passive", "SIDR_REP")]
GROUP = "239.1.2.4"
MCAST_MESSAGES, MCAST_BYTES = 20, 700


def limited(bench, command):
    return f"timeout {bench.deadline.seconds} stdbuf -oL {command}"


def converse(bench, connections, messages, size, space=None, tos=None, program="ucmatose"):
    """A whole run in the bench's direction; returns pollux's JSON."""
    common = f"-c {connections} -C {messages} -S {size}"
    mine = ["-c", connections, "-C", messages, "-S", size, "--json"]
    if tos is not None:
        common += f" -t {tos}"
        mine += ["-t", tos]
    if program == "udaddy":
        mine += ["-P", "udp", "-p", PORTS[program]]
    elif space is not None:
        common += f" -P {space}"
        mine += ["-P", space]
    if bench.to_linux:
        server = bench.guest.begin(limited(bench, f"{program} -b {bench.guest_address} {common}"))
        bench.guest.wait_for_cm(PORTS[program], bench.deadline)
        answer = bench.pollux_json(bench.pollux("cm", "-s", bench.guest_address, *mine))
        output = server.expect(0, bench.deadline)
    else:
        server = bench.pollux("cm", *mine)
        bench.listening(server)
        output = bench.guest.run(
            limited(bench, f"{program} -s {bench.port.address} -b {bench.guest_address} {common}"),
            bench.deadline)
        answer = bench.pollux_json(server)
    need("return status 0" in output, f"{program} says {output}")
    total = connections * messages
    need(answer["ok"] and answer["connected"] == connections
         and answer["messages_sent"] == answer["messages_received"] == total,
         f"pollux counted {answer}")
    return answer


def define(name, doc, wants, extra=False, **options):
    @case(name, directions=BOTH, wants=wants, extra=extra)
    def run(bench):
        converse(bench, **options)

    run.__doc__ = doc


define("ucmatose", "Connections, messages both ways, disconnects.", TALK, connections=4,
       messages=10, size=100)
define("udaddy", "Datagrams to queue pairs that SIDR finds, and back.",
       LOOK_UP + [("active", "UD SEND ONLY IMM"), ("passive", "UD SEND ONLY IMM")],
       connections=4, messages=5, size=500, program="udaddy")
define("ucmatose-large", "Messages of many packets.",
       CONNECT + [("passive", "RC SEND FIRST"), ("active", "RC SEND LAST")],
       connections=2, messages=5, size=50_001, extra=True)
define("ucmatose-ib", "Port space RDMA_PS_IB.", TALK, connections=2, messages=3, size=64,
       space="ib", extra=True)
define("ucmatose-empty", "Connections that bear no message.", CONNECT, connections=3, messages=0,
       size=100, extra=True)
define("ucmatose-100", "A hundred connections at once.", TALK, connections=100, messages=2,
       size=64, extra=True)


@case("ucmatose-tos", directions=BOTH, wants=TALK, extra=True)
def ucmatose_tos(bench):
    """A type of service: every data packet of both sides bears it."""
    converse(bench, connections=1, messages=5, size=100, tos=0x28)

    def look(evidence):
        data = [frame for frame in evidence.frames if frame.names[0].startswith("RC ")]
        odd = [frame.number for frame in data if frame.traffic_class & 0xFC != 0x28]
        need(not odd, f"frame {odd[:1]} of {len(data)} has another type of service")

    return look


@case("udaddy-nobody", directions=BOTH, wants=LOOK_UP)
def udaddy_nobody(bench):
    """SIDR finds no service: the client is told, and ends."""
    if bench.to_linux:
        client = bench.pollux("cm", "-s", bench.guest_address, "-P", "udp", "-p", 7999)
        client.expect(1, bench.deadline)
        need("SIDR_REP status 1" in client.stderr, f"pollux says {client.stderr}")
        return
    server = bench.pollux("cm", "-P", "udp", "-p", 7999)
    bench.listening(server)
    client = bench.guest.begin(limited(bench, f"udaddy -s {bench.port.address}"))
    need(client.wait(bench.deadline) != 0, "the guest's udaddy was content")
    need("RDMA_CM_EVENT_UNREACHABLE" in client.output, f"the guest says {client.output}")


@case("mckey", directions=BOTH, wants=[("active", "UD SEND ONLY IMM")])
def mckey(bench):
    """Datagrams to a group that the other side has joined."""
    bench.guest.run("ip route replace 224.0.0.0/4 dev eth0", bench.deadline)
    common = f"-m {GROUP} -C {MCAST_MESSAGES} -S {MCAST_BYTES}"
    theirs = limited(bench, f"mckey -b {bench.guest_address} {common}")
    mine = [*common.split(), "--json"]
    if bench.to_linux:
        receiver = bench.guest.begin(theirs)
        receiver.wait_for_output("receiving data transfers", bench.deadline)
        answer = bench.pollux_json(bench.pollux("mckey", "-s", *mine))
        output = receiver.expect(0, bench.deadline)
        need("data transfers complete" in output, f"the guest's mckey says {output}")
        need(answer["messages_sent"] == MCAST_MESSAGES, f"pollux counted {answer}")
        return
    receiver = bench.pollux("mckey", *mine)
    bench.listening(receiver)
    bench.guest.run(f"{theirs} -s", bench.deadline)
    answer = bench.pollux_json(receiver)
    need(answer["messages_received"] == MCAST_MESSAGES, f"pollux counted {answer}")
