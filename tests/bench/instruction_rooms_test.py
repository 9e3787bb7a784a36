"""Tests that a dump of callgrind is read according to its format."""

import unittest

from tests.bench import instruction_rooms

DUMP = """\
# callgrind format
version: 1
desc: Trigger: Client Request: a path
events: Ir
ob=(1) /build/bin/paths
fl=(1) stack/transport/endpoint.cc
fn=(1) Endpoint::OnPacket()
10 100
+2 20
fi=(2) ./stack/wire/icrc.h
7 30
fe=(1)
* 5
cfi=(3) rpcrdma/server.cc
cfn=(2) Server::Poll()
calls=3 40
12 5000

fl=(3)
fn=(2)
-2 200
cfi=(4) ???
cfn=(3) get
calls=1 0
+1 9000

fl=(4)
fn=(3)
0 40

ob=(2) /lib/libc.so.6
fl=(4)
fn=(4) memcpy
0 7

fl=(5) /usr/include/dpdk/rte_mbuf.h
fn=(5) free
5 60
totals: 462
"""


class RoomsTest(unittest.TestCase):

    def test_each_instruction_counts_once_in_its_source_file(self):
        costs = instruction_rooms.rooms(DUMP)
        self.assertEqual(costs["stack/transport"], 125)
        self.assertEqual(costs["stack/wire"], 30)
        self.assertEqual(costs["rpcrdma"], 200)
        self.assertEqual(costs["DPDK"], 100)
        self.assertEqual(costs[instruction_rooms.REST], 7)
        self.assertEqual(sum(costs.values()), 462)

    def test_paths_of_any_form_map_to_their_room(self):
        for file, room in (("/root/out/execroot/stack/io/port/port.cc", "stack/engine, io, ip"),
                           ("stack/base/byte_order.h", "stack/wire"),
                           ("cm/manager.cc", "cm"),
                           ("tests/bench/path_load.cc", "the load"),
                           ("/usr/include/c++/12/bits/stl_algobase.h", instruction_rooms.REST),
                           ("../drivers/net/ring/rte_eth_ring.c", "DPDK")):
            self.assertEqual(instruction_rooms.room_of(file, "/bin/paths"), room, file)

    def test_the_table_has_a_column_for_each_path(self):
        costs = instruction_rooms.rooms(DUMP)
        lines = instruction_rooms.table({"a path": costs, "another": costs}).splitlines()
        self.assertEqual(lines[0].split(), ["a", "path", "another"])
        self.assertEqual(lines[-1].split(), ["all", "462", "462"])
        self.assertEqual(len(lines), len(instruction_rooms.NAMES) + 2)


if __name__ == "__main__":
    unittest.main()
