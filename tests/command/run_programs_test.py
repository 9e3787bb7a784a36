"""pollux run: programs that stand on verbs by way of other libraries, and perftest's options."""

import pathlib
import shutil
import signal
import time

from tests.command.harness import PATIENCE_S, SERVER
from tests.command.run_test import RunTest

FIO_PORT = "8888"
LISTENING = " 0A "  # in /proc/net/tcp


class OverTcpTest(RunTest):
    """Programs whose two sides meet on a TCP port of their own."""

    tcp_port = None

    def listens(self, server, name):
        for table in ("tcp", "tcp6"):
            try:
                text = pathlib.Path(f"/proc/{server.process.pid}/net/{table}").read_text()
            except OSError:
                return False  # it has just ended
            if any(f":{self.tcp_port:04X} " in line and LISTENING in line
                   for line in text.splitlines()):
                return True
        return False


class UcxTest(OverTcpTest):
    tcp_port = 13337

    def ucx(self, transports, *options):
        if shutil.which("ucx_perftest") is None:
            self.skipTest("needs the command ucx_perftest")
        program = ("env", f"UCX_TLS={transports}", "UCX_NET_DEVICES=pollux0:1", "ucx_perftest")
        self.both((*program, *options), (*program, SERVER, *options))

    def test_device_is_found(self):
        run = self.finish_program(self.server_host, "ucx_info", "-d")
        for words in ("Transport: rc_verbs", "Transport: ud_verbs", "Device: pollux0:1"):
            self.assertIn(words, run.stdout)

    def test_rc(self):
        self.ucx("rc_v", "-t", "tag_lat", "-n", "50", "-w", "5")

    def test_rc_with_ud(self):
        self.ucx("rc_verbs,ud_verbs", "-t", "tag_bw", "-s", "65536", "-n", "50", "-w", "5")
        self.ucx("rc_verbs,ud_verbs", "-t", "ucp_get", "-s", "4096", "-n", "50", "-w", "5")

    def test_ud(self):
        self.ucx("ud_verbs", "-t", "tag_lat", "-s", "1000", "-n", "50", "-w", "5")


class UcxOverRdmaCmTest(RunTest):
    """UCX connects queue pairs of its own by RDMA CM, with rdma_establish and rdma_init_qp_attr."""

    def io_demo(self, transports):
        if shutil.which("io_demo") is None:
            self.skipTest("needs the command io_demo")
        program = ("env", f"UCX_TLS={transports}", "UCX_NET_DEVICES=pollux0:1", "io_demo", "-q",
                   "-d", "64:65536")
        self.start_server(*program)  # for ever
        client = self.finish_program(self.client_host, *program, "-i", "50", SERVER)
        self.assertEqual(client.process.returncode, 0, client.stdout + client.stderr)
        self.assertIn("Client exit with status 'OK'", client.stdout + client.stderr)

    def test_rc(self):
        self.io_demo("rc_v")

    def test_rc_with_ud(self):
        self.io_demo("rc_verbs,ud_verbs")


class LibfabricTest(OverTcpTest):
    tcp_port = 47592

    def fi_pingpong(self, provider, endpoint, *options):
        # With libfabric's own checks of what comes.
        program = (*options, "fi_pingpong", "-p", provider, "-e", endpoint, "-c", "-I", "5")
        self.both(program, (*program, SERVER))

    def test_msg(self):
        self.fi_pingpong("verbs", "msg")

    def test_dgram(self):
        self.fi_pingpong("verbs", "dgram")

    def test_rdm(self):
        if shutil.which("fi_pingpong") is None:
            self.skipTest("needs the command fi_pingpong")
        # A completion queue for two peers: for the 256 by default it is longer than those here.
        self.fi_pingpong("verbs;ofi_rxm", "rdm", "env", "FI_UNIVERSE_SIZE=2")

    def test_rdm_for_too_many_peers(self):
        if shutil.which("fi_pingpong") is None:
            self.skipTest("needs the command fi_pingpong")
        server = self.start_server("fi_pingpong", "-p", "verbs;ofi_rxm", "-e", "rdm", "-I", "5")
        client = self.finish_program(self.client_host, "fi_pingpong", "-p", "verbs;ofi_rxm", "-e",
                                     "rdm", "-I", "5", SERVER)
        for run in (client, server):
            self.assertNotEqual(run.wait(), 0)
        self.assertRegex(server.stderr + client.stderr,
                         r"pollux: completion queue of \d+ entries asked for; 1 to \d+ are allowed")


class FioTest(RunTest):
    def fio(self, verb, size="2m", server_depth=1):
        common = ("fio", "--name=job", "--thread", "--ioengine=rdma", f"--port={FIO_PORT}",
                  "--bs=64k", f"--size={size}", f"--verb={verb}")
        # Who reads is the server, whatever the verb.
        self.both((*common, "--rw=read", f"--iodepth={server_depth}"),
                  (*common, "--rw=write", f"--hostname={SERVER}", "--iodepth=4"))

    def test_write(self):
        self.fio("write")

    def test_read(self):
        self.fio("read")

    # fio asks for no retry where its peer has no receive posted: all of them are posted before.
    def test_send(self):
        self.fio("send", size="1m", server_depth=16)


class CmtimeTest(RunTest):
    def test_cmtime(self):
        # It serves for ever.
        self.start_server("cmtime", "-b", SERVER)
        client = self.finish_program(self.client_host, "cmtime", "-s", SERVER, "-c", "20")
        self.assertEqual(client.process.returncode, 0, client.stdout + client.stderr)


class StalledPeerTest(RunTest):
    """One side loses its CPU again and again for longer than perftest asks to wait in all: eight
    times 67 ms."""

    STALL_S, BETWEEN_S = 0.7, 0.2

    def stall_server(self, *argv):
        server = self.start_server(*argv)
        client = self.run_program(self.client_host, *argv, SERVER)
        while client.process.poll() is None:
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(self.STALL_S)
            server.process.send_signal(signal.SIGCONT)
            time.sleep(self.BETWEEN_S)
        self.assertTrue(self.end_well(client, server),
                        client.stdout + client.stderr + server.stdout + server.stderr)

    def test_perftest(self):
        self.stall_server("ib_write_bw", "-x", "0", "-F", "-D", "2")
        self.stall_server("ib_send_bw", "-x", "0", "-F", "-D", "2", "-s", "4096")


class PerftestOptionsTest(RunTest):
    def perftest(self, program, *options):
        self.pingpong(program, "-x", "0", "-F", *options)

    def test_both_ways_with_several_queue_pairs(self):
        self.perftest("ib_write_bw", "-n", "100", "-b", "-q", "4")
        self.perftest("ib_read_bw", "-n", "100", "-b", "-q", "2", "-s", "4096")

    # Between two sizes it measures the pace of its CPU for 0.2 s: on a machine that has much else
    # to do the 23 sizes take minutes.
    def test_all_sizes(self):
        self.patience_s = 5 * PATIENCE_S
        self.perftest("ib_send_bw", "-a", "-n", "20")

    # No more than the receives that are posted and the frames that the interface holds: what an
    # unreliable connection loses, perftest awaits for ever.
    def test_unreliable_connection(self):
        self.perftest("ib_send_bw", "-c", "UC", "-s", "1024", "-n", "200")
        self.perftest("ib_write_bw", "-c", "UC", "-s", "1024", "-n", "200")
        self.perftest("ib_send_lat", "-c", "UC", "-n", "100")

    def test_inline(self):
        self.perftest("ib_write_lat", "-n", "100", "-I", "64", "-s", "64")

    def test_events(self):
        self.perftest("ib_send_bw", "-n", "100", "-e", "-s", "4096")
        self.perftest("ib_read_bw", "-n", "100", "-e", "-s", "4096")

    def test_lists_of_requests(self):
        self.perftest("ib_write_bw", "-n", "200", "-l", "8", "-q", "2", "-s", "512")

    def test_shared_receive_queue(self):
        self.perftest("ib_send_bw", "-n", "100", "--use-srq", "-q", "2", "-s", "4096")

    # Its group is of IPv6, and so must its address be: the second one.
    def test_multicast(self):
        self.pingpong("ib_send_lat", "-x", "1", "-F", "-n", "50", "-c", "UD", "-g", "-s", "512")

    def test_multicast_from_an_address_of_the_other_kind(self):
        program = ("ib_send_lat", "-x", "0", "-F", "-c", "UD", "-g")
        server = self.start_server(*program)
        client = self.finish_program(self.client_host, *program, SERVER)
        for run in (client, server):
            self.assertNotEqual(run.wait(), 0)
            self.assertRegex(run.stderr, "pollux: .*is IPv4, .*is IPv6; give the sgid_index of")

    def test_duration(self):
        self.perftest("ib_write_bw", "-D", "1")

    def test_json(self):
        report = self.directory / "report.json"
        self.both(("ib_send_lat", "-x", "0", "-F", "-n", "100"),
                  ("ib_send_lat", "-x", "0", "-F", "-n", "100", "--out_json",
                   f"--out_json_file={report}", SERVER))
        # Names without quotation marks: no parser of JSON takes it.
        text = report.read_text()
        self.assertIn("results", text)
        self.assertIn("n_iterations: 100", text.replace('"', ""))
