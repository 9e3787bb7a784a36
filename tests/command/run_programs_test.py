"""pollux run: programs that stand on verbs by way of other libraries, and perftest's options."""

import pathlib
import shutil

from tests.command.harness import SERVER
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


class FioTest(RunTest):
    def fio(self, verb, *server_options):
        common = ("fio", "--name=job", "--thread", "--ioengine=rdma", f"--port={FIO_PORT}",
                  "--bs=64k", "--size=2m", f"--verb={verb}")
        # Who reads is the server, whatever the verb.
        self.both((*common, "--rw=read", *server_options),
                  (*common, "--rw=write", f"--hostname={SERVER}", "--iodepth=4"))

    def test_write(self):
        self.fio("write")

    def test_read(self):
        self.fio("read")

    # As many buffers as there are messages: for each one too few the client would wait 655 ms, the
    # pause that RDMA CM asks for by default.
    def test_send(self):
        self.fio("send", "--iodepth=32")


class CmtimeTest(RunTest):
    def test_cmtime(self):
        # It serves for ever.
        self.start_server("cmtime", "-b", SERVER)
        client = self.finish_program(self.client_host, "cmtime", "-s", SERVER, "-c", "20")
        self.assertEqual(client.process.returncode, 0, client.stdout + client.stderr)


class PerftestOptionsTest(RunTest):
    def perftest(self, program, *options):
        self.pingpong(program, "-x", "0", "-F", *options)

    def test_both_ways_with_several_queue_pairs(self):
        self.perftest("ib_write_bw", "-n", "100", "-b", "-q", "4")
        self.perftest("ib_read_bw", "-n", "100", "-b", "-q", "2", "-s", "4096")

    def test_inline(self):
        self.perftest("ib_write_lat", "-n", "100", "-I", "64", "-s", "64")

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
