"""Tests `pollux run` with programs over a wire that loses 1 % of the frames, or 5 % for programs
that send only a few.

Programs that send each datagram once, or use UC, are not tested here, because they wait for ever
for a lost message: udaddy, mckey, perftest and the pingpongs over UC and UD, libfabric's datagrams.
"""

import itertools

from tests.command import run_perftest_test as perftest
from tests.command import run_programs_test as programs
from tests.command import run_test as basic
from tests.command.harness import wait_for


class OverLoss:
    """A mixin to be listed before a test class: each end loses packets in both directions.

    The processes of a test have the seeds 1, 2, 3, and so on: they lose different frames, and the
    same ones whenever the test runs. With one seed for all, programs of a few frames lost none. All
    ranks of an MPI program have the same seed.
    """

    loss = 0.01

    def setUp(self):
        self.seeds = itertools.count(1)
        super().setUp()

    @property
    def port_options(self):
        return (*basic.RunTest.port_options, "--impair",
                f"loss={self.loss},seed={next(self.seeds)}")


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
        # They exchange about ten frames. With these seeds a first REQ, a REP and an RTU get lost.
        self.loss = 0.05
        for _ in range(5):
            super().test_endpoint_programs_work()

    def test_each_end_loses_frames(self):
        self.start_server("rping", "-s", "-a", self.address)
        self.run_program(self.client_host, "rping", "-c", "-a", self.address,  # for ever
                         options=("--file-prefix", "client"))
        for name in ("server", "client"):
            # Of so many frames, both seeds lose some.
            wait_for("pings", lambda name=name: self.port(name)["rcvd_pkts"] > 1000)
            port = self.port(name)
            self.assertGreater(port["impaired/sent/lost"], 0)
            self.assertGreater(port["impaired/received/lost"], 0)

    def port(self, name):
        """Returns the statistics of the only port of a process."""
        (process,) = self.told("stat", "--file-prefix", name)
        return process["workers"][0]["ports"][0]


class UcxOverLossTest(OverLoss, programs.UcxTest):
    pass


class UcxOverRdmaCmOverLossTest(OverLoss, programs.UcxOverRdmaCmTest):
    pass


class LibfabricOverLossTest(OverLoss, programs.LibfabricTest):
    test_datagram_endpoints_work = None


class FioOverLossTest(OverLoss, programs.FioTest):
    pass


class RpmaOverLossTest(OverLoss, programs.RpmaTest):
    pass


class CmtimeOverLossTest(OverLoss, programs.CmtimeTest):
    pass
