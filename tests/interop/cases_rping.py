"""rping of rdma-core in the guest with pollux rping, either of them as client."""

from case import BOTH, case, need
from process import CaseFailure

PORT = 7174
CONNECT = [("active", "REQ"), ("passive", "REP"), ("active", "RTU"), ("active", "DREQ"),
           ("passive", "DREP")]
# The server is who reads and writes.
SMALL = CONNECT + [("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY"),
                   ("passive", "RC READ REQUEST"), ("active", "RC READ RESPONSE ONLY"),
                   ("passive", "RC WRITE ONLY"), ("active", "RC ACK")]
LARGE = CONNECT + [("passive", "RC READ REQUEST"), ("active", "RC READ RESPONSE FIRST"),
                   ("active", "RC READ RESPONSE MIDDLE"), ("active", "RC READ RESPONSE LAST"),
                   ("passive", "RC WRITE FIRST"), ("passive", "RC WRITE MIDDLE"),
                   ("passive", "RC WRITE LAST")]
FIRST_LETTER, LAST_LETTER = ord("A"), ord("z")


def expected_text(ping, size):
    """What a client sends, less the final zero: its number, then letters."""
    text = f"rdma-ping-{ping}: "
    span = LAST_LETTER - FIRST_LETTER + 1
    text += "".join(chr(FIRST_LETTER + (ping + i) % span) for i in range(size))
    return text[:size - 1]


def check_lines(whose, text, prefix, count, size):
    """Every ping printed, in order and whole."""
    lines = [line for line in text.splitlines() if line.startswith(prefix)]
    wanted = [f"{prefix}{expected_text(ping, size)}" for ping in range(count)]
    if lines == wanted:
        return
    for number, line in enumerate(wanted):
        if number >= len(lines):
            raise CaseFailure(f"{whose} printed {len(lines)} of {count} pings")
        need(lines[number] == line, f"{whose} printed ping {number} wrong: {lines[number][:60]}")
    raise CaseFailure(f"{whose} printed {len(lines)} pings, not {count}")


def exchange(bench, count, size, arguments=(), server_address=None, guest_address=None):
    """A whole run in the bench's direction; returns what pollux printed as JSON (both its text and
    its counters cannot be had at once, so that text is asked of the guest)."""
    timeout = bench.deadline.seconds
    if bench.to_linux:
        server = bench.guest.begin(
            f"timeout {timeout} rping -s -a {guest_address or bench.guest_address} -p {PORT} "
            f"-S {size} -C {count} -v -V")
        # rping says nothing when it listens.
        bench.guest.run(f"until rdma resource show cm_id | grep -q 'src-addr.*:{PORT}'; do "
                        "sleep 0.05; done", bench.deadline)
        client = bench.pollux("rping", "-c", "-a", guest_address or bench.guest_address, "-p", PORT,
                              "-C", count, "-S", size, "--json", *arguments)
        answer = bench.pollux_json(client)
        output = server.expect(0, bench.deadline)
        check_lines("the guest", output, "server ping data: ", count, size)
    else:
        server = bench.pollux("rping", "-s", "-p", PORT, "--json", *arguments)
        server.wait_for_line("^listening", bench.deadline)
        output = bench.guest.run(
            f"timeout {timeout} rping -c -a {server_address or bench.port.address} -p {PORT} "
            f"-S {size} -C {count} -v -V", bench.deadline)
        check_lines("the guest", output, "ping data: ", count, size)
        answer = bench.pollux_json(server)
    need(answer["ok"] and answer["pings"] == count, f"pollux counted {answer}")
    return answer


def define(name, count, size, wants, **options):
    @case(name, directions=BOTH, wants=wants, **options)
    def run(bench):
        exchange(bench, count, size)

    run.__doc__ = f"{count} pings of {size} bytes."


define("rping-64", 20, 64, SMALL)
define("rping-4096", 10, 4096, SMALL)
define("rping-65536", 10, 65536, LARGE)
define("rping-4097", 5, 4097, CONNECT + [("active", "RC READ RESPONSE FIRST"),
                                         ("active", "RC READ RESPONSE LAST"),
                                         ("passive", "RC WRITE FIRST"),
                                         ("passive", "RC WRITE LAST")], extra=True)
define("rping-1000-pings", 1000, 1000, SMALL, extra=True, deadline_s=240)


@case("rping-text", wants=SMALL)
def rping_text(bench):
    """What pollux rping -v prints is what the guest's prints."""
    count, size = 5, 100
    if bench.to_linux:
        server = bench.guest.begin(f"rping -s -a {bench.guest_address} -p {PORT} -S {size} -v")
        bench.guest.run(f"until rdma resource show cm_id | grep -q 'src-addr.*:{PORT}'; do "
                        "sleep 0.05; done", bench.deadline)
        client = bench.pollux("rping", "-c", "-a", bench.guest_address, "-C", count, "-S", size,
                              "-v")
        client.expect(0, bench.deadline)
        mine, other = client.stdout, server.expect(0, bench.deadline)
    else:
        server = bench.pollux("rping", "-s", "-v")
        server.wait_for_line("^listening", bench.deadline)
        other = bench.guest.run(f"rping -c -a {bench.port.address} -S {size} -C {count} -v",
                                bench.deadline)
        server.expect(0, bench.deadline)
        mine = server.stdout
    check_lines("pollux", mine, "ping data: " if bench.to_linux else "server ping data: ", count,
                size)
    check_lines("the guest", other, "server ping data: " if bench.to_linux else "ping data: ",
                count, size)
