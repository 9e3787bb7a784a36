"""Runs one side of a case of rdma-core's own tests of RDMA CM, with the device's port to itself.

The suite makes both sides of one address by a fork; here each is a process on a port of its own.

usage: rdma_core_cm_side.py TESTS_DIRECTORY DEVICE CASE SIDE OWN_ADDRESS PASSIVE_ADDRESS KEY MEETING

SIDE is active or passive; MEETING the pickled barrier and queue by which the two meet, whose
server knows KEY. The exit status is the suite's: 0, 2 for a failure, 5 for a case to skip.
"""

import multiprocessing
import os
import pickle
import sys


def main():
    directory, device, name, side, own, passive_address, key, meeting = sys.argv[1:]
    multiprocessing.current_process().authkey = bytes.fromhex(key)
    with open(meeting, "rb") as file:
        syncer, notifier = pickle.load(file)
    # The suite looks for its own modules both by themselves and in a package named `tests`.
    sys.path[:0] = [os.path.dirname(directory), directory]
    from args_parser import parser  # pylint: disable=import-outside-toplevel
    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    from tests import base_rdmacm, rdmacm_utils, test_rdmacm  # pylint: disable=all

    made = base_rdmacm.AddrInfo

    # Both sides know the passive one's address alone, and take it for their own.
    def addr_info(src=None, **others):
        return made(src=own if src == passive_address else src, **others)

    base_rdmacm.AddrInfo = rdmacm_utils.AddrInfo = addr_info

    class OneSide(test_rdmacm.CMTestCase):
        def two_nodes_rdmacm_traffic(self, connection_resources, test_flow, bad_flow=False,
                                     **resources):
            self.ip_addr, self.syncer, self.notifier = passive_address, syncer, notifier
            test_flow(connection_resources=connection_resources, passive=side == "passive",
                      **resources)

    getattr(OneSide(name), name)()


if __name__ == "__main__":
    main()
