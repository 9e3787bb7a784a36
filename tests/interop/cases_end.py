"""Cases of connections that are refused or end badly, and of the next one, which works at once."""

import signal

import ibv
from case import NICS, TO_LINUX, TO_POLLUX, case, need
from cases_rping import exchange, guest_rping, serve_in_guest
from peers import LinuxPeer, ask, connect, establish, listen, peers, request

FOR_EVER = 1_000_000
SIZE = 20_000
CLOSED_PORT = 7999
MID_TRANSFER = "^ping 20: "
PINGS = 5
REJ_STALE = 10
WRITES, WRITE_BYTES = 4, 20_000
AGAIN = [("active", "REQ"), ("passive", "REP"), ("passive", "RC READ REQUEST"),
         ("active", "DREQ")]


def start_endless_rping(bench):
    """Starts rping in the bench's direction and waits until it transfers data. Returns (pollux's
    process, the guest's script)."""
    if bench.to_linux:
        guest = serve_in_guest(bench, f"-a {bench.guest_address} -S {SIZE}")
        mine = bench.pollux_rping("-c", "-a", bench.guest_address, "-C", FOR_EVER, "-S", SIZE,
                            "-d")
    else:
        mine = bench.pollux_rping("-s", "-d")
        bench.listening(mine)
        guest = bench.guest.begin(
            guest_rping(bench, f"-c -a {bench.port.address} -S {SIZE} -C {FOR_EVER}"))
    mine.wait_for_line(MID_TRANSFER, bench.deadline)
    return mine, guest


def two_requests(evidence):
    requests = {frame.payload for frame in evidence.frames if "REQ" in frame.names}
    need(len(requests) >= 2, f"{len(requests)} different REQs, not one for each connection")


@case("kill-pollux", nics=NICS, wants=AGAIN, deadline_s=180)
def kill_pollux(bench):
    """Pollux is killed in mid-transfer; another one in its place connects at once."""
    mine, guest = start_endless_rping(bench)
    mine.signal(signal.SIGKILL)
    mine.wait(bench.deadline)
    if bench.to_linux:
        # The old server keeps the port until its queue pair has used up its retries.
        guest.kill(bench.deadline)
        bench.guest.wait_for_no_cm(bench.deadline)
    exchange(bench, PINGS, SIZE)
    return two_requests


@case("kill-guest-program", wants=AGAIN + [("linux", "DREQ"), ("pollux", "DREP")], deadline_s=180)
def kill_guest_program(bench):
    """The guest's program is killed in mid-transfer: its kernel sends a DREQ, pollux reports it."""
    mine, guest = start_endless_rping(bench)
    guest.kill(bench.deadline)
    status = mine.wait(bench.deadline)
    # To its server, a client that is killed between two pings seems to end in good order.
    between = not bench.to_linux and status == 0
    need(between or status == 1 and ("in the midst of ping" in mine.stderr
                                     or "work request failed" in mine.stderr),
         f"pollux ended with {status} and says {mine.stderr[-200:]}")
    bench.guest.wait_for_no_cm(bench.deadline)
    exchange(bench, PINGS, SIZE)
    return two_requests


def power_off_in_transfer(bench, active, passive, key):
    """Cuts the guest's power while requests of the active side are in flight."""
    write = {"qp": 0, "op": "write", "at": 0, "len": WRITE_BYTES, "remote": passive.base,
             "rkey": key}
    active.run(**write)
    if bench.to_linux:
        bench.guest.qemu.signal(signal.SIGSTOP)
        for number in range(WRITES):
            active.do("send", wr=number, **write)
    else:
        # More requests than the guest completes before it is killed.
        active.begin("burst", op="fadd", qp=0, count=10_000, depth=16, add=1, at=0,
                     remote=passive.base, rkey=key)
        bench.wait_on_wire("linux", "RC FETCH_ADD", 20)
    bench.guest.qemu.signal(signal.SIGKILL)
    bench.guest.qemu.wait(bench.deadline)
    if bench.to_linux:
        statuses = [done.status for done in active.poll(WRITES, ms=120_000)]
        need(statuses == [ibv.WC_RETRY_EXC_ERR] + [ibv.WC_FLUSHED] * (WRITES - 1),
             f"the WRITEs ended with {statuses}")


@case("kill-guest", wants=[("active", "REQ"), ("passive", "REP"), ("active", "RC WRITE LAST"),
                           ("pollux", "DREQ"), ("linux", "DREP")], deadline_s=300)
def kill_guest(bench):
    """The guest's power fails in mid-transfer: pollux's own requests fail. After the guest has
    booted again the next connection works, and the old one is ended."""
    active, passive = peers(bench)
    active.mr()
    key = passive.mr()
    mine = active if bench.to_linux else passive
    old = connect(active, passive, retry=1)[0]
    power_off_in_transfer(bench, active, passive, key)
    bench.peers[1].gone = True
    bench.guest.start(bench.port.mtu)
    guest = LinuxPeer(bench)
    if bench.to_linux:
        passive = guest
        key = passive.mr()
        listen(passive)
    else:
        active = guest
        active.mr()
    number, over = reconnect(active, passive)
    active.run(qp=number, op="write", at=0, len=WRITE_BYTES, remote=passive.base, rkey=key)
    if not over:
        # The new kernel does not know the old connection.
        mine.do("disconnect", id=0 if bench.to_linux else old)
        mine.event("DISCONNECTED")
    return two_requests


def reconnect(active, passive):
    """Connects again. Returns the number of the active side's queue pair, and whether that ended
    the old connection. A guest may use the old queue pair's number again: then the old connection
    is stale and ends, and the next request is accepted."""
    request(active, passive, number=2)
    found = passive.event("CONNECT_REQUEST", "DISCONNECTED")
    if found.name == "CONNECT_REQUEST":
        establish(active, passive, found, number=2)
        return 2, False
    rejected = active.event("REJECTED")
    need(rejected.status == REJ_STALE, f"rejected with {rejected.status}")
    establish(active, passive, ask(active, passive, number=3), number=3)
    return 3, True


@case("reject-no-listener", wants=[("active", "REQ"), ("passive", "REJ")])
def reject_no_listener(bench):
    """A port without a listener: REJ reason 8."""
    if bench.to_linux:
        client = bench.pollux_rping("-c", "-a", bench.guest_address, "-p", CLOSED_PORT)
        client.expect(1, bench.deadline)
        need("REJ reason 8" in client.stderr, f"pollux says {client.stderr}")
        return
    server = bench.pollux_rping("-s", "-p", CLOSED_PORT)
    bench.listening(server)
    client = bench.guest.begin(guest_rping(bench, f"-c -a {bench.port.address}"))
    need(client.wait(bench.deadline) != 0, "the guest's rping was content")
    need("RDMA_CM_EVENT_REJECTED, error 8" in client.output, f"the guest says {client.output}")


@case("reject-path-mtu", directions=(TO_POLLUX,), ports=("tap",),
      wants=[("active", "REQ"), ("passive", "REJ")])
def reject_path_mtu(bench):
    """A path MTU of 4096 is requested from a port that has 1024: REJ reason 26."""
    bench.guest.run("ip link set eth0 mtu 9000", bench.deadline)
    server = bench.pollux_rping("-s")
    bench.listening(server)
    client = bench.guest.begin(guest_rping(bench, f"-c -a {bench.port.address}"))
    need(client.wait(bench.deadline) != 0, "the guest's rping was content")
    need("RDMA_CM_EVENT_REJECTED, error 26" in client.output, f"the guest says {client.output}")


@case("path-mtu-1024", directions=(TO_LINUX,), ports=("tap",),
      wants=[("active", "RC READ RESPONSE MIDDLE")])
def path_mtu_1024(bench):
    """A port that has no more asks for a path MTU of 1024, although the guest could do 4096."""
    bench.guest.run("ip link set eth0 mtu 9000", bench.deadline)
    exchange(bench, PINGS, SIZE)

    def look(evidence):
        longest = max(len(frame.payload) for frame in evidence.frames if frame.opcode == 0x0E)
        need(longest == 1024, f"READ responses of {longest} bytes")

    return look
