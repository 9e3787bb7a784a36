"""pollux run: programs that were made for libibverbs and librdmacm, as Debian ships them."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

from tests.command.harness import CLIENT, PATIENCE_S, POLLUX, SERVER, wait_for
from tests.command.networks import SharedInterface

# Where perftest and the pingpongs of libibverbs listen for the other side, in /proc/PID/net/tcp.
PERFTEST_LISTENS = f":{18515:04X} "
TCP_LISTEN = " 0A "
LOSES = ("--impair", "loss=0.01")  # of what is sent and of what is received

class RunTest(SharedInterface):
    port_options = ("--netdev", "wire")
    patience_s = PATIENCE_S

    def make_network(self):
        linked = subprocess.run(["ldd", POLLUX], capture_output=True, text=True, check=True).stdout
        if any(name in linked for name in ("libasan", "libtsan", "libubsan")):
            self.skipTest("needs libraries that a program without sanitizers can load")
        hosts = super().make_network()
        for host in hosts:
            # They come late and go first in the GID table: without them index 0 is IPv4's.
            self.assertTrue(host.shell("ip link set wire addrgenmode none;"
                                       "ip addr flush dev wire scope link"))
        return hosts

    def run_program(self, host, *argv, options=()):
        if shutil.which(argv[0]) is None:
            self.skipTest(f"needs the command {argv[0]}")
        return self.start(host, "run", *self.port_options, *options, "--", *argv)

    def finish_program(self, host, *argv):
        run = self.run_program(host, *argv)
        run.wait(self.patience_s)
        return run

    def listens(self, server, name):
        """Whether the server waits for its client: on perftest's TCP port, or in CM."""
        for table in ("tcp", "tcp6"):
            try:
                text = pathlib.Path(f"/proc/{server.process.pid}/net/{table}").read_text()
            except OSError:
                return False  # it has just ended
            if any(PERFTEST_LISTENS in line and TCP_LISTEN in line for line in text.splitlines()):
                return True
        told = self.finish(self.server_host, "connections", "--json", "--file-prefix", name)
        if told.process.returncode != 0:
            return False
        (process,) = json.loads(told.stdout)["processes"]
        return any(one["state"] == "LISTEN" for one in process["connections"])

    def start_server(self, *argv, name="server"):
        """Returns when it listens; `name` tells it from others that run at the same time."""
        server = self.run_program(self.server_host, *argv, options=("--file-prefix", name))

        def ready():
            if server.process.poll() is not None:
                self.fail(f"{argv} ended with {server.process.returncode}:\n"
                          f"{server.stdout}{server.stderr}")
            return self.listens(server, name)

        wait_for(f"{argv[0]} to listen", ready)
        return server

    def both(self, server_argv, client_argv):
        """Runs the two to their ends, which must be good; returns what the client printed."""
        server = self.start_server(*server_argv)
        client = self.finish_program(self.client_host, *client_argv)
        said = client.stdout + client.stderr
        good = self.end_well(client, server)
        self.assertTrue(good, f"{server_argv}\n{server.stdout}{server.stderr}\n"
                        f"{client_argv}\n{said}")
        return said

    def end_well(self, client, server):
        """Whether the client, which has ended, and its server do."""
        return client.process.returncode == 0 and server.wait(self.patience_s) == 0

    def pingpong(self, program, *options):
        self.both((program, *options), (program, *options, SERVER))


class DeviceTest(RunTest):
    def test_devices(self):
        run = self.finish_program(self.server_host, "ibv_devices")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assertIn("pollux0", run.stdout)

    def test_devinfo(self):
        run = self.finish_program(self.server_host, "ibv_devinfo", "-v")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        for words in ("PORT_ACTIVE (4)", "active_mtu:\t\t4096", "ATOMIC_GLOB",
                      "::ffff:10.0.0.1, RoCE v2"):
            self.assertIn(words, run.stdout)

    def test_program_is_found_or_not(self):
        run = self.finish(self.server_host, "run", "--netdev", "wire", "--", "no-such-program")
        self.assert_one_line(run, 127, "no-such-program", "No such file")
        run = self.finish(self.server_host, "run", "--netdev", "wire", "--", "/")
        self.assert_one_line(run, 126, "Permission denied")
        run = self.finish(self.server_host, "run", "--netdev", "wire", "--", "sh", "-c", "exit 7")
        self.assertEqual(run.process.returncode, 7)
        self.assert_one_line(self.finish(self.server_host, "run", "--netdev", "wire"), 2,
                             "which program")
        self.assert_one_line(self.finish(self.server_host, "run", "--", "true"), 2, "which port")
        self.assert_one_line(self.finish(self.server_host, "run", "--netdev", "wire", "--core",
                                         "1023", "--", "true"), 2, "CPU 1023", "may not run there")

    def test_interface_that_is_not_there(self):
        run = self.finish(self.server_host, "run", "--netdev", "nowhere", "--", "ibv_devinfo")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("nowhere", run.stderr)

    def test_link_that_goes_and_comes(self):
        if shutil.which("ibv_asyncwatch") is None:
            self.skipTest("needs the command ibv_asyncwatch")
        watch = self.run_program(self.server_host, "stdbuf", "-oL", "ibv_asyncwatch")
        wait_for("a watch", lambda: "async event FD" in watch.stdout)
        for command, event in (("set wire down", "PORT_ERR"), ("set wire up", "PORT_ACTIVE"),
                               ("del wire", "DEVICE_FATAL")):
            self.assertTrue(self.client_host.shell(f"ip link {command}"))
            wait_for(event, lambda event=event: f"IBV_EVENT_{event} " in watch.stdout)
        self.assertEqual(watch.stdout.count("event_type"), 4, watch.stdout)

    def test_rsockets_are_refused(self):
        run = self.finish_program(self.server_host, "rstream", "-s", "127.0.0.1")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("Operation not supported", run.stdout + run.stderr)


class TapTest(RunTest):
    port_options = ("--port", "net_tap0,iface=plx0", "--address", "10.0.2.1/24")

    def test_frames_do_not_interrupt_a_program_that_waits(self):
        server = self.start_server("ucmatose")
        self.assertTrue(self.server_host.shell("ip addr add 10.0.2.2/24 dev plx0;"
                                               "ip link set plx0 up; ping -c 3 -i 0.2 10.0.2.1"))
        self.assertIsNone(server.process.poll(), server.stderr)


class MemifTest(RunTest):
    """Two processes that share memory. The server looks at its port before its client is there."""

    port_options = ()

    def run_program(self, host, *argv, options=()):
        role, address = (("server", SERVER) if host is self.server_host else ("client", CLIENT))
        port = ("--port", f"net_memif0,role={role},socket={self.directory}/memif", "--address",
                f"{address}/24")
        return super().run_program(host, *argv, options=(*port, *options))

    def test_perftest(self):
        self.pingpong("ib_send_lat", "-x", "1", "-F", "-n", "200")
        self.pingpong("ib_write_bw", "-x", "1", "-F", "-n", "200", "-s", "65536")

    def test_connections(self):
        self.both(("rping", "-s", "-a", SERVER, "-C", "20", "-V"),
                  ("rping", "-c", "-a", SERVER, "-C", "20", "-V"))


class PingpongTest(RunTest):
    def test_rc(self):
        self.pingpong("ibv_rc_pingpong", "-g", "0", "-c", "-n", "200")

    def test_rc_that_sleeps(self):
        self.pingpong("ibv_rc_pingpong", "-g", "0", "-c", "-e", "-n", "200")

    def test_rc_by_the_calls_that_build_requests(self):
        self.pingpong("ibv_rc_pingpong", "-g", "0", "-c", "-N", "-n", "200")

    def test_rc_without_a_gid(self):
        server = self.start_server("ibv_rc_pingpong")
        client = self.finish_program(self.client_host, "ibv_rc_pingpong", SERVER)
        self.assertNotEqual(client.process.returncode, 0)
        # Which connects first, and tells its client nothing any more.
        self.assertNotEqual(server.wait(), 0)
        self.assertIn("pollux: address handle: is_global is 0", server.stderr)

    def test_uc(self):
        self.pingpong("ibv_uc_pingpong", "-g", "0", "-c", "-n", "200")

    def test_ud(self):
        self.pingpong("ibv_ud_pingpong", "-g", "0", "-c", "-n", "200")
        self.pingpong("ibv_ud_pingpong", "-g", "0", "-c", "-e", "-n", "200")

    def test_srq(self):
        self.pingpong("ibv_srq_pingpong", "-g", "0", "-c", "-n", "200")
        self.pingpong("ibv_srq_pingpong", "-g", "0", "-c", "-e", "-n", "200")


class PerftestTest(RunTest):
    def perftest(self, program, *options):
        # The address of the interface, and a message count for a test that judges data, not rate.
        self.pingpong(program, "-x", "0", "-F", "-n", "200", *options)

    def test_send(self):
        self.perftest("ib_send_lat")
        self.perftest("ib_send_bw", "-b", "-q", "2")
        self.perftest("ib_send_lat", "-e")
        self.perftest("ib_send_lat", "-c", "UD")

    def test_write(self):
        self.perftest("ib_write_lat")
        self.perftest("ib_write_bw", "-s", "1048576", "-n", "20")

    def test_read(self):
        self.perftest("ib_read_lat")
        self.perftest("ib_read_bw", "-s", "65536")

    def test_atomic(self):
        self.perftest("ib_atomic_lat")
        self.perftest("ib_atomic_bw", "-A", "CMP_AND_SWAP")

    # The server ends its first listener and begins another, which its client does not wait for.
    def test_connected_by_cm(self):
        self.perftest("ib_send_lat", "-R")
        self.perftest("ib_send_lat", "-R", "-c", "UD")
        self.perftest("ib_send_bw", "-R", "-b", "-q", "4")
        self.perftest("ib_write_bw", "-R")
        self.perftest("ib_read_bw", "-R")


class LastAcknowledgementTest(RunTest):
    """One side of a pingpong is gone when it has all that it waits for: where its last
    acknowledgement is lost, nobody is left to repeat it to the other."""

    port_options = (*RunTest.port_options, *LOSES)

    def end_well(self, client, server):
        server.wait()
        good = [run.process.returncode == 0 for run in (client, server)]
        return any(good) and all(
            ended or "transport retry counter exceeded" in run.stdout + run.stderr
            for ended, run in zip(good, (client, server)))

    def test_pingpongs(self):
        self.pingpong("ibv_rc_pingpong", "-g", "0", "-c", "-n", "500")
        self.pingpong("ibv_rc_pingpong", "-g", "0", "-c", "-e", "-n", "500")
        self.pingpong("ibv_srq_pingpong", "-g", "0", "-c", "-n", "500")


class LossTest(RunTest):
    """Each end loses every hundredth packet of what it sends and of what it receives."""

    port_options = (*RunTest.port_options, *LOSES)

    def test_perftest(self):
        self.pingpong("ib_send_lat", "-x", "0", "-F", "-n", "300")
        self.pingpong("ib_send_lat", "-x", "0", "-F", "-n", "300", "-R")
        self.pingpong("ib_send_bw", "-x", "0", "-F", "-n", "300", "-b", "-q", "2")
        self.pingpong("ib_write_bw", "-x", "0", "-F", "-n", "300", "-s", "65536")
        self.pingpong("ib_read_bw", "-x", "0", "-F", "-n", "300", "-s", "65536")
        self.pingpong("ib_atomic_bw", "-x", "0", "-F", "-n", "300")

    def test_connections(self):
        self.both(("rping", "-s", "-a", SERVER, "-C", "100", "-V"),
                  ("rping", "-c", "-a", SERVER, "-C", "100", "-V"))
        self.both(("ucmatose", "-c", "5", "-C", "20"),
                  ("ucmatose", "-s", SERVER, "-c", "5", "-C", "20"))


class RdmaCmTest(RunTest):
    def test_rping(self):
        self.both(("rping", "-s", "-a", SERVER, "-C", "20", "-V"),
                  ("rping", "-c", "-a", SERVER, "-C", "20", "-V"))

    # On an interface without a link-local address.
    def test_rping_over_ipv6(self):
        self.both(("rping", "-s", "-a", "fd00::1", "-C", "20", "-V"),
                  ("rping", "-c", "-a", "fd00::1", "-C", "20", "-V"))

    def test_ucmatose(self):
        said = self.both(("ucmatose", "-c", "5", "-C", "20"),
                         ("ucmatose", "-s", SERVER, "-c", "5", "-C", "20"))
        self.assertIn("data transfers complete", said)

    def test_udaddy(self):
        self.both(("udaddy", "-c", "2", "-C", "10"),
                  ("udaddy", "-s", SERVER, "-c", "2", "-C", "10"))

    def test_endpoints(self):
        self.both(("rdma_server",), ("rdma_client", "-s", SERVER))
        self.both(("rdma_xserver", "-c", "r"), ("rdma_xclient", "-s", SERVER, "-c", "r"))

    def test_multicast(self):
        receiver = self.run_program(self.server_host, "mckey", "-m", "239.1.2.3", "-C", "5")

        # Nobody answers for a group: what is sent before the receiver has joined is lost.
        def received():
            sender = self.finish_program(self.client_host, "mckey", "-m", "239.1.2.3", "-C", "5",
                                         "-s")
            self.assertEqual(sender.process.returncode, 0, sender.stdout + sender.stderr)
            return receiver.process.poll() is not None

        wait_for("five messages", received)
        self.assertEqual(receiver.wait(), 0, receiver.stdout + receiver.stderr)

    def test_nobody_listens(self):
        self.start_server("rping", "-s", "-p", "7999")
        run = self.finish_program(self.client_host, "rping", "-c", "-a", SERVER, "-C", "1")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", run.stderr)

    def test_program_that_a_signal_ends_takes_leave(self):
        server = self.start_server("rping", "-s", "-a", SERVER)
        client = self.run_program(self.client_host, "rping", "-c", "-a", SERVER, "-v")  # for ever
        wait_for("a ping", lambda: "ping data" in client.stdout)
        client.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.wait(), -signal.SIGTERM)
        server.wait(self.patience_s)
        self.assertIn("DISCONNECT EVENT", server.stderr)

    def test_one_program_on_an_interface(self):
        self.start_server("rping", "-s")
        run = self.finish_program(self.server_host, "ibv_devinfo")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("UDP port 4791 is taken", run.stderr)

    def test_two_programs_on_two_interfaces(self):
        self.assertTrue(self.server_host.shell(
            "ip link add wire2 type veth peer name wire2 netns "
            f"{self.client_host.holder.pid}"))
        for host, last in ((self.server_host, "1"), (self.client_host, "2")):
            self.assertTrue(host.shell("ip link set wire2 mtu 4400 up;"
                                       f"ip addr add 10.0.1.{last}/24 dev wire2"))
        pairs = []
        for netdev, address in (("wire", SERVER), ("wire2", "10.0.1.1")):
            self.port_options = ("--netdev", netdev)
            rping = ("rping", "-a", address, "-C", "300", "-V")
            server = self.start_server(*rping, "-s", name=netdev)
            pairs.append((server, self.run_program(self.client_host, *rping, "-c")))
        for server, client in pairs:
            self.assertEqual(client.wait(), 0, client.stdout + client.stderr)
            self.assertEqual(server.wait(), 0, server.stdout + server.stderr)

    def test_nothing_is_left(self):
        before = set(os.listdir("/tmp")) | set(os.listdir("/dev/shm"))
        self.test_rping()
        after = set(os.listdir("/tmp")) | set(os.listdir("/dev/shm"))
        self.assertEqual({name for name in after - before if "pollux" in name or "dpdk" in name},
                         set())
