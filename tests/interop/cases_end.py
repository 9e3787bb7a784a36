"""Connections that are refused, or end badly, and what comes after: the next one stands at once."""

import signal

from case import TO_LINUX, TO_POLLUX, case, need
from cases_rping import exchange, guest_rping, serve_in_guest

FOR_EVER = 1_000_000
SIZE = 20_000
CLOSED_PORT = 7999
MID_TRANSFER = "^ping 20: "
PINGS = 5
AGAIN = [("active", "REQ"), ("passive", "REP"), ("passive", "RC READ REQUEST"),
         ("active", "DREQ")]


def begin_endless(bench):
    """rping under way in the bench's direction: (pollux's process, the guest's script)."""
    if bench.to_linux:
        guest = serve_in_guest(bench, f"-a {bench.guest_address} -S {SIZE}")
        mine = bench.pollux("rping", "-c", "-a", bench.guest_address, "-C", FOR_EVER, "-S", SIZE,
                            "-d")
    else:
        mine = bench.pollux("rping", "-s", "-d")
        bench.listening(mine)
        guest = bench.guest.begin(
            guest_rping(bench, f"-c -a {bench.port.address} -S {SIZE} -C {FOR_EVER}"))
    mine.wait_for_line(MID_TRANSFER, bench.deadline)
    return mine, guest


def two_requests(evidence):
    requests = {frame.payload for frame in evidence.frames if "REQ" in frame.names}
    need(len(requests) >= 2, f"{len(requests)} different REQs, not one for each connection")


@case("kill-pollux", wants=AGAIN, deadline_s=180)
def kill_pollux(bench):
    """SIGKILL of pollux in mid-transfer; another in its place connects at once."""
    mine, guest = begin_endless(bench)
    mine.signal(signal.SIGKILL)
    mine.wait(bench.deadline)
    if bench.to_linux:
        # The old server has the port until its queue pair has given up.
        guest.kill(bench.deadline)
    exchange(bench, PINGS, SIZE)
    return two_requests


@case("kill-guest-program", wants=AGAIN + [("linux", "DREQ"), ("pollux", "DREP")], deadline_s=180)
def kill_guest_program(bench):
    """SIGKILL of the guest's program in mid-transfer: the kernel says DREQ, pollux says so."""
    mine, guest = begin_endless(bench)
    guest.kill(bench.deadline)
    status = mine.wait(bench.deadline)
    # A client that leaves between two pings leaves in good order, as far as its server can tell.
    between = not bench.to_linux and status == 0
    need(between or status == 1 and ("in the midst of ping" in mine.stderr
                                     or "work request failed" in mine.stderr),
         f"pollux ended with {status} and says {mine.stderr[-200:]}")
    exchange(bench, PINGS, SIZE)
    return two_requests


@case("reject-no-listener", wants=[("active", "REQ"), ("passive", "REJ")])
def reject_no_listener(bench):
    """A port where nobody listens: REJ reason 8."""
    if bench.to_linux:
        client = bench.pollux("rping", "-c", "-a", bench.guest_address, "-p", CLOSED_PORT)
        client.expect(1, bench.deadline)
        need("REJ reason 8" in client.stderr, f"pollux says {client.stderr}")
        return
    server = bench.pollux("rping", "-s", "-p", CLOSED_PORT)
    bench.listening(server)
    client = bench.guest.begin(guest_rping(bench, f"-c -a {bench.port.address}"))
    need(client.wait(bench.deadline) != 0, "the guest's rping was content")
    need("RDMA_CM_EVENT_REJECTED, error 8" in client.output, f"the guest says {client.output}")


@case("reject-path-mtu", directions=(TO_POLLUX,), ports=("tap",),
      wants=[("active", "REQ"), ("passive", "REJ")])
def reject_path_mtu(bench):
    """A path MTU of 4096 asked of a port that has 1024: REJ reason 26."""
    bench.guest.run("ip link set eth0 mtu 9000", bench.deadline)
    server = bench.pollux("rping", "-s")
    bench.listening(server)
    client = bench.guest.begin(guest_rping(bench, f"-c -a {bench.port.address}"))
    need(client.wait(bench.deadline) != 0, "the guest's rping was content")
    need("RDMA_CM_EVENT_REJECTED, error 26" in client.output, f"the guest says {client.output}")


@case("path-mtu-1024", directions=(TO_LINUX,), ports=("tap",),
      wants=[("active", "RC READ RESPONSE MIDDLE")])
def path_mtu_1024(bench):
    """A guest that could do 4096 is asked for 1024 by a port that has no more."""
    bench.guest.run("ip link set eth0 mtu 9000", bench.deadline)
    exchange(bench, PINGS, SIZE)

    def look(evidence):
        longest = max(len(frame.payload) for frame in evidence.frames if frame.opcode == 0x0E)
        need(longest == 1024, f"READ responses of {longest} bytes")

    return look
