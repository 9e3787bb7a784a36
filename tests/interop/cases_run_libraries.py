"""pollux run: programs that use verbs through UCX, libfabric and fio, on both sides.

fi_pingpong checks what it receives (-c). fio checks only data that arrives by SENDs: its engine
checks, on neither side, the data that RDMA WRITE and READ move. ucx_perftest has no such check.
libfabric's datagram endpoints have no case over a wire that loses frames, since nothing repeats
lost datagrams.
"""

from case import need
from programs import cases_of, end_well, places, tcp_at_own_address

UCX_PORT, FABRIC_PORT, FIO_PORT = 13337, 47592, 8888
COUNT, WARM_UP = 100, 10  # messages of UCX
PINGPONGS = 20
# Where a response to a READ is lost, rxe waits for its time-out, two seconds here, before it
# requests the rest: about ten times in a message of 1 MiB.
LOSSY_PINGPONGS = 4
MANY = 600  # of one packet, so that some are lost for certain at 1 % loss
CM = [("active", "REQ"), ("passive", "REP"), ("active", "RTU")]


def define_ucx(name, transports, *options, wants, lossy_count=None):
    """Defines cases of ucx_perftest, whose two ends exchange the addresses of their queue pairs
    over TCP. The addresses are IPv6: UCX 1.13 recognizes a datagram over IPv4 by the service level
    of its completion, as ConnectX sets it. Rxe leaves it zero, so that UCX over rxe drops all of
    them."""

    def run(bench, loss):
        with places(bench, loss) as (active, passive):
            def program(place, *arguments):
                place.start("env", f"UCX_TLS={transports}",
                            f"UCX_NET_DEVICES={place.device}:1",
                            f"UCX_IB_GID_INDEX={place.gid_index6}", "ucx_perftest", *options,
                            "-n", lossy_count if loss else COUNT, "-w", WARM_UP, *arguments)

            program(passive)
            passive.wait_for_tcp(UCX_PORT, opened=False)
            program(active, active.peer_tcp)
            end_well(active, passive)
            need("Final:" in active.output, f"ucx_perftest says {active.output}")

    run.__doc__ = f"ucx_perftest over {transports}: {' '.join(map(str, options))}"
    cases_of(f"ucx-{name}", wants, loss_wants=wants if lossy_count else None)(run)


define_ucx("rc", "rc_v", "-t", "tag_lat", lossy_count=MANY,
           wants=[("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY")])
define_ucx("rc-large", "rc_verbs,ud_verbs", "-t", "tag_bw", "-s", 65536, lossy_count=COUNT,
           wants=[("active", "RC SEND FIRST"), ("active", "RC SEND LAST")])
define_ucx("rc-put", "rc_verbs,ud_verbs", "-t", "ucp_put_bw", "-s", 65536, lossy_count=COUNT,
           wants=[("active", "RC WRITE FIRST")])
define_ucx("rc-get", "rc_verbs,ud_verbs", "-t", "ucp_get", "-s", 65536, lossy_count=COUNT,
           wants=[("active", "RC READ REQUEST")])
# UCX does not use the atomics of a device with IBV_ATOMIC_GLOB, but asks the other side to add.
define_ucx("rc-fadd", "rc_verbs,ud_verbs", "-t", "ucp_fadd", "-s", 8, lossy_count=MANY,
           wants=[("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY")])
# UCX itself repeats lost datagrams.
define_ucx("ud", "ud_verbs", "-t", "tag_lat", "-s", 1000, lossy_count=MANY,
           wants=[("active", "UD SEND ONLY"), ("passive", "UD SEND ONLY")])


def fabric(bench, endpoint, provider, loss, *environment):
    """Runs fi_pingpong, with libfabric's own checks of the data. It uses one address over TCP and
    over RDMA."""
    with places(bench, loss) as (active, passive), tcp_at_own_address(bench):
        def program(place, *arguments):
            place.start("env", f"FI_VERBS_GID_IDX={place.gid_index}", *environment, "fi_pingpong",
                        "-p", provider, "-e", endpoint, "-c",
                        "-I", LOSSY_PINGPONGS if loss else PINGPONGS, *arguments)

        program(passive)
        # It opens its device when the client has connected by TCP.
        passive.wait_for_tcp(FABRIC_PORT, opened=False)
        program(active, active.peer)
        end_well(active, passive)


def define_fabric(name, provider, endpoint, *environment, wants, lossy=False):
    def run(bench, loss):
        fabric(bench, endpoint, provider, loss, *environment)

    run.__doc__ = f"fi_pingpong over {provider}, endpoints of type {endpoint}."
    cases_of(f"fi_pingpong-{name}", wants, loss_wants=wants if lossy else None,
             ports=("netdev", "tap"), deadline_s=240)(run)


TALK = CM + [("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY")]
define_fabric("msg", "verbs", "msg", wants=TALK, lossy=True)
define_fabric("dgram", "verbs", "dgram",
              wants=[("active", "UD SEND ONLY"), ("passive", "UD SEND ONLY")])
# Sizes the completion queue for two peers: for the default of 256 it is longer than rxe allows.
define_fabric("rdm", "verbs;ofi_rxm", "rdm", "FI_UNIVERSE_SIZE=2", wants=TALK, lossy=True)


# Without --do_verify=0 the writing side would read all data again at the end, from nowhere.
VERIFY = ("--verify=crc32c", "--do_verify=0")


def define_fio(verb, wants, server_depth=1, verify=False):
    """Defines cases of fio's rdma engine. The server reads, whatever the verb, and may `verify` the
    data."""

    def run(bench, loss):
        common = ("fio", "--name=job", "--thread", "--ioengine=rdma", f"--port={FIO_PORT}",
                  "--bs=64k", "--size=8m", f"--verb={verb}", *(VERIFY if verify else ()))
        with places(bench, loss) as (active, passive):
            passive.start(*common, "--rw=read", f"--iodepth={server_depth}")
            passive.wait_for_cm(FIO_PORT)
            active.start(*common, "--rw=write", f"--hostname={active.peer}", "--iodepth=4")
            end_well(active, passive)

    run.__doc__ = f"fio's rdma engine: 8 MiB by {verb}."
    cases_of(f"fio-{verb}", CM + wants, loss_wants=wants)(run)


define_fio("write", [("active", "RC WRITE FIRST"), ("active", "RC WRITE LAST")])
define_fio("read", [("active", "RC READ REQUEST"), ("passive", "RC READ RESPONSE MIDDLE")])
# fio asks for no retry if its peer has no receive posted, so all receives are posted before.
define_fio("send", [("active", "RC SEND FIRST"), ("active", "RC SEND LAST")], server_depth=128,
           verify=True)
