"""pollux run: perftest, on Pollux and in the guest.

perftest does not check the data that it moves: the capture shows that each message went over the
wire. An emulated clock is often too unsteady for the guest's program to measure its rate: with -F
it reports results nevertheless, with infinite times or no bandwidth, which the cases ignore. UC and
UD repeat nothing: the receiver would wait for ever for messages that are lost or that find no
receive buffer. So they have no case with loss, and send no more than the 512 buffers there are.
ib_send_lat -e has no case with loss either: it waits for both of its completion queues by one
channel. If an acknowledgement is lost, it posts the next SEND before it has taken the completion of
the previous one, although it has an entry for only one.

perftest itself refuses the combinations that have no case: sleeping (-e) with WRITE or for a time
(-D), several queue pairs (-q) and both ways (-b) in its measurements of latency, all sizes (-a) or
others than 8 with atomics and for a time, inline with READ and atomics, UC with -R and UD with
anything but SEND. ib_atomic_bw -R crashes with the real libraries, too.
"""

import contextlib
import pathlib

from case import need
from cases_connect import SEND_ONLY, drop_frames, drop_mads, stop_dropping
from process import last_line
from programs import cases_of, end_well, places

PORT = 18515
COUNT = 200
LOSSY_COUNT, LOSSY_BYTES = 500, 8 << 20  # at most so many messages, and so many bytes
# 4.3 s, since an emulated machine may stop for longer than the default of 67 ms. 1.07 s if each of
# many losses may cost a time-out, of which the guest allows eight. A stream of small messages does
# not need that: its next packet reveals a loss.
QP_TIMEOUT, LOSSY_QP_TIMEOUT = 20, 18
# Programs whose server has nothing to report.
ONE_REPORTS = ("ib_read_lat", "ib_atomic_lat", "ib_send_bw", "ib_write_bw", "ib_read_bw",
               "ib_atomic_bw")
STREAMS, SMALL = ("ib_send_bw", "ib_write_bw"), 4096
REQ, SIDR_REQ = 0x10, 0x17
CM = [("active", "REQ"), ("passive", "REP"), ("active", "RTU")]
LAST_UNACKNOWLEDGED = "Failed to close connection between server and client"
ALL_SIZES = [1 << shift for shift in range(1, 24)]  # of the option -a
ALL_COUNT = 5  # the minimum of the option
# The cases with all sizes send messages of 8 MiB, on a machine that emulates one side.
DEADLINE_S, ALL_DEADLINE_S = 120, 360


def beginnings(operation):
    """Returns the names of the packets that begin a message: each message has one of them."""
    if operation in ("RC READ REQUEST", "RC FETCH_ADD", "RC CMP_SWAP"):
        return (operation,)
    return (f"{operation} ONLY", f"{operation} FIRST")


def reported(output, size):
    """Returns whether it printed a line of results for messages of this size."""
    return any(words[:1] == [str(size)] and words[1:2] and words[1].isdigit()
               for words in map(str.split, output.splitlines()))


def listeners(bench):
    """Returns the guest's listeners on the port, one line each."""
    return bench.guest.run(f"rdma resource show cm_id | grep LISTEN | grep ':{PORT} *$'; true",
                           bench.deadline)


@contextlib.contextmanager
def awaited_listener(bench, by_cm, request):
    """Delays the client's second request until the server listens for it. perftest with -R makes
    one connection to exchange parameters and another for the test. Its server begins to listen for
    the second only after its last message over the first, so that a slow guest would refuse the
    next request. The guest therefore receives no request until its program listens again, and its
    messages over the first connection are held back until the requests are dropped. `request`: the
    attribute of the MAD that is dropped."""
    if not by_cm or not bench.to_linux:
        yield
        return
    first = listeners(bench)
    drop_frames(bench, "linux", SEND_ONLY)
    yield
    bench.wait_on_wire("linux", "REP")
    drop_mads(bench, "pollux", request)
    stop_dropping(bench, "linux")
    bench.deadline.wait_for("the server's second listener",
                            lambda: listeners(bench) not in ("", first), pause_s=0.1)
    stop_dropping(bench)


@contextlib.contextmanager
def report_of(bench, place, asked):
    """Yields the options that make Pollux's side write a report as JSON, and checks at the end that
    the report has results. The names in it are not quoted, so that no JSON parser reads it."""
    if not asked or place.name != "pollux":
        yield ()
        return
    file = pathlib.Path(bench.folder) / "report.json"
    yield ("--out_json", f"--out_json_file={file}")
    text = file.read_text()
    need("results" in text and f"n_iterations: {COUNT}" in text.replace('"', ""),
         f"the report says {text}")


def both_ended(active, passive, loss, by_cm):
    """Checks that both programs ended well. With -R the server's last message goes over the
    connection itself: if its acknowledgement is lost, the client has disconnected before the
    server sends it again."""
    if not (loss and by_cm):
        end_well(active, passive)
        return
    end_well(active)
    need(passive.wait() == 0 or LAST_UNACKNOWLEDGED in passive.output,
         f"the server ended badly: {last_line(passive.output)}")


def measure(bench, loss, program, options, sizes, count, by_cm, report):
    """Runs a measurement; at its end the client must have printed results for all sizes."""
    common = [program, "-F", *options]
    if count is not None:
        common += ["-n", count]
    if not by_cm:
        tells = program in STREAMS and max(sizes) <= SMALL
        common += ["-u", LOSSY_QP_TIMEOUT if loss and not tells else QP_TIMEOUT]
    with (places(bench, loss) as (active, passive),
          report_of(bench, active, report) as of_active,
          report_of(bench, passive, report and program not in ONE_REPORTS) as of_passive):
        passive.start(*common, *of_passive, "-x", passive.gid_index)
        (passive.wait_for_cm if by_cm else passive.wait_for_tcp)(PORT)
        # Parameters go over a reliable connection, whatever the transport of the test.
        with awaited_listener(bench, by_cm, SIDR_REQ if "UD" in options else REQ):
            active.start(*common, *of_active, "-x", active.gid_index,
                         active.peer if by_cm else active.peer_tcp)
        both_ended(active, passive, loss, by_cm)
        missing = [size for size in sizes if not reported(active.output, size)]
        need(not missing, f"{active.name} printed no results for messages of {missing} bytes")


def define(name, program, operation, *options, size=64, count=COUNT, queue_pairs=1, both_ways=False,
           lossy=False, extra=True, wants=(), report=False):
    """Defines cases of a program. `operation`: the operation of each of the client's messages, and
    of the server's if `both_ways`. `count`: None if the options set a duration; with loss another
    count is used, unless one is given. `report`: Pollux's side writes a report as JSON."""
    by_cm = "-R" in options
    everything = "-a" in options
    sizes = ALL_SIZES if everything else [size]
    words = list(options)
    if not everything:
        words += ["-s", size]
    if queue_pairs > 1:
        words += ["-q", queue_pairs]

    def run(bench, loss):
        each = min(LOSSY_COUNT, LOSSY_BYTES // size) if loss and count == COUNT else count
        measure(bench, loss, program, words, sizes, each, by_cm, report and not loss)

        def look(evidence):
            total = (each or 1) * queue_pairs * len(sizes)
            for sender in bench.sides[:2 if both_ways else 1]:
                found = evidence.packets(sender, *beginnings(operation))
                need(found >= total, f"{found} messages of {sender} on the wire, not {total}")

        return look

    run.__doc__ = f"{program} {' '.join(map(str, words))}"
    wants = (CM if by_cm and not wants else []) + list(wants)
    cases_of(name, wants, loss_wants=wants if lossy else None, extra=extra,
             deadline_s=ALL_DEADLINE_S if everything else DEADLINE_S)(run)


ACKNOWLEDGED = [("passive", "RC ACK")]
LOOK_UP = [("active", "SIDR_REQ"), ("passive", "SIDR_REP")]
ATOMIC_ACK = [("passive", "RC ATOMIC ACK")]

define("send_lat", "ib_send_lat", "RC SEND", both_ways=True, lossy=True, extra=False, report=True)
define("send_lat-R", "ib_send_lat", "RC SEND", "-R", both_ways=True, lossy=True)
define("send_lat-e", "ib_send_lat", "RC SEND", "-e", both_ways=True)
define("send_lat-inline", "ib_send_lat", "RC SEND", "-I", 64, both_ways=True, lossy=True)
define("send_lat-UC", "ib_send_lat", "UC SEND", "-c", "UC", size=4096, both_ways=True)
define("send_lat-UD", "ib_send_lat", "UD SEND", "-c", "UD", size=1000, both_ways=True)
define("send_lat-UD-R", "ib_send_lat", "UD SEND", "-c", "UD", "-R", size=1000, both_ways=True,
       wants=LOOK_UP)
define("send_lat-a", "ib_send_lat", "RC SEND", "-a", count=ALL_COUNT, both_ways=True, lossy=True)
define("send_lat-D", "ib_send_lat", "RC SEND", "-D", 2, count=None, both_ways=True, lossy=True)
define("send_bw", "ib_send_bw", "RC SEND", size=65536, lossy=True, wants=ACKNOWLEDGED, report=True)
define("send_bw-R", "ib_send_bw", "RC SEND", "-R", size=65536, lossy=True)
define("send_bw-e", "ib_send_bw", "RC SEND", "-e", size=4096, wants=ACKNOWLEDGED, lossy=True)
define("send_bw-inline", "ib_send_bw", "RC SEND", "-I", 64, wants=ACKNOWLEDGED, lossy=True)
define("send_bw-b", "ib_send_bw", "RC SEND", "-b", size=4096, queue_pairs=4, both_ways=True,
       lossy=True, wants=ACKNOWLEDGED)
define("send_bw-UC", "ib_send_bw", "UC SEND", "-c", "UC", size=4096)
define("send_bw-b-UC", "ib_send_bw", "UC SEND", "-b", "-c", "UC", size=4096, both_ways=True)
define("send_bw-UD", "ib_send_bw", "UD SEND", "-c", "UD", size=1000)
define("send_bw-b-UD", "ib_send_bw", "UD SEND", "-b", "-c", "UD", size=1000, both_ways=True)
define("send_bw-UD-R", "ib_send_bw", "UD SEND", "-c", "UD", "-R", size=1000, wants=LOOK_UP)
define("send_bw-a", "ib_send_bw", "RC SEND", "-a", count=ALL_COUNT, lossy=True, wants=ACKNOWLEDGED)
define("send_bw-D", "ib_send_bw", "RC SEND", "-D", 2, size=4096, count=None, lossy=True,
       wants=ACKNOWLEDGED)
define("write_lat", "ib_write_lat", "RC WRITE", both_ways=True, lossy=True, report=True)
define("write_lat-R", "ib_write_lat", "RC WRITE", "-R", both_ways=True, lossy=True)
define("write_lat-inline", "ib_write_lat", "RC WRITE", "-I", 64, both_ways=True, lossy=True)
define("write_lat-UC", "ib_write_lat", "UC WRITE", "-c", "UC", size=4096, both_ways=True)
define("write_lat-a", "ib_write_lat", "RC WRITE", "-a", count=ALL_COUNT, both_ways=True, lossy=True)
define("write_lat-D", "ib_write_lat", "RC WRITE", "-D", 2, count=None, both_ways=True, lossy=True)
define("write_bw", "ib_write_bw", "RC WRITE", size=65536, lossy=True, wants=ACKNOWLEDGED,
       report=True)
define("write_bw-R", "ib_write_bw", "RC WRITE", "-R", size=65536, lossy=True)
define("write_bw-inline", "ib_write_bw", "RC WRITE", "-I", 64, wants=ACKNOWLEDGED, lossy=True)
define("write_bw-b", "ib_write_bw", "RC WRITE", "-b", size=4096, queue_pairs=4, both_ways=True,
       lossy=True, wants=ACKNOWLEDGED)
define("write_bw-UC", "ib_write_bw", "UC WRITE", "-c", "UC", size=4096)
define("write_bw-b-UC", "ib_write_bw", "UC WRITE", "-b", "-c", "UC", size=4096, both_ways=True)
define("write_bw-a", "ib_write_bw", "RC WRITE", "-a", count=ALL_COUNT, lossy=True,
       wants=ACKNOWLEDGED)
define("write_bw-D", "ib_write_bw", "RC WRITE", "-D", 2, size=4096, count=None, lossy=True,
       wants=ACKNOWLEDGED)
define("read_lat", "ib_read_lat", "RC READ REQUEST", lossy=True, report=True,
       wants=[("passive", "RC READ RESPONSE ONLY")])
define("read_lat-R", "ib_read_lat", "RC READ REQUEST", "-R", lossy=True)
define("read_lat-e", "ib_read_lat", "RC READ REQUEST", "-e", lossy=True)
define("read_lat-a", "ib_read_lat", "RC READ REQUEST", "-a", count=ALL_COUNT, lossy=True)
define("read_lat-D", "ib_read_lat", "RC READ REQUEST", "-D", 2, count=None, lossy=True)
define("read_bw", "ib_read_bw", "RC READ REQUEST", size=65536, lossy=True, report=True,
       wants=[("passive", "RC READ RESPONSE MIDDLE")])
define("read_bw-R", "ib_read_bw", "RC READ REQUEST", "-R", size=65536, lossy=True)
define("read_bw-e", "ib_read_bw", "RC READ REQUEST", "-e", size=4096, lossy=True)
define("read_bw-b", "ib_read_bw", "RC READ REQUEST", "-b", size=4096, queue_pairs=2,
       both_ways=True, lossy=True)
define("read_bw-a", "ib_read_bw", "RC READ REQUEST", "-a", count=ALL_COUNT, lossy=True)
define("read_bw-D", "ib_read_bw", "RC READ REQUEST", "-D", 2, size=4096, count=None, lossy=True)
define("atomic_lat", "ib_atomic_lat", "RC FETCH_ADD", size=8, lossy=True, wants=ATOMIC_ACK,
       report=True)
define("atomic_lat-R", "ib_atomic_lat", "RC FETCH_ADD", "-R", size=8, lossy=True)
define("atomic_lat-e", "ib_atomic_lat", "RC FETCH_ADD", "-e", size=8, lossy=True, wants=ATOMIC_ACK)
define("atomic_lat-D", "ib_atomic_lat", "RC FETCH_ADD", "-D", 2, size=8, count=None, lossy=True,
       wants=ATOMIC_ACK)
define("atomic_bw", "ib_atomic_bw", "RC FETCH_ADD", size=8, lossy=True, wants=ATOMIC_ACK,
       report=True)
define("atomic_bw-e", "ib_atomic_bw", "RC FETCH_ADD", "-e", size=8, lossy=True, wants=ATOMIC_ACK)
define("atomic_bw-b", "ib_atomic_bw", "RC FETCH_ADD", "-b", size=8, queue_pairs=2, both_ways=True,
       lossy=True, wants=ATOMIC_ACK)
define("atomic_bw-D", "ib_atomic_bw", "RC FETCH_ADD", "-D", 2, size=8, count=None, lossy=True,
       wants=ATOMIC_ACK)
define("atomic_bw-cmp", "ib_atomic_bw", "RC CMP_SWAP", "-A", "CMP_AND_SWAP", size=8, queue_pairs=2,
       lossy=True, wants=ATOMIC_ACK)
