"""Tests `pollux run` with programs that use verbs by way of other libraries.

fi_pingpong (-c), io_demo (-q) and rpma_program check the data that they receive. fio checks only
what it receives by SEND. ucx_perftest checks nothing.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from tests.command.harness import TIMEOUT_S, wait_for
from tests.command.run_test import RunTest

FIO_PORT, RPMA_PORT = "8888", "7204"
RPMA_SOURCE = pathlib.Path(os.path.abspath("tests/command/rpma_program.c"))
LISTENING = " 0A "  # the state LISTEN in /proc/net/tcp


class OverTcpTest(RunTest):
    """Programs whose two sides connect by a TCP port of their own."""

    tcp_port = None

    def listens(self, server, name):
        for table in ("tcp", "tcp6"):
            try:
                text = pathlib.Path(f"/proc/{server.process.pid}/net/{table}").read_text()
            except OSError:
                return False  # the server has just ended
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
        usage = subprocess.run(["ucx_perftest", "-h"], capture_output=True, text=True, check=False)
        if "-P <0|1>" in usage.stdout + usage.stderr:  # made with MPI, which it uses unless told
            program += ("-P", "0")
        self.both((*program, *options), (*program, self.meeting, *options))

    def test_ucx_finds_the_device(self):
        run = self.finish_program(self.server_host, "ucx_info", "-d")
        for words in ("Transport: rc_verbs", "Transport: ud_verbs", "Device: pollux0:1"):
            self.assertIn(words, run.stdout)

    def test_works_over_rc(self):
        self.ucx("rc_v", "-t", "tag_lat", "-n", "50", "-w", "5")

    def test_works_over_rc_with_ud(self):
        self.ucx("rc_verbs,ud_verbs", "-t", "tag_bw", "-s", "65536", "-n", "50", "-w", "5")
        for test, size in (("ucp_get", "4096"), ("ucp_put_bw", "4096"), ("ucp_fadd", "8")):
            self.ucx("rc_verbs,ud_verbs", "-t", test, "-s", size, "-n", "50", "-w", "5")

    def test_works_over_ud(self):
        self.ucx("ud_verbs", "-t", "tag_lat", "-s", "1000", "-n", "50", "-w", "5")


class UcxOverRdmaCmTest(RunTest):
    """UCX over RDMA CM, with its own queue pairs, rdma_establish and rdma_init_qp_attr."""

    def io_demo(self, transports):
        if shutil.which("io_demo") is None:
            self.skipTest("needs the command io_demo")
        program = ("env", f"UCX_TLS={transports}", "UCX_NET_DEVICES=pollux0:1", "io_demo", "-q",
                   "-d", "64:65536")
        self.start_server(*program)  # for ever
        client = self.finish_program(self.client_host, *program, "-i", "50", self.address)
        self.assertEqual(client.process.returncode, 0, client.stdout + client.stderr)
        self.assertIn("Client exit with status 'OK'", client.stdout + client.stderr)

    def test_works_over_rc(self):
        self.io_demo("rc_v")

    def test_works_over_rc_with_ud(self):
        self.io_demo("rc_verbs,ud_verbs")


class LibfabricTest(OverTcpTest):
    tcp_port = 47592

    def fi_pingpong(self, provider, endpoint, *options):
        # -c makes libfabric check the received data.
        program = (*options, "fi_pingpong", "-p", provider, "-e", endpoint, "-c", "-I", "5")
        self.both(program, (*program, self.address))

    def test_message_endpoints_work(self):
        self.fi_pingpong("verbs", "msg")

    def test_datagram_endpoints_work(self):
        self.fi_pingpong("verbs", "dgram")

    def test_reliable_datagram_endpoints_work(self):
        self.fi_pingpong("verbs;ofi_rxm", "rdm")

    def test_rdm_with_an_oversized_universe_is_an_error(self):
        if shutil.which("fi_pingpong") is None:
            self.skipTest("needs the command fi_pingpong")
        program = ("env", "FI_UNIVERSE_SIZE=65536", "fi_pingpong", "-p", "verbs;ofi_rxm", "-e",
                   "rdm", "-I", "5")
        server = self.start_server(*program)
        client = self.finish_program(self.client_host, *program, self.address)
        for run in (client, server):
            self.assertNotEqual(run.wait(), 0)
        self.assertRegex(server.stderr + client.stderr,
                         r"pollux: completion queue of \d+ entries asked for; 1 to \d+ are allowed;"
                         r" libfabric asks for fewer entries if FI_UNIVERSE_SIZE is smaller")


class DaplTest(RunTest):
    """uDAPL's own tests.

    A server creates its queue pair before a peer connects, and accepts with that queue pair on the
    identifier of the peer's request.
    """

    def dapl_argv(self, program, *options):
        if shutil.which(program) is None:
            self.skipTest(f"needs the command {program}")
        registry = self.directory / "dat.conf"
        registry.write_text('wire u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "wire 0" ""')
        return ("env", f"DAT_OVERRIDE={registry}", program, "-P", "wire", *options)

    def test_dtestsrq_passes(self):
        program = self.dapl_argv("dtestsrq")
        self.both((*program, "-s"), (*program, "-h", self.address))

    def test_dtestcm_passes(self):
        program = self.dapl_argv("dtestcm")
        said = self.both((*program, "-s"), (*program, "-h", self.address))
        self.assertIn("DAPL Connection Test Complete", said)  # the exit status is always 0


class DaplOverTcpTest(OverTcpTest, DaplTest):
    """uDAPL's tests whose client first asks the server for its address by TCP.

    The server answers first and listens in CM only afterwards. So the test relays the TCP
    connection, and passes the answer on when the server listens in CM.
    """

    tcp_port = 15828
    ANSWER_SIZE = 128
    test_dtestsrq_passes = test_dtestcm_passes = None

    def introduced(self, program, *options):
        """Runs both sides, which must succeed, and returns the client's output."""
        argv = self.dapl_argv(program, *options)
        server = self.start_server(*argv, "-s")
        with self.server_host.entered():
            to_server = self.enterContext(
                socket.create_connection((self.meeting, self.tcp_port), TIMEOUT_S))
        answer = to_server.recv(self.ANSWER_SIZE, socket.MSG_WAITALL)
        to_server.sendall(answer)  # dtestx's server wants one too, and uses it for UD only
        wait_for(f"{program} to listen in CM", lambda: self.listens_in_cm("server"))
        with self.client_host.entered():
            listener = self.enterContext(socket.create_server(("127.0.0.1", self.tcp_port)))
        listener.settimeout(TIMEOUT_S)
        client = self.run_program(self.client_host, *argv, "-h", "127.0.0.1")
        to_client = self.enterContext(listener.accept()[0])
        to_client.sendall(answer)
        client.wait(self.timeout_s)
        said = client.stdout + client.stderr
        self.assertTrue(self.end_well(client, server), f"{server.stdout}{server.stderr}\n{said}")
        self.assertRegex(server.stdout, "PASSED|Complete")
        return said

    def test_dtest_passes(self):
        # 20 writes of 64 KiB each way; without these options dtest would move 8 GB.
        said = self.introduced("dtest", "-b", 65536, "-B", 20)
        self.assertIn("DAPL Test Complete. PASSED", said)

    def test_dtestx_passes(self):
        said = self.introduced("dtestx")
        for words in ("RDMA_WRITE_WITH_IMMEDIATE_DATA test - PASSED", "CMP_SWAP test - PASSED",
                      "FETCH_ADD test - PASSED", "immed/atomic test PASSED"):
            self.assertIn(words, said)


class FioTest(RunTest):
    def fio(self, verb, *options, size="2m", server_depth=1):
        common = ("fio", "--name=job", "--thread", "--ioengine=rdma", f"--port={FIO_PORT}",
                  "--bs=64k", f"--size={size}", f"--verb={verb}", *options)
        # The side with --rw=read is the server, whatever the verb is.
        self.both((*common, "--rw=read", f"--iodepth={server_depth}"),
                  (*common, "--rw=write", f"--hostname={self.address}", "--iodepth=4"))

    def test_fio_writes(self):
        self.fio("write")

    def test_fio_reads(self):
        self.fio("read")

    # fio requests no RNR retry, so the server posts all receives before the client sends.
    def test_fio_sends(self):
        # With do_verify the sender would read all data back at the end, which SEND cannot do.
        self.fio("send", "--verify=crc32c", "--do_verify=0", size="1m", server_depth=16)


class QperfTest(OverTcpTest):
    """qperf, whose ver_ tests check the results of atomics.

    Its UD tests are not run: they use LIDs as addresses, also with CM, which no RoCE device has.
    """

    tcp_port = 19765

    def qperf(self, *tests):
        if shutil.which("qperf") is None:
            self.skipTest("needs the command qperf")
        self.start_server("qperf")  # for ever
        for test in tests:
            wait_for(test, lambda test=test: self.measured(test))

    def measured(self, test):
        """Returns whether the test was measured.

        It is not if the client connects before the server listens in CM, since the server sends its
        port before it listens. The next client then waits in vain for a port, while that server
        still waits for the first connection.
        """
        client = self.finish_program(self.client_host, "qperf", self.meeting, "-cm1", "-t", 1, test)
        said = client.stdout + client.stderr
        if "Event rejected" in said or "server port: timed out" in said:
            return False
        self.assertEqual(client.process.returncode, 0, said)
        self.assertRegex(said, r" = +[0-9.]*[1-9]")
        return True

    def test_send_read_and_write_tests_work(self):
        self.qperf("rc_lat", "rc_bw", "rc_rdma_read_bw", "rc_rdma_write_bw")

    def test_atomic_tests_work(self):
        self.qperf("ver_rc_compare_swap", "ver_rc_fetch_add")


class RpmaTest(RunTest):
    def test_a_file_in_memory_is_written_flushed_and_read(self):
        if self.compile(text="#include <librpma.h>\nint main(void) { return 0; }\n") is None:
            self.skipTest("needs librpma")
        program = self.compile("-lrpma", text=RPMA_SOURCE.read_text())
        self.assertIsNotNone(program)
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            said = self.both((program, self.address, RPMA_PORT, file.name),
                             (program, self.address, RPMA_PORT))
        self.assertIn("all as expected", said)


class CmtimeTest(RunTest):
    def test_cmtime_works(self):
        # That of rdma-core 44 runs for ever, that of 56 until it has had as many connections.
        self.start_server("cmtime", "-b", self.address, "-c", "20")
        client = self.finish_program(self.client_host, "cmtime", "-s", self.address, "-c", "20")
        self.assertEqual(client.process.returncode, 0, client.stdout + client.stderr)


class StalledPeerTest(RunTest):
    """Programs of which one side is stopped repeatedly.

    Each stop is longer than the total timeout that perftest sets: eight times 67 ms.
    """

    STALL_S, BETWEEN_S = 0.7, 0.2

    def stall_server(self, *argv):
        server = self.start_server(*argv)
        client = self.run_program(self.client_host, *argv, self.meeting)
        while client.process.poll() is None:
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(self.STALL_S)
            server.process.send_signal(signal.SIGCONT)
            time.sleep(self.BETWEEN_S)
        self.assertTrue(self.end_well(client, server),
                        client.stdout + client.stderr + server.stdout + server.stderr)

    def test_perftest_survives_a_stalled_server(self):
        self.stall_server("ib_write_bw", "-x", "0", "-F", "-D", "2")
        self.stall_server("ib_send_bw", "-x", "0", "-F", "-D", "2", "-s", "4096")
