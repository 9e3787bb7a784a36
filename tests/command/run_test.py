"""Tests `pollux run` with programs for libibverbs and librdmacm, as Debian ships them."""

import contextlib
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

from tests.command.harness import CLIENT, POLLUX, ROCE_PORT, SERVER, TIMEOUT_S, wait_for
from tests.command.networks import SharedInterface

# The port in /proc/PID/net/tcp on which perftest and libibverbs' pingpongs wait for their clients.
PERFTEST_LISTENS = f":{18515:04X} "
TCP_LISTEN = " 0A "

DEVICES = """#include <infiniband/verbs.h>
#include <stdio.h>
int main(void) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  printf("%d %s\\n", count, count > 0 ? ibv_get_device_name(list[0]) : "-");
  ibv_free_device_list(list);
  return 0;
}
"""


# Blocks the signal only after it has opened the device, which works with rdma-core's libraries,
# since they have no threads.
WAITS_FOR_SIGNAL = """#include <infiniband/verbs.h>
#include <signal.h>
#include <unistd.h>
int main(void) {
  int taken = 0;
  sigset_t set;
  if (ibv_open_device(ibv_get_device_list(NULL)[0]) == NULL) return 1;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGUSR1);
  sigwait(&set, &taken);
  return taken == SIGUSR1 ? 0 : 2;
}
"""


# Loads and unloads libibverbs, as uDAPL does together with its providers.
UNLOADS = """#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  for (int i = 0; i < 3; ++i) {
    void* library = dlopen("libibverbs.so.1", RTLD_NOW);
    if (library == NULL) return 1;
    struct ibv_device** (*list)(int*) = dlsym(library, "ibv_get_device_list");
    struct ibv_context* (*open)(struct ibv_device*) = dlsym(library, "ibv_open_device");
    int (*close)(struct ibv_context*) = dlsym(library, "ibv_close_device");
    struct ibv_context* context = open(list(NULL)[0]);
    if (context == NULL || close(context) != 0 || dlclose(library) != 0) return 2;
    usleep(100000);
  }
  puts("all as expected");
  return 0;
}
"""


# Like rdma_client, but it waits for SIGUSR1 before it sends. Until then rdma_server only waits.
WAITS_BEFORE_IT_SENDS = """#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
static char message[16];
int main(int argc, char** argv) {
  struct rdma_addrinfo hints, *found;
  struct ibv_qp_init_attr attr;
  struct rdma_cm_id* id;
  struct ibv_mr* mr;
  struct ibv_wc wc;
  sigset_t set;
  int taken;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  memset(&hints, 0, sizeof hints);
  memset(&attr, 0, sizeof attr);
  hints.ai_port_space = RDMA_PS_TCP;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  attr.sq_sig_all = 1;
  if (argc < 2 || rdma_getaddrinfo(argv[1], "7471", &hints, &found) != 0) return 1;
  if (rdma_create_ep(&id, found, NULL, &attr) != 0) return 2;
  mr = rdma_reg_msgs(id, message, sizeof message);
  if (mr == NULL || rdma_post_recv(id, NULL, message, sizeof message, mr) != 0) return 3;
  if (rdma_connect(id, NULL) != 0) return 4;
  puts("connected");
  fflush(stdout);
  sigwait(&set, &taken);
  if (rdma_post_send(id, NULL, message, sizeof message, mr, 0) != 0) return 5;
  if (rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS) return 6;
  if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS) return 7;
  return rdma_disconnect(id) == 0 ? 0 : 8;
}
"""


class RunTest(SharedInterface):
    port_options = ("--netdev", "wire")
    timeout_s = TIMEOUT_S
    # The server's addresses for RDMA, the GID index of its IPv4 address, and the address of its
    # kernel for TCP.
    address, address6, gid, meeting = SERVER, "fd00::1", "0", SERVER

    def setUp(self):
        self.runs = []
        super().setUp()

    def make_network(self):
        self.skip_with_sanitizers()
        hosts = super().make_network()
        for host in hosts:
            # Link-local addresses appear late and are first in the GID table; without them index 0
            # is the IPv4 address.
            self.assertTrue(host.shell("ip link set wire addrgenmode none;"
                                       "ip addr flush dev wire scope link"))
        return hosts

    def run_program(self, host, *argv, options=()):
        if shutil.which(argv[0]) is None:
            self.skipTest(f"needs the command {argv[0]}")
        return self.start(host, "run", *self.port_options, *options, "--", *argv)

    def start(self, host, *arguments, **keywords):
        run = super().start(host, *arguments, **keywords)
        self.runs.append(run)
        return run

    def end_all(self):
        """Ends all processes that were started, because the next program needs their ports."""
        while self.runs:
            self.runs.pop().close()

    def need_gcc(self):
        if shutil.which("gcc") is None:
            self.skipTest("needs the command gcc")

    def compile(self, *options, text=DEVICES):
        """Compiles and returns a program, by default DEVICES; returns None if that fails."""
        self.need_gcc()
        source, program = self.directory / "program.c", self.directory / "program"
        source.write_text(text)
        done = subprocess.run(["gcc", source, "-o", program, *options, "-libverbs"],
                              capture_output=True, text=True, check=False)
        return program if done.returncode == 0 else None

    def finish_program(self, host, *argv):
        run = self.run_program(host, *argv)
        run.wait(self.timeout_s)
        return run

    def listens(self, server, name):
        """Returns whether the server waits for its client, on perftest's TCP port or in CM."""
        for table in ("tcp", "tcp6"):
            try:
                text = pathlib.Path(f"/proc/{server.process.pid}/net/{table}").read_text()
            except OSError:
                return False  # the server has just ended
            if any(PERFTEST_LISTENS in line and TCP_LISTEN in line for line in text.splitlines()):
                return True
        return self.listens_in_cm(name)

    def listens_in_cm(self, name):
        """Returns whether a process has a listener in CM.

        It queries the telemetry socket: running `pollux connections` each time takes more CPU time.
        """
        try:
            (path,) = glob.glob(f"{self.directory}/dpdk/{name}/*.v2")
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
                asked.settimeout(TIMEOUT_S)
                asked.connect(path)
                asked.recv(1 << 16)  # the greeting

                def ask(topic, parameters):
                    asked.send(f"/pollux/{topic},{parameters}".encode())
                    return json.loads(asked.recv(1 << 16))[f"/pollux/{topic}"] or {}  # null: none

                def comm_ids():
                    after = 0
                    while page := ask("connections", f"0,{after}"):  # a page has at most 512
                        yield from page
                        after = page[-1]

                return any(ask("connection", f"{comm_id},0").get("state") == "LISTEN"
                           for comm_id in comm_ids())
        except (OSError, ValueError, KeyError):
            return False  # the process has just begun or ended

    def start_server(self, *argv, name="server"):
        """Starts a server and returns it when it listens; `name` must differ among running ones."""
        server = self.run_program(self.server_host, *argv, options=("--file-prefix", name))

        def ready():
            if server.process.poll() is not None:
                self.fail(f"{argv} ended with {server.process.returncode}:\n"
                          f"{server.stdout}{server.stderr}")
            return self.listens(server, name)

        wait_for(f"{argv[0]} to listen", ready)
        return server

    def both(self, server_argv, client_argv):
        """Runs server and client, which must both succeed; returns the client's output."""
        server = self.start_server(*server_argv)
        client = self.finish_program(self.client_host, *client_argv)
        said = client.stdout + client.stderr
        good = self.end_well(client, server)
        self.assertTrue(good, f"{server_argv}\n{server.stdout}{server.stderr}\n"
                        f"{client_argv}\n{said}")
        return said

    def end_well(self, client, server):
        """Waits for the server; returns whether it and the client, which has ended, succeeded."""
        return client.process.returncode == 0 and server.wait(self.timeout_s) == 0

    def pingpong(self, program, *options):
        self.both((program, *options), (program, *options, self.meeting))

    def pingpongs(self, rows, *options):
        """Runs each command line as server and client, also after one has failed."""
        for row in rows:
            with self.subTest(row):
                try:
                    self.pingpong(*row.split(), *options)
                finally:
                    self.end_all()

    def rping(self, count, address=None):
        common = ("rping", "-a", address or self.address, "-C", count, "-V")
        self.both((*common, "-s"), (*common, "-c"))


class DeviceTest(RunTest):
    def test_ibv_devices_lists_the_device(self):
        run = self.finish_program(self.server_host, "ibv_devices")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assertIn("pollux0", run.stdout)

    def test_ibv_devinfo_shows_the_port(self):
        run = self.finish_program(self.server_host, "ibv_devinfo", "-v")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        for words in ("PORT_ACTIVE (4)", "active_mtu:\t\t4096", "ATOMIC_GLOB",
                      "::ffff:10.0.0.1, RoCE v2"):
            self.assertIn(words, run.stdout)

    def test_a_program_may_unload_libibverbs(self):
        program = self.compile("-Wl,--as-needed", text=UNLOADS)
        self.assertIsNotNone(program)
        run = self.finish_program(self.server_host, program)
        self.assertEqual((run.process.returncode, run.stdout), (0, "all as expected\n"), run.stderr)

    def test_exit_status_follows_the_program_and_tells_a_missing_one(self):
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
                                         "1023", "--", "true"), 2, "CPU 1023", "has no CPU")

    def assert_finds_pollux(self, *argv, options=(), environment=None):
        run = self.start(self.server_host, "run", *self.port_options, *options, "--", *argv,
                         environment=environment)
        self.assertEqual((run.wait(), run.stdout), (0, "1 pollux0\n"), run.stderr)

    def test_a_program_with_an_rpath_to_rdma_core_uses_pollux(self):
        self.need_gcc()
        found = subprocess.run(["gcc", "-print-file-name=libibverbs.so"], capture_output=True,
                               text=True, check=True).stdout.strip()
        rpath = f"-Wl,-rpath,{os.path.dirname(os.path.realpath(found))}"
        self.assert_finds_pollux(self.compile(rpath, "-Wl,--enable-new-dtags"))
        program = self.compile(rpath, "-Wl,--disable-new-dtags")
        self.assert_finds_pollux(program)
        self.assert_finds_pollux("env", program, options=("--preload",))

    def test_static_and_32_bit_programs_are_refused(self):
        program = self.compile("-static", text="int main(void) { return 0; }\n")
        if program is None:
            self.skipTest("needs the C library as an archive")
        run = self.finish(self.server_host, "run", "--netdev", "wire", "--", program)
        self.assert_one_line(run, 126, str(program), "statically")
        file = bytearray(program.read_bytes())
        file[4] = 1  # EI_CLASS
        program.write_bytes(file)
        run = self.finish(self.server_host, "run", "--netdev", "wire", "--", program)
        self.assert_one_line(run, 126, str(program), "32-bit")

    def test_a_program_built_with_address_sanitizer_uses_pollux(self):
        program = self.compile("-fsanitize=address")
        if program is None:
            self.skipTest("needs gcc's libasan")
        self.assert_finds_pollux(program)
        libasan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True,
                                 text=True, check=True).stdout.strip()
        # ASan's own advice is to preload it.
        self.assert_finds_pollux(program, environment={"LD_PRELOAD": libasan})

    def test_a_program_that_waits_for_a_signal_gets_it(self):
        run = self.finish_program(self.server_host, self.compile(text=WAITS_FOR_SIGNAL))
        self.assertEqual(run.process.returncode, 0, run.stderr)

    def test_a_missing_interface_is_an_error(self):
        run = self.finish(self.server_host, "run", "--netdev", "nowhere", "--", "ibv_devinfo")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("nowhere", run.stderr)

    def test_link_changes_are_async_events(self):
        if shutil.which("ibv_asyncwatch") is None:
            self.skipTest("needs the command ibv_asyncwatch")
        watch = self.run_program(self.server_host, "stdbuf", "-oL", "ibv_asyncwatch")
        wait_for("a watch", lambda: "async event FD" in watch.stdout)
        for command, event in (("set wire down", "PORT_ERR"), ("set wire up", "PORT_ACTIVE"),
                               ("del wire", "DEVICE_FATAL")):
            self.assertTrue(self.client_host.shell(f"ip link {command}"))
            wait_for(event, lambda event=event: f"IBV_EVENT_{event} " in watch.stdout)
        self.assertEqual(watch.stdout.count("event_type"), 4, watch.stdout)

    def test_programs_with_one_capture_file_have_a_file_each(self):
        if shutil.which("ibv_asyncwatch") is None:
            self.skipTest("needs the command ibv_asyncwatch")
        file = self.directory / "run.pcapng"
        options = ("--capture", file)
        watch = self.run_program(self.server_host, "stdbuf", "-oL", "ibv_asyncwatch",
                                 options=options)
        wait_for("a watch", lambda: "async event FD" in watch.stdout)
        written = file.stat().st_size
        other = self.run_program(self.server_host, "ibv_devinfo", options=options)
        self.assertEqual(other.wait(), 0, other.stderr)
        (own,) = re.findall(f"another process writes {file}; this one captures into (.*)",
                            other.stderr)
        self.assertRegex(own, f"^{re.escape(str(file))}[.][0-9]+$")
        self.assertGreater(pathlib.Path(own).stat().st_size, 0)
        self.assertGreaterEqual(file.stat().st_size, written)

    def test_rc_without_a_gid_is_an_error(self):
        server = self.start_server("ibv_rc_pingpong")
        client = self.finish_program(self.client_host, "ibv_rc_pingpong", SERVER)
        self.assertNotEqual(client.process.returncode, 0)
        # The server connects its queue pair first; it fails and does not answer its client.
        self.assertNotEqual(server.wait(), 0)
        self.assertIn("pollux: address handle: is_global is 0", server.stderr)

    def test_rsockets_are_refused(self):
        run = self.finish_program(self.server_host, "rstream", "-s", "127.0.0.1")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("Operation not supported", run.stdout + run.stderr)


class TapTest(RunTest):
    port_options = ("--port", "net_tap0,iface=plx0", "--address", "10.0.2.1/24")

    def test_tap_frames_do_not_interrupt_a_waiting_program(self):
        server = self.start_server("ucmatose")
        self.assertTrue(self.server_host.shell("ip addr add 10.0.2.2/24 dev plx0;"
                                               "ip link set plx0 up"))
        self.server_host.await_answer("ping -c 3 -i 0.2 10.0.2.1")
        self.assertIsNone(server.process.poll(), server.stderr)


class MemifTest(RunTest):
    """Two processes over shared memory; the server queries its port before a client exists."""

    port_options = ()

    def run_program(self, host, *argv, options=()):
        role, address = (("server", SERVER) if host is self.server_host else ("client", CLIENT))
        port = ("--port", f"net_memif0,role={role},socket={self.directory}/memif", "--address",
                f"{address}/24")
        return super().run_program(host, *argv, options=(*port, *options))

    def test_perftest_works(self):
        self.pingpong("ib_send_lat", "-x", "1", "-F", "-n", "200")
        self.pingpong("ib_write_bw", "-x", "1", "-F", "-n", "200", "-s", "65536")

    def test_rping_connects(self):
        self.rping("20")


class PingpongTest(RunTest):
    """The pingpongs of libibverbs, which check the data that they receive."""

    count = "200"

    def pingpongs(self, rows, *options):
        super().pingpongs(rows, "-c", "-g", self.gid, "-n", self.count, *options)

    # -N uses the calls that build work requests (ibv_wr_*).
    def test_reliable_transports_work(self):
        self.pingpongs(("ibv_rc_pingpong", "ibv_rc_pingpong -e", "ibv_rc_pingpong -N",
                        "ibv_srq_pingpong", "ibv_srq_pingpong -e"))

    def test_unreliable_transports_work(self):
        self.pingpongs(("ibv_uc_pingpong", "ibv_uc_pingpong -e", "ibv_ud_pingpong",
                        "ibv_ud_pingpong -e"))


class CmProgramsTest(RunTest):
    """rdma-core's own programs for the connection manager."""

    pings = "20"

    def test_rping_works(self):
        self.rping(self.pings)

    def test_rping_works_over_ipv6(self):
        self.rping(self.pings, self.address6)

    def test_ucmatose_works(self):
        common = ("ucmatose", "-c", "5", "-C", "20")
        self.assertIn("data transfers complete", self.both(common, (*common, "-s", self.address)))

    def test_udaddy_works(self):
        common = ("udaddy", "-c", "2", "-C", "10")
        self.both(common, (*common, "-s", self.address))

    def test_endpoint_programs_work(self):
        self.both(("rdma_server",), ("rdma_client", "-s", self.address))
        self.both(("rdma_xserver", "-c", "r"), ("rdma_xclient", "-s", self.address, "-c", "r"))

    def test_multicast_messages_arrive(self):
        receiver = self.run_program(self.server_host, "mckey", "-m", "239.1.2.3", "-C", "5")

        # Multicast is not acknowledged: messages sent before the receiver has joined are lost.
        def received():
            sender = self.finish_program(self.client_host, "mckey", "-m", "239.1.2.3", "-C", "5",
                                         "-s")
            self.assertEqual(sender.process.returncode, 0, sender.stdout + sender.stderr)
            return receiver.process.poll() is not None

        wait_for("five messages", received)
        self.assertEqual(receiver.wait(), 0, receiver.stdout + receiver.stderr)


class RefusedTest(RunTest):
    """Programs for features that Pollux lacks: the program, or else Pollux, reports it."""

    def assert_refused(self, words, *argv):
        run = self.finish_program(self.server_host, *argv)
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn(words, run.stdout + run.stderr)

    def test_raw_packet_queue_pairs_are_refused(self):
        flow = "--server -B 02:00:00:00:00:01 -E 02:00:00:00:00:02"
        for program in ("raw_ethernet_bw", "raw_ethernet_lat", "raw_ethernet_fs_rate"):
            with self.subTest(program):
                self.assert_refused("pollux: queue pair of type 8: only", program, *flow.split())
        # This program fails on any device: it always sets a rate limit that it then cannot use.
        self.assert_refused("SW Rate limiter", "raw_ethernet_burst_lat", *flow.split())

    def test_xrc_is_refused(self):
        for words, row in (("XRC", "ibv_xsrq_pingpong -g 0"),
                           ("Operation not supported", "rdma_xserver -c x"),
                           ("Operation not supported", f"rdma_xclient -c x -s {SERVER}")):
            with self.subTest(row):
                self.assert_refused(words, *row.split())


class RdmaCmTest(RunTest):
    STOP_S = 2  # longer than a sending peer retries

    def test_rping_connects_by_link_local_addresses(self):
        for host, last in ((self.server_host, 1), (self.client_host, 2)):
            self.assertTrue(host.shell(f"ip addr add fe80::{last}/64 dev wire nodad"))
        self.both(("rping", "-s", "-a", "fe80::1%wire", "-C", "5", "-V"),
                  ("rping", "-c", "-a", "fe80::1%wire", "-C", "5", "-V"))
        for side in ("-s", "-c"):
            elsewhere = self.finish_program(self.server_host, "rping", side, "-a", "fe80::1%lo",
                                            "-C", "5")
            self.assertNotEqual(elsewhere.process.returncode, 0)
            self.assertIn("No such device", elsewhere.stdout + elsewhere.stderr)

    def test_connecting_without_a_listener_is_rejected(self):
        self.start_server("rping", "-s", "-p", "7999")
        run = self.finish_program(self.client_host, "rping", "-c", "-a", SERVER, "-C", "1")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", run.stderr)

    def test_a_program_that_dies_by_signal_disconnects(self):
        server = self.start_server("rping", "-s", "-a", SERVER)
        client = self.run_program(self.client_host, "rping", "-c", "-a", SERVER, "-v")  # for ever
        wait_for("a ping", lambda: "ping data" in client.stdout)
        client.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.wait(), -signal.SIGTERM)
        server.wait(self.timeout_s)
        self.assertIn("DISCONNECT EVENT", server.stderr)

    def test_a_killed_program_disconnects(self):
        for stops in (False, True):
            with self.subTest(stops=stops):
                server = self.start_server("rping", "-s", "-a", SERVER)
                client = self.run_program(self.client_host, "rping", "-c", "-a", SERVER, "-v")
                wait_for("a ping", lambda client=client: "ping data" in client.stdout)
                if stops:
                    client.process.send_signal(signal.SIGSTOP)
                client.process.kill()
                client.wait()
                server.wait(self.timeout_s)
                self.assertIn("DISCONNECT EVENT", server.stderr)

    def test_a_connection_survives_a_stopped_program(self):
        program = self.compile("-lrdmacm", text=WAITS_BEFORE_IT_SENDS)
        server = self.start_server("rdma_server")
        client = self.run_program(self.client_host, program, SERVER)
        wait_for("a connection", lambda: "connected" in client.stdout)
        client.process.send_signal(signal.SIGSTOP)
        time.sleep(self.STOP_S)
        self.assertIsNone(server.process.poll(), server.stdout + server.stderr)
        client.process.send_signal(signal.SIGUSR1)
        client.process.send_signal(signal.SIGCONT)
        self.assertEqual(client.wait(), 0, client.stdout + client.stderr)
        self.assertEqual(server.wait(), 0, server.stdout + server.stderr)

    def test_a_perftest_server_ends_after_its_client_is_killed(self):
        # The server only waits for the client's last message.
        server = self.start_server("ib_write_bw", "-R", "-F", "-D", "600")
        client = self.run_program(self.client_host, "ib_write_bw", "-R", "-F", "-D", "600", SERVER)
        # More packets than connecting takes.
        wait_for("writes", lambda: self.packets_received("server") > 1000)
        client.process.kill()
        client.wait()
        server.wait(self.timeout_s)

    def packets_received(self, name):
        (process,) = self.told("stat", "--file-prefix", name)
        return process["workers"][0]["ports"][0]["rcvd_pkts"]

    def test_an_idle_server_takes_little_memory(self):
        """The limit, also of the start, is a fifth above the measured 29.7 MiB."""
        server = self.start_server("rping", "-s")
        process = pathlib.Path(f"/proc/{server.process.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        self.assertEqual(status["Name"].strip(), "rping")
        self.assertLessEqual(int(status["VmHWM"].split()[0]), 36 * 1024)

    def test_supervisor_ends_with_its_program(self):
        server = self.start_server("rping", "-s", "-a", SERVER)
        self.assertEqual(self.supervisors(), 1)
        self.assertEqual(server.interrupt(), -signal.SIGINT)
        wait_for("the supervisor to end", lambda: self.supervisors() == 0)

    def supervisors(self):
        """Returns the number of supervisors on the server's host."""
        host = os.readlink(f"/proc/{self.server_host.holder.pid}/ns/net")
        count = 0
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # the process has just ended
                count += ((process / "comm").read_text() == "pollux_supervis\n" and
                          os.readlink(process / "ns/net") == host)
        return count

    def test_a_program_that_dies_by_signal_leaves_no_telemetry(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start_server("rping", "-s", "-a", SERVER)
            self.assertEqual(os.listdir(self.directory / "dpdk"), ["server"])
            self.assertEqual(server.interrupt(number), -number)
            self.assertEqual(os.listdir(self.directory / "dpdk"), [])

    def test_another_stack_on_the_interface_is_an_error(self):
        with self.server_host.entered():
            other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(other.close)
        other.bind(("", ROCE_PORT))
        run = self.finish_program(self.server_host, "ibv_devinfo")
        self.assertNotEqual(run.process.returncode, 0)
        self.assertIn("UDP port 4791 is taken", run.stderr)
        self.assertIn("rdma_rxe", run.stderr)

    def test_programs_on_two_interfaces_run_side_by_side(self):
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

    def test_no_files_are_left(self):
        before = self.shared_files()
        self.rping("20")
        # A program without --file-prefix leaves none either, although DPDK would make it share a
        # prefix with others.
        self.assertEqual(self.finish_program(self.server_host, "ibv_devices").process.returncode, 0)
        self.assertEqual(os.listdir(self.directory / "dpdk"), [])
        made = {name for name in self.shared_files() - before
                if "pollux" in name or "dpdk" in name}
        # Other tests that run at the same time remove their files later.
        wait_for(f"{made} to go", lambda: not made & self.shared_files())

    def shared_files(self):
        return set(os.listdir("/tmp")) | set(os.listdir("/dev/shm"))
