"""pollux run: the programs of run_programs_test over a wire that loses every hundredth frame."""

from tests.command import run_programs_test as programs
from tests.command.harness import SERVER
from tests.command.run_test import LOSES, RunTest


class OverLoss:
    """Before a class of tests: each end loses of what it sends and of what it receives."""

    port_options = (*RunTest.port_options, *LOSES)


class UcxOverLossTest(OverLoss, programs.UcxTest):
    pass


class LibfabricOverLossTest(OverLoss, programs.LibfabricTest):
    # It would wait for ever for a datagram that is lost.
    test_dgram = None


class FioOverLossTest(OverLoss, programs.FioTest):
    pass


class CmtimeOverLossTest(OverLoss, programs.CmtimeTest):
    pass


class EndpointsOverLossTest(OverLoss, RunTest):
    def test_endpoints(self):
        for _ in range(5):
            self.both(("rdma_server",), ("rdma_client", "-s", SERVER))
