"""pollux run: programs that stand on verbs by way of UCX, libfabric and fio, on both sides.

fi_pingpong checks what comes (-c), and so does fio where it reads what comes, which is by SEND:
what RDMA WRITE and READ move its engine looks at on neither side. ucx_perftest has no such check.
Of libfabric's endpoints datagrams have no case over a wire that loses: nobody sends them again.
"""

from case import need
from programs import cases_of, end_well, places, tcp_at_own_address

UCX_PORT, FABRIC_PORT, FIO_PORT = 13337, 47592, 8888
COUNT, WARM_UP = 100, 10  # messages of UCX
MANY = 600  # of one packet, so that some are lost for certain where 1 % are
CM = [("active", "REQ"), ("passive", "REP"), ("active", "RTU")]


def define_ucx(name, transports, *options, wants, lossy_count=None):
    """ucx_perftest, which makes its queue pairs with addresses that it swaps over TCP. These are of
    IPv6: of a datagram over IPv4 UCX 1.13 wants to be told by the service level of its completion,
    as ConnectX does, and rxe leaves that zero, so that UCX over rxe drops all of them."""

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
# Of a device whose atomics are IBV_ATOMIC_GLOB it uses none, but asks the other side to add.
define_ucx("rc-fadd", "rc_verbs,ud_verbs", "-t", "ucp_fadd", "-s", 8, lossy_count=MANY,
           wants=[("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY")])
# UCX sends again what is lost.
define_ucx("ud", "ud_verbs", "-t", "tag_lat", "-s", 1000, lossy_count=MANY,
           wants=[("active", "UD SEND ONLY"), ("passive", "UD SEND ONLY")])


def fabric(bench, endpoint, provider, loss, *environment):
    """fi_pingpong, with libfabric's own checks of what comes. It uses one address over TCP and over
    RDMA."""
    with places(bench, loss) as (active, passive), tcp_at_own_address(bench):
        def program(place, *arguments):
            place.start("env", f"FI_VERBS_GID_IDX={place.gid_index}", *environment, "fi_pingpong",
                        "-p", provider, "-e", endpoint, "-c", "-I", 20, *arguments)

        program(passive)
        passive.wait_for_tcp(FABRIC_PORT)
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
# A completion queue for two peers: for the 256 by default it is longer than those of rxe.
define_fabric("rdm", "verbs;ofi_rxm", "rdm", "FI_UNIVERSE_SIZE=2", wants=TALK, lossy=True)


# Whoever writes would read it all again at the end, from nowhere.
VERIFY = ("--verify=crc32c", "--do_verify=0")


def define_fio(verb, wants, server_depth=1, verify=False):
    """fio's rdma engine, whose server is who reads, whatever the verb, and may `verify` that."""

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
# It asks for no retry where its peer has no receive posted: all of them are posted before.
define_fio("send", [("active", "RC SEND FIRST"), ("active", "RC SEND LAST")], server_depth=128,
           verify=True)
