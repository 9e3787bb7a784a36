"""Tests `serve` and its clients, as two processes or two hosts, over each kind of port."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import threading
import unittest

from tests.command.harness import CLIENT, POLLUX, RPING, SERVER, CmWatch, wait_for
from tests.command.networks import TAP, BridgedTaps, NetworkTest, SharedInterface, TwoHosts


# Programs that receive and send a million bytes by the kernel's TCP.
TCP_SINK = """
import socket, sys
listener = socket.create_server((sys.argv[1], 9999))
print("listening", flush=True)
made = listener.accept()[0]
print(sum(len(piece) for piece in iter(lambda: made.recv(65536), b"")), flush=True)
"""
TCP_SOURCE = ("import socket, sys; "
              "socket.create_connection((sys.argv[1], 9999)).sendall(bytes(1000000))")


class EveryCommand:
    """The test cases that run on each kind of port."""

    def test_every_command_succeeds(self):
        server = self.serve()
        for size in (0, 1, 4097, (2 << 20) + 333):
            self.put_and_get(size)
        entries = self.asked("ls")["entries"]
        self.assertEqual([(entry["name"], entry["size"]) for entry in entries],
                         sorted((path.name, path.stat().st_size) for path in self.root.iterdir()))
        ping = self.asked("ping", options=("--count", "20"))
        self.assertEqual(ping["calls"], 20)
        self.assertEqual(ping["client_to_server_inline"], 4096)
        self.assertIs(ping["peer_private_data"], True)
        bench = self.asked("bench", options=("--measure", "null,blocks", "--count",
                                             "200", "--seconds", "0", "--mib", "2",
                                             "--passes", "1"))
        self.assertEqual(bench["measurements"][0]["rate"]["operations"], 200)
        for key in ("write_bytes_per_second", "read_bytes_per_second"):
            self.assertGreater(bench[key], 0)
        self.assertGreater(self.stop(server)["calls"], 20)

    def test_transfers_survive_a_lossy_wire(self):
        server = self.serve("--impair", "loss=0.01,seed=3")
        self.put_and_get((4 << 20) + 77, options=("--impair", "loss=0.01,seed=5"))
        # The server reads the data of `put` and writes those of `get`, so it is the side that
        # retransmits: with some 2,000 packets and two impairments it certainly does.
        self.assertGreater(self.stop(server)["retransmitted_packets"], 0)

    def test_file_names_with_arbitrary_bytes_are_shown_safely(self):
        server = self.serve()
        for name in (b"bad\xff", b"two\nlines\x1b[31m"):
            with open(os.path.join(os.fsencode(self.root), name), "wb"):
                pass
        names = [entry["name"] for entry in self.asked("ls")["entries"]]
        self.assertEqual(names, ["bad\ufffd", "two\nlines\x1b[31m"])
        shown = self.client("ls").stdout
        self.assertEqual(len(shown.splitlines()), 2, shown)
        self.assertNotIn("\x1b", shown)
        self.stop(server)

    def test_refusals_of_the_server_are_one_error_line(self):
        server = self.serve("--read-only")
        (self.root / "there").write_bytes(b"x")
        self.assert_one_line(self.client("put", self.file("mine", 9), "new"), 1, "new",
                             "does not allow")
        self.assertFalse((self.root / "new").exists())
        self.assert_one_line(self.client("get", "absent"), 1, "absent", "no such file")
        self.assert_one_line(self.client("get", "../root/there"), 1, "does not allow")
        self.assertFalse((self.directory / "absent").exists())
        self.assert_one_line(self.client("ls", options=("--service-port", "7")), 1,
                             self.server_address, ":7", "nothing listens")
        self.assert_one_line(self.client("put", self.directory / "nosuch"), 1, "nosuch",
                             "No such file")
        self.stop(server)


class MemifTest(EveryCommand, NetworkTest):
    """Two processes over shared memory, which needs no privileges."""

    idle = ()  # without --idle, as users run it

    def setUp(self):
        super().setUp()
        self.server_port = f"net_memif0,role=server,socket={self.directory}/m"
        self.client_port = f"net_memif0,role=client,socket={self.directory}/m"


class VethTest(EveryCommand, TwoHosts):
    server_port = client_port = "net_af_packet0,iface=wire"

    def test_a_client_of_a_stopped_server_can_be_interrupted(self):
        server = self.serve()
        bench = self.start(self.client_host, *self.client_argv("bench", options=(
            "--measure", "null", "--seconds", "0", "--count", "1000000000")))
        server.wait_for_line("connected")
        server.process.send_signal(signal.SIGSTOP)
        # A client that waits for a silent server can still be interrupted.
        self.assertEqual(bench.interrupt(), 1)
        self.assertIn("interrupted", bench.stderr)
        server.process.send_signal(signal.SIGCONT)
        self.stop(server)

    def watch(self):
        watch = CmWatch((self.server_host, self.client_host), "wire")
        self.addCleanup(watch.close)
        return watch

    def test_ping_connects_and_disconnects_on_the_wire(self):
        server = self.serve()
        watch = self.watch()
        self.asked("ping")
        self.assertEqual(watch.seen(),
                         [(CLIENT, "REQ"), (SERVER, "REP"), (CLIENT, "RTU"), (CLIENT, "DREQ"),
                          (SERVER, "DREP")])
        self.stop(server)

    def busy_client(self, watch, *options):
        run = self.start(self.client_host,
                         *self.client_argv("bench", options=(
                             *options, "--measure", "null", "--seconds", "0",
                             "--count", "1000000000")))
        wait_for("RTU", lambda: "RTU" in watch.names())
        return run

    def test_interrupted_client_disconnects(self):
        server = self.serve()
        # Under nohup this process and its children would ignore SIGHUP.
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            watch = self.watch()
            client = self.busy_client(watch)
            client.interrupt(number)
            self.assert_one_line(client, 1, "interrupted")
            self.assertEqual(watch.seen_once()[3:], [(CLIENT, "DREQ"), (SERVER, "DREP")])
        self.asked("ping")
        self.stop(server)

    def test_interrupted_server_disconnects(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.serve()
            watch = self.watch()
            client = self.busy_client(watch)
            self.assertEqual(server.interrupt(number), 0, server.stderr)
            self.assertEqual(client.wait(), 1)
            self.assert_one_line(client, 1, "connect")
            self.assertEqual(watch.seen_once()[3:], [(SERVER, "DREQ"), (CLIENT, "DREP")])

    def test_a_killed_client_is_logged_in_one_line(self):
        server = self.serve()
        watch = self.watch()
        self.busy_client(watch).interrupt(signal.SIGKILL)
        server.wait_for_line(f"^connection .* to {CLIENT}:.* failed: ")
        self.assertNotIn("its last events", server.stderr)
        # The next client disconnects, which is logged; the killed one is not logged again.
        self.asked("ping")
        server.wait_for_line(" gone$")
        self.stop(server)
        failed = re.findall("^connection .*failed:", server.stderr, re.MULTILINE)
        self.assertEqual(len(failed), 1, server.stderr)
        self.assertEqual(len(re.findall(" gone$", server.stderr, re.MULTILINE)), 1, server.stderr)

    def test_sighup_does_not_end_a_service(self):
        server = self.serve()
        server.process.send_signal(signal.SIGHUP)
        server.wait_for_line("^SIGHUP: ")
        self.asked("ping")
        self.stop(server)

    def assert_explained(self, words):
        """Asserts that `words` has the reason of a failed connection and its last events."""
        self.assertRegex(words, "connection .* to .* failed: a work request failed: transport "
                                "retry counter exceeded; its last events:")
        # A SEND if a call was under way; an RDMA WRITE if an idle connection was probed.
        for line in ("-> RC (SEND|RDMA WRITE) Only PSN", "timer: local ACK timeout",
                     "queue pair: ERR"):
            self.assertRegex(words, line)

    def test_recorder_explains_a_killed_server(self):
        server = self.serve()
        watch = self.watch()
        client = self.busy_client(watch, "--recorder")
        server.interrupt(signal.SIGKILL)
        self.assertEqual(client.wait(), 1)
        self.assert_explained(client.stderr)
        self.assertEqual(client.stderr.count("its last events"), 1)

    def test_recorder_explains_a_killed_client(self):
        server = self.serve("--recorder")
        watch = self.watch()
        self.busy_client(watch).interrupt(signal.SIGKILL)
        server.wait_for_line("its last events")
        self.assert_explained(server.stderr)
        # The server serves the next client.
        self.asked("ping")
        self.stop(server)

    def test_an_absent_host_is_an_error(self):
        self.assert_one_line(self.client("ping"), 1, SERVER, "no answer to ARP")

    def test_a_connecting_client_can_be_interrupted(self):
        client = self.start(self.client_host, *self.client_argv(
            "ping", options=("--timeout-ms", "3600000", "--verbose")))
        self.assertTrue(self.server_host.shell("ip addr add 10.0.0.1/24 dev wire"))
        client.wait_for_line("-> REQ")
        self.assertEqual(client.interrupt(), 1)
        self.assertIn("interrupted", client.stderr)

    def test_a_service_ends_when_its_interface_is_removed(self):
        server = self.start(self.server_host, "serve", *self.place(self.server_port, SERVER),
                            "--root", self.root)
        server.wait_for_line("^serving ")
        self.assertTrue(self.server_host.shell("ip link del wire"))
        self.assertEqual(server.wait(), 1)
        self.assertRegex(server.stderr.splitlines()[-1], 'interface "wire" is gone')

    def test_each_server_ends_when_its_interface_is_removed(self):
        for command, program in ((("-s",), RPING), (("bench", "--server"), POLLUX)):
            with self.subTest(program):
                run = self.start(self.server_host, *command, *self.place(self.server_port, SERVER),
                                 program=program)
                run.wait_for_line("^(listening|serving) ")
                self.assertTrue(self.server_host.shell("ip link del wire"))
                self.assertEqual(run.wait(), 1)
                self.assertRegex(run.stderr.splitlines()[-1], 'interface "wire" is gone')
                self.make_wire(self.server_host, self.client_host)
        server = self.serve()
        watch = self.watch()
        client = self.busy_client(watch)
        self.assertTrue(self.client_host.shell("ip link del wire"))
        for run in (client, server):
            self.assertEqual(run.wait(), 1)
            self.assertRegex(run.stderr.splitlines()[-1], 'interface "wire" is gone')

    def test_a_killed_client_can_reconnect(self):
        server = self.start(self.server_host, "-s", *self.place(self.server_port, SERVER),
                            program=RPING)
        server.wait_for_line("^listening ")
        place = self.place(self.client_port, CLIENT)
        killed = self.start(self.client_host, "-c", "-a", SERVER, "-d", *place, program=RPING)
        killed.wait_for_line("^ping 100: ")
        killed.process.kill()
        killed.process.wait()
        again = self.finish(self.client_host, "-c", "-a", SERVER, "-C", "3", *place, program=RPING)
        self.assertEqual(again.process.returncode, 0, again.stderr)
        self.assertEqual(server.wait(), 0, server.stderr)

    def test_a_live_client_keeps_its_connection(self):
        server = self.start(self.server_host, "-s", *self.place(self.server_port, SERVER),
                            program=RPING)
        server.wait_for_line("^listening ")
        first = self.start(self.client_host, "-c", "-a", SERVER, "-d",
                           *self.place(self.client_port, CLIENT), program=RPING)
        first.wait_for_line("^ping 100: ")
        second = self.finish(self.client_host, "-c", "-a", SERVER, "-C", "1", "--mac",
                             "02:00:00:00:00:77", *self.place(self.client_port, "10.0.0.3"),
                             program=RPING)
        self.assertEqual(second.process.returncode, 1)
        self.assertIn("REJ reason 28", second.stderr)
        self.assertIsNone(first.process.poll(), first.stderr)
        self.assertEqual(first.interrupt(), 1)
        self.assertIn("interrupted", first.stderr.splitlines()[-1])
        self.assertIn(server.wait(), (0, 1))

    def test_a_transfer_fails_when_its_interface_is_removed(self):
        big = self.file("big", 64 << 20)
        (self.root / "there").write_bytes(big.read_bytes())
        for command, arguments in (("put", (big, "new")),
                                   ("get", ("there", self.directory / "got"))):
            with self.subTest(command):
                server = self.serve()
                # With this loss the transfer is still under way when the link is removed.
                run = self.start(self.client_host, *self.client_argv(
                    command, *arguments, options=("--impair", "loss=0.1,seed=1")))
                server.wait_for_line("connected")
                self.assertTrue(self.client_host.shell("ip link del wire"))
                for end in (run, server):
                    self.assertEqual(end.wait(), 1)
                    self.assertRegex(end.stderr.splitlines()[-1], 'interface "wire" is gone')
                self.make_wire(self.server_host, self.client_host)
        self.assertFalse((self.directory / "got").exists())

    def test_an_address_in_use_is_an_error(self):
        self.assertTrue(self.client_host.shell(f"ip addr add {SERVER}/24 dev wire"))
        server = self.start(self.server_host, "serve", "--port", self.server_port, "--address",
                            f"{SERVER}/24", "--root", self.root)
        self.assertEqual(server.wait(), 1)
        self.assert_one_line(server, 1, f"address {SERVER} is taken", "MAC", "--address")


class Ipv6Test(EveryCommand, TwoHosts):
    """Hosts with IPv6 addresses, also tested against the kernel's own IPv6."""

    server_port = client_port = "net_af_packet0,iface=wire"
    server_address, client_address, prefix = "fd00::1", "fd00::2", "/64"

    def test_kernel_pings_the_port(self):
        self.assertTrue(self.client_host.shell("ip addr add fd00::9/64 dev wire nodad"))
        server = self.serve("--address", f"{SERVER}/24")
        for size in (56, 4000):
            self.client_host.await_answer(f"ping -6 -n -c 3 -i 0.2 -s {size} fd00::1")
        # One port serves both address families.
        self.asked("ping")
        self.assertEqual(self.finish(self.client_host, "ping", "--port", self.client_port,
                                     "--address", f"{CLIENT}/24", SERVER).process.returncode, 0)
        self.stop(server)

    def test_a_link_local_server_address_is_reached(self):
        server = self.serve("--mac", "02:00:00:00:00:01")
        # The link-local address is derived from the MAC address.
        run = self.client("ping", server="fe80::ff:fe00:1")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.stop(server)

    def test_an_absent_host_is_an_error(self):
        self.assert_one_line(self.client("ping"), 1, "fd00::1", "neighbour discovery")

    def test_an_address_of_the_other_family_is_an_error(self):
        self.assert_one_line(self.client("ping", server=SERVER), 1, SERVER, "no address to reach")

    def test_an_address_in_use_is_an_error(self):
        self.assertTrue(self.client_host.shell("ip addr add fd00::1/64 dev wire nodad"))
        server = self.start(self.server_host, "serve", "--port", self.server_port, "--address",
                            "fd00::1/64", "--root", self.root)
        self.assertEqual(server.wait(), 1)
        self.assert_one_line(server, 1, "address fd00::1 is taken", "MAC", "--address")


class NetdevTest(EveryCommand, SharedInterface):
    def unreachables_sent(self, host):
        """Returns how many ICMP and ICMPv6 destination unreachable messages the kernel has sent."""
        text = subprocess.run(host.argv(["cat", "/proc/net/snmp", "/proc/net/snmp6"]),
                              capture_output=True, text=True, check=True).stdout
        lines = [line.split() for line in text.splitlines()]
        names, values = [line for line in lines if line[0] == "Icmp:"]
        sent = int(values[names.index("OutDestUnreachs")])
        return sent + sum(int(line[1]) for line in lines if line[0] == "Icmp6OutDestUnreachs")

    def test_host_names_are_resolved(self):
        """Resolves names by the system's resolver, from an /etc/hosts for that process only."""
        if not self.client_host.shell("unshare -m mount --bind /dev/null /etc/hosts"):
            raise unittest.SkipTest("needs the right to mount")
        # The kernel has a route to 2001:db8::1 by another interface, so it tries this address of
        # both.test first.
        self.assertTrue(self.client_host.shell("ip addr add 2001:db8::2/64 dev lo nodad"))
        (self.directory / "hosts").write_text(
            f"{SERVER} server.test\nfd00::1 six.test\n2001:db8::1 both.test\n{SERVER} both.test\n")
        server = self.serve()
        for name in ("server.test", "six.test", "both.test"):
            ping = self.finish(
                self.client_host, "-m", "sh", "-ec", 'mount --bind hosts /etc/hosts; exec "$@"',
                "sh", POLLUX, *self.client_argv("ping", server=name), program="unshare")
            self.assertEqual(ping.process.returncode, 0, ping.stderr)
        self.stop(server)

    def test_the_kernel_keeps_working_on_a_shared_interface(self):
        server = self.serve()
        for address in (SERVER, "fd00::1"):
            run = self.client("ping", options=("--count", "10"), server=address)
            self.assertEqual(run.process.returncode, 0, run.stderr)
            self.client_host.await_answer(f"ping -n -c 3 -i 0.2 {address}")
        self.put_and_get(4097)
        self.stop(server)
        for host in (self.server_host, self.client_host):
            self.assertEqual(self.unreachables_sent(host), 0)

    def test_address_changes_of_the_kernel_are_followed(self):
        server = self.serve()
        self.assertTrue(self.server_host.shell("ip addr add 10.3.0.1/24 dev wire"))
        self.assertTrue(self.client_host.shell("ip route add 10.3.0.0/24 via 10.0.0.1 dev wire"))
        run = self.client("ping", server="10.3.0.1")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assertTrue(self.server_host.shell("ip addr del 10.3.0.1/24 dev wire"))
        run = self.client("ping", options=("--timeout-ms", "1000"), server="10.3.0.1")
        self.assertEqual(run.process.returncode, 1)
        self.asked("ping")
        self.stop(server)

    def test_an_absent_host_is_an_error(self):
        self.assert_one_line(self.client("ping", server="10.0.0.77"), 1, "10.0.0.77", "ARP")

    def test_unusable_interfaces_and_options_are_errors(self):
        self.assert_one_line(
            self.finish(self.client_host, "ping", "--netdev", "none", SERVER), 1, "none",
            "does not exist")
        self.assert_one_line(
            self.finish(self.client_host, "ping", "--netdev", "wire", "--vlan", "7", SERVER), 2,
            "--vlan")


class VlanTest(TwoHosts):
    server_port = client_port = "net_af_packet0,iface=wire"

    def test_tagged_and_untagged_clients_are_served_together(self):
        server = self.serve("--address", "10.7.0.1/24,vlan=7", "--address", "fd07::1/64,vlan=7")
        self.put_and_get(4097)
        for option, address in (("10.7.0.2/24", "10.7.0.1"), ("fd07::2/64", "fd07::1")):
            run = self.finish(self.client_host, "ping", "--port", self.client_port, "--vlan", "7",
                              "--address", option, address)
            self.assertEqual(run.process.returncode, 0, run.stderr)
        self.stop(server)

    def test_the_vlan_device_of_the_kernel_pings_the_port(self):
        if not self.client_host.shell("ip link add link wire name wire.7 type vlan id 7"):
            self.skipTest("needs a kernel with VLAN devices")
        self.assertTrue(self.client_host.shell(
            "ip addr add 10.7.0.9/24 dev wire.7; ip -6 addr add fd07::9/64 dev wire.7 nodad;"
            "ip link set wire.7 up"))
        server = self.serve("--address", "10.7.0.1/24,vlan=7", "--address", "fd07::1/64,vlan=7")
        self.client_host.await_answer("ping -n -c 3 -i 0.2 10.7.0.1")
        self.client_host.await_answer("ping -6 -n -c 3 -i 0.2 fd07::1")
        self.stop(server)

    def test_a_host_on_another_vlan_is_not_reached(self):
        server = self.serve("--address", "10.7.0.1/24,vlan=7")
        run = self.finish(self.client_host, "ping", "--port", self.client_port, "--address",
                          "10.7.0.2/24,vlan=8", "10.7.0.1")
        self.assert_one_line(run, 1, "10.7.0.1", "no answer to ARP")
        self.stop(server)


class TapTest(EveryCommand, BridgedTaps, TwoHosts):
    server_port = client_port = f"net_tap0,iface={TAP}"


class KernelPathTest(TapTest):
    """A server whose kernel has its port's addresses too, on a tap of its own."""

    def make_network(self):
        server, client = super().make_network()
        # The server's kernel does not answer ARP on the bridge; the client's sends the requests.
        self.assertTrue(server.shell("ip link set bridge arp off"))
        self.assertTrue(client.shell("ip addr add 10.0.0.9/24 dev bridge;"
                                     "ip addr add fd00::9/64 dev bridge nodad"))
        return server, client

    def serve(self, *arguments):
        return super().serve("--address", "fd00::1/64", "--kernel-path", "kpath", *arguments)

    def test_the_kernel_works_at_the_same_address(self):
        server = self.serve()
        for address in (SERVER, "fd00::1"):
            self.client_host.await_answer(f"ping -n -c 3 -i 0.2 -s 1000 {address}")
        listener = subprocess.Popen(
            self.server_host.argv(["python3", "-c", TCP_SINK, SERVER]), stdout=subprocess.PIPE)
        self.addCleanup(listener.stdout.close)
        self.addCleanup(listener.wait)
        self.addCleanup(listener.kill)
        self.assertEqual(listener.stdout.readline(), b"listening\n")
        self.assertTrue(self.client_host.shell(f"python3 -c '{TCP_SOURCE}' {SERVER}"))
        self.assertEqual(listener.stdout.readline(), b"1000000\n")
        self.put_and_get(4097)
        self.stop(server)
        self.assertFalse(self.server_host.shell("ip link show kpath"))
