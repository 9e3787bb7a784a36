"""Runs one side of an RDMA CM case of rdma-core's own tests, on a port of its own.

The suite forks the two sides, which share one address; here each side is a process with its own
port.

usage: rdma_core_cm_side.py TESTS_DIRECTORY DEVICE CASE SIDE OWN_ADDRESS PASSIVE_ADDRESS KEY MEETING

SIDE is active or passive. MEETING is a file with the pickled barrier and queue that synchronize the
two sides; their server requires KEY. The exit status is the suite's: 0, 2 for a failure, 5 for a
skipped case. A side that has left a multicast group says so on standard output.
"""

import multiprocessing
import os
import pickle
import sys

LEFT_ALONE_S = 15  # as in the suite: a sender without a receiver ends after it


class ShortWait:
    """A barrier at which a side waits for at most LEFT_ALONE_S."""

    def __init__(self, barrier):
        self.barrier = barrier

    def wait(self):
        return self.barrier.wait(LEFT_ALONE_S)


def main():
    directory, device, name, side, own, passive_address, key, meeting = sys.argv[1:]
    multiprocessing.current_process().authkey = bytes.fromhex(key)
    with open(meeting, "rb") as file:
        syncer, notifier = pickle.load(file)
    # The suite imports its modules both directly and from a package named `tests`.
    sys.path[:0] = [os.path.dirname(directory), directory]
    from args_parser import parser  # pylint: disable=import-outside-toplevel
    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    from tests import base_rdmacm, rdmacm_utils, test_rdmacm  # pylint: disable=all

    made = base_rdmacm.AddrInfo

    # Both sides know only the passive side's address and use it as their own, so replace it.
    def addr_info(src=None, **others):
        return made(src=own if src == passive_address else src, **others)

    base_rdmacm.AddrInfo = rdmacm_utils.AddrInfo = addr_info

    leave = rdmacm_utils.CMAsyncConnection.leave_multicast

    # The short wait begins only now: before, a side that is late on a busy machine would fail the
    # case, and afterwards one side is expected to be left alone.
    def leave_multicast(connection, **group):
        leave(connection, **group)
        print("left the multicast group", flush=True)
        connection.syncer = ShortWait(connection.syncer)

    rdmacm_utils.CMAsyncConnection.leave_multicast = leave_multicast

    class OneSide(test_rdmacm.CMTestCase):
        def two_nodes_rdmacm_traffic(self, connection_resources, test_flow, bad_flow=False,
                                     **resources):
            self.ip_addr, self.syncer, self.notifier = passive_address, syncer, notifier
            test_flow(connection_resources=connection_resources, passive=side == "passive",
                      **resources)

    getattr(OneSide(name), name)()


if __name__ == "__main__":
    main()
