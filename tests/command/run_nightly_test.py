"""Tests of `pollux run` that are too slow for every change.

They run programs over a lossy wire, and many clients in turn.
"""

from tests.command import run_mpi_test as mpi
from tests.command import run_programs_test as programs
from tests.command import run_qemu_test as qemu
from tests.command import run_timeouts_test as timeouts
from tests.command.run_lossy_test import OverLoss


class DaplOverLossTest(OverLoss, programs.DaplTest):
    pass


class DaplOverTcpOverLossTest(OverLoss, programs.DaplOverTcpTest):
    pass


class QperfOverLossTest(OverLoss, programs.QperfTest):
    pass


class MpichOverLossTest(OverLoss, mpi.MpichTest):
    pass


class OpenMpiOverLossTest(OverLoss, mpi.OpenMpiTest):
    pass


class MigrationOverLossTest(OverLoss, qemu.MigrationTest):
    test_a_guest_migrates_with_all_memory_pinned = None


class ManyShortTimeoutsTest(timeouts.ShortTimeoutsTest):
    clients, clients_beside_busy_processes = 100, 100
