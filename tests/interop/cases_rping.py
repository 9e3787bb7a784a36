"""Cases of rdma-core's rping in the guest with pollux_rping, which does the same by the native
API."""

from case import BOTH, NICS, case, need
from guest import ADDRESS6, VLAN_ADDRESS
from judges import strays
from process import CaseFailure

PORT = 7174
CONNECT = [("active", "REQ"), ("passive", "REP"), ("active", "RTU"), ("active", "DREQ"),
           ("passive", "DREP")]
# The server does the READs and WRITEs.
SMALL = CONNECT + [("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY"),
                   ("passive", "RC READ REQUEST"), ("active", "RC READ RESPONSE ONLY"),
                   ("passive", "RC WRITE ONLY"), ("active", "RC ACK")]
LARGE = CONNECT + [("passive", "RC READ REQUEST"), ("active", "RC READ RESPONSE FIRST"),
                   ("active", "RC READ RESPONSE MIDDLE"), ("active", "RC READ RESPONSE LAST"),
                   ("passive", "RC WRITE FIRST"), ("passive", "RC WRITE MIDDLE"),
                   ("passive", "RC WRITE LAST")]
FIRST_LETTER, LAST_LETTER = ord("A"), ord("z")


def expected_text(ping, size):
    """Returns what a client sends, without the final zero: its number, then letters."""
    text = f"rdma-ping-{ping}: "
    span = LAST_LETTER - FIRST_LETTER + 1
    text += "".join(chr(FIRST_LETTER + (ping + i) % span) for i in range(size))
    return text[:size - 1]


def check_lines(whose, text, prefix, count, size):
    """Checks that every ping is printed, in order and whole."""
    lines = [line for line in text.splitlines() if line.startswith(prefix)]
    wanted = [f"{prefix}{expected_text(ping, size)}" for ping in range(count)]
    if lines == wanted:
        return
    for number, line in enumerate(wanted):
        if number >= len(lines):
            raise CaseFailure(f"{whose} printed {len(lines)} of {count} pings")
        need(lines[number] == line, f"{whose} printed ping {number} wrong: {lines[number][:60]}")
    raise CaseFailure(f"{whose} printed {len(lines)} pings, not {count}")


def guest_rping(bench, arguments):
    """Returns a script that runs rping. The standard error is printed last, so as not to cut
    rping's lines. When rping is done it closes the channel on which its other thread may wait; a
    failure caused by that alone is ignored."""
    return (f"timeout {bench.deadline.seconds} rping -p {PORT} {arguments} 2>/tmp/rping.err; "
            "status=$?; cat /tmp/rping.err; "
            "if [[ $status == 255 && $(grep -v 'DISCONNECT EVENT' /tmp/rping.err) == "
            "'rdma_get_cm_event: Bad file descriptor' ]]; then status=0; fi; exit $status")


def serve_in_guest(bench, arguments):
    server = bench.guest.begin(guest_rping(bench, f"-s {arguments}"))
    bench.guest.wait_for_cm(PORT, bench.deadline)
    return server


def end_of_server(bench, server, count, dreq_may_be_lost):
    """Returns what our server printed. Linux does not repeat a lost DREQ after the program that
    disconnected has exited; the server then detects the end itself, after its last ping: by its
    probes, or, if the acknowledgement of its last SEND was lost too, by its transport retries."""
    if not dreq_may_be_lost or server.wait(bench.deadline) == 0:
        return bench.pollux_json(server)
    answer = bench.pollux_json(server, status=1)
    detected = ("no longer answers", "transport retry counter exceeded")
    need(answer["pings"] == count and any(words in answer["error"] for words in detected),
         f"pollux ended with {answer}")
    return {**answer, "ok": True}


def exchange(bench, count, size, arguments=(), server_address=None, guest_address=None,
             dreq_may_be_lost=False):
    """Runs rping in the bench's direction and returns what pollux printed as JSON. Pollux cannot
    print both its text and its counters, so the text is checked in the guest. `dreq_may_be_lost`:
    the wire may lose the DREQ if the guest sends it."""
    if bench.to_linux:
        address = guest_address or bench.guest_address
        server = serve_in_guest(bench, f"-a {address} -S {size} -v -V")
        client = bench.pollux_rping("-c", "-a", address, "-p", PORT, "-C", count, "-S", size,
                              "--json", *arguments)
        answer = bench.pollux_json(client)
        check_lines("the guest", server.expect(0, bench.deadline), "server ping data: ", count,
                    size)
    else:
        server = bench.pollux_rping("-s", "-p", PORT, "--json", *arguments)
        bench.listening(server)
        output = bench.guest.run(
            guest_rping(bench, f"-c -a {server_address or bench.port.address} -S {size} "
                               f"-C {count} -v -V"), bench.deadline)
        check_lines("the guest", output, "ping data: ", count, size)
        answer = end_of_server(bench, server, count, dreq_may_be_lost)
    need(answer["ok"] and answer["pings"] == count, f"pollux counted {answer}")
    return answer


def define(name, count, size, wants, **options):
    @case(name, directions=BOTH, nics=NICS, wants=wants, **options)
    def run(bench):
        exchange(bench, count, size)

    run.__doc__ = f"{count} pings of {size} bytes."


define("rping-23", 5, 23, SMALL)  # the original's minimum
define("rping-1024", 20, 1024, SMALL)  # one packet at either path MTU
define("rping-4097", 5, 4097, CONNECT + [("active", "RC READ RESPONSE FIRST"),
                                         ("active", "RC READ RESPONSE LAST"),
                                         ("passive", "RC WRITE FIRST"),
                                         ("passive", "RC WRITE LAST")])
define("rping-65535", 10, 65535, LARGE)  # and its maximum
define("rping-path-mtu-4096", 5, 4096, SMALL, ports=("af_packet",))
define("rping-1000-pings", 1000, 1000, SMALL, extra=True, deadline_s=240)


@case("rping-text", wants=SMALL)
def rping_text(bench):
    """pollux_rping -v prints what the guest's rping prints."""
    count, size = 5, 100
    if bench.to_linux:
        server = serve_in_guest(bench, f"-a {bench.guest_address} -S {size} -v")
        client = bench.pollux_rping("-c", "-a", bench.guest_address, "-C", count, "-S", size,
                              "-v")
        client.expect(0, bench.deadline)
        mine, other = client.stdout, server.expect(0, bench.deadline)
    else:
        server = bench.pollux_rping("-s", "-v")
        bench.listening(server)
        other = bench.guest.run(
            guest_rping(bench, f"-c -a {bench.port.address} -S {size} -C {count} -v"),
            bench.deadline)
        server.expect(0, bench.deadline)
        mine = server.stdout
    check_lines("pollux", mine, "ping data: " if bench.to_linux else "server ping data: ", count,
                size)
    check_lines("the guest", other, "server ping data: " if bench.to_linux else "ping data: ",
                count, size)


@case("rping-ipv6", wants=SMALL)
def rping_ipv6(bench):
    """Global IPv6 addresses; neighbours found by neighbour discovery."""
    exchange(bench, 10, 1000, server_address=bench.port.address6, guest_address=ADDRESS6)

    def look(evidence):
        need(not strays(evidence, "ipv6"), "a frame went over IPv4")

    return look


@case("rping-vlan", wants=SMALL)
def rping_vlan(bench):
    """Both sides are in a VLAN: every frame carries its tag."""
    exchange(bench, 10, 1000, server_address=bench.port.vlan_address, guest_address=VLAN_ADDRESS)

    def look(evidence):
        need(not strays(evidence, "vlan"), "a frame has no tag, or another")

    return look
