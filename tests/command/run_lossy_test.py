"""Tests `pollux run` with programs over a wire that loses 1 % of the frames.

Programs that send each datagram once, or use UC, are not tested here, because they wait for ever
for a lost message: udaddy, mckey, perftest and the pingpongs over UC and UD, libfabric's datagrams.
"""

from tests.command import run_perftest_test as perftest
from tests.command import run_programs_test as programs
from tests.command import run_test as basic


class OverLoss:
    """A mixin to be listed before a test class: each end loses packets in both directions."""

    port_options = (*basic.RunTest.port_options, "--impair", "loss=0.01")


class PingpongOverLossTest(OverLoss, basic.PingpongTest):
    """Pingpongs over a lossy wire, where one of the two sides may fail at the end.

    A side exits when it has all its messages. If its last acknowledgement is lost, no one is left
    to repeat it, and the other side fails.
    """

    count = "500"
    test_unreliable_transports_work = None

    def end_well(self, client, server):
        server.wait()
        good = [run.process.returncode == 0 for run in (client, server)]
        return any(good) and all(
            ended or "transport retry counter exceeded" in run.stdout + run.stderr
            for ended, run in zip(good, (client, server)))


class PerftestOverLossTest(OverLoss, perftest.OnAnotherWire, perftest.PerftestTest):
    test_unreliable_transports_work = None


class CmProgramsOverLossTest(OverLoss, basic.CmProgramsTest):
    pings = "100"
    test_udaddy_works = None
    test_multicast_messages_arrive = None

    def test_endpoint_programs_work(self):
        for _ in range(5):
            super().test_endpoint_programs_work()


class UcxOverLossTest(OverLoss, programs.UcxTest):
    pass


class UcxOverRdmaCmOverLossTest(OverLoss, programs.UcxOverRdmaCmTest):
    pass


class LibfabricOverLossTest(OverLoss, programs.LibfabricTest):
    test_datagram_endpoints_work = None


class FioOverLossTest(OverLoss, programs.FioTest):
    pass


class CmtimeOverLossTest(OverLoss, programs.CmtimeTest):
    pass
