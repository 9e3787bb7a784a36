"""Tests a program for librdmacm on `pollux run` against the hostile host, beside rdma-core's
`rping -c`."""

import os
import signal
import struct

from tests.command.harness import wait_for
from tests.command.run_test import RunTest
from tests.hostile import raw_cm_test, raw_frames_test, wire
from tests.hostile.peer import REPEAT_S
from tests.hostile.victim import only

RPING_SERVER = os.path.abspath("tests/hostile/rping_server")


class OnPolluxRun(RunTest):
    """A mixin; it precedes a subclass of Victim among the bases."""

    service_port = 7174

    def start_victim(self):
        return self.start_server(RPING_SERVER, self.service_port)

    def start_rping(self, *arguments):
        return self.run_program(self.client_host, "rping", "-c", "-a", self.server_address,
                                "-p", self.service_port, "-V", *arguments)

    def start_client(self):
        return self.start_rping("-S", "4096", "-C", "20")

    def check_client(self, run):
        self.assertEqual(run.process.returncode, 0,
                         run.stdout + run.stderr + self.server.stderr)

    def check_calls_during(self, attack):
        """Checks that a connection survives the attack. rping pings until it is interrupted, or its
        connection ends."""
        run = self.start_rping("-v")

        def wait_for_pings():
            before = len(run.stdout)
            wait_for("pings", lambda: len(run.stdout) > before or run.process.poll() is not None)

        wait_for_pings()
        for _ in range(40):
            attack()
        wait_for_pings()
        self.assertEqual(run.interrupt(), -signal.SIGINT, run.stderr)

    def message(self):
        """Returns rping's message: the address, key and length of a buffer."""
        return struct.pack("!QII", 0x1000, 0x1234, 64)

    def check_connection(self, connection):
        """Checks that the server reads the memory that the hostile host offers."""
        psn = connection.psn

        def reads():
            connection.send_raw(wire.RC_SEND_ONLY, self.message(), ack=True, psn=psn)
            return self.hostile.receive(lambda packet: packet.qpn == connection.qpn
                                        and packet.opcode == wire.RC_READ_REQUEST, REPEAT_S)

        wait_for("an RDMA READ", reads)

    def stop(self, server):
        self.assertEqual(server.interrupt(), -signal.SIGINT, server.stderr)


class HostileCmToProgramTest(OnPolluxRun, raw_cm_test.HostileCmTest):
    # More than 4,096 half-open connections. Each has 4 KiB of the program's data.
    flood_size = 5000
    MAX_GROWTH_MIB = 96


@only("service_survives_any_opcode_to_any_queue_pair",
      "service_survives_invalid_lengths_of_every_operation", "bad_icrc_changes_nothing",
      "service_survives_guessed_keys_and_addresses", "service_survives_mutated_valid_frames")
class HostileFramesToProgramTest(OnPolluxRun, raw_frames_test.HostileFramesTest):
    pass
