"""Runs `serve` and its clients on networks made by tests: one or two hosts, taps."""

import contextlib
import json
import os
import pathlib
import shutil
import struct
import threading
import unittest

from tests.command.harness import CLIENT, SERVER, CommandTest, Host

TAP = "plx0"
# rtnetlink(7): the message type (nlmsghdr) and the interface index (ifinfomsg) of a link message.
LINK_MESSAGE = struct.Struct("=4xH14xi")
RTM_NEWLINK = 16


class NetworkTest(CommandTest):
    """The part of the tests that is common to all ports; subclasses define port and network."""

    server_port = client_port = None
    server_address, client_address, prefix = SERVER, CLIENT, "/24"
    # Several tests run at once: a command that polls while idle takes CPU time that others need.
    idle = ("--idle", "sleep")

    def setUp(self):
        super().setUp()
        self.server_host, self.client_host = self.make_network()
        self.root = self.directory / "root"
        self.root.mkdir()

    def make_network(self):
        return Host(), Host()

    def place(self, port, address):
        """Returns the options for a command's port and address."""
        return ("--port", port, "--address", address + self.prefix, *self.idle)

    def serve(self, *arguments):
        run = self.start(self.server_host, "serve",
                         *self.place(self.server_port, self.server_address), "--root", self.root,
                         "--json", *arguments)
        run.wait_for_line("^serving ")
        return run

    def client_argv(self, command, *arguments, options=(), server=None):
        return (command, *self.place(self.client_port, self.client_address), *options,
                server or self.server_address, *arguments)

    def client(self, command, *arguments, **keywords):
        return self.finish(self.client_host, *self.client_argv(command, *arguments, **keywords))

    def asked(self, command, *arguments, options=()):
        """Returns the JSON object of a command, which must succeed."""
        run = self.client(command, *arguments, options=("--json", *options))
        self.assertEqual(run.process.returncode, 0, run.stderr)
        self.assertEqual(len(run.stdout.splitlines()), 1, run.stdout)
        answer = json.loads(run.stdout)
        self.assertIs(answer["ok"], True)
        return answer

    def stop(self, server):
        self.assertEqual(server.interrupt(), 0, server.stderr)
        answer = json.loads(server.stdout)
        self.assertIs(answer["ok"], True)
        return answer

    def put_and_get(self, size, options=()):
        sent = self.file(f"sent{size}", size)
        name = f"file{size}"
        put = self.asked("put", sent, name, options=options)
        self.assertEqual((self.root / name).read_bytes(), sent.read_bytes())
        got = self.asked("get", name, self.directory / "got", options=options)
        self.assertEqual((self.directory / "got").read_bytes(), sent.read_bytes())
        self.assertEqual(put["bytes"], size)
        self.assertEqual(put["sha256"], got["sha256"])
        return put, got


class TwoHosts(NetworkTest):
    """Two network namespaces, `server_host` and `client_host`, connected by a veth pair."""

    def make_network(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root, to make network interfaces")
        for tool in ("ip", "unshare", "nsenter"):
            if shutil.which(tool) is None:
                raise unittest.SkipTest(f"needs the command {tool}")
        hosts = []
        for _ in range(2):
            hosts.append(Host.make())
            self.addCleanup(hosts[-1].close)
        server, client = hosts
        self.make_wire(server, client)
        return server, client

    def make_wire(self, server, client):
        if not server.shell(f"ip link add wire type veth peer name wire netns {client.holder.pid}"):
            raise unittest.SkipTest("needs a kernel and a right to make a veth pair")
        for host in (server, client):
            self.assertTrue(host.shell("ip link set lo up; ip link set wire mtu 4400 up"))


class SharedInterface(TwoHosts):
    """Two hosts on which Pollux and the kernel share the interface."""

    def place(self, port, address):
        return ("--netdev", "wire", *self.idle)

    def make_network(self):
        hosts = super().make_network()
        for host, last in zip(hosts, "12"):
            self.assertTrue(host.shell(f"ip addr add 10.0.0.{last}/24 dev wire;"
                                       f"ip addr add fd00::{last}/64 dev wire nodad"))
        return hosts


class BridgedTaps:
    """A mixin to be listed before TwoHosts or a subclass of it.

    Each port is a tap that the kernel bridges to the wire as soon as the tap appears.
    """

    def make_network(self):
        if not pathlib.Path("/dev/net/tun").exists():
            raise unittest.SkipTest("needs /dev/net/tun")
        hosts = super().make_network()
        for host in hosts:
            if not host.shell("ip link add bridge type bridge"):
                raise unittest.SkipTest("needs a kernel and a right to make a bridge")
            self.assertTrue(host.shell("ip link set wire master bridge; ip link set bridge up"))
            self.plug_in(host)
        return hosts

    def plug_in(self, host):
        # The kernel reports each new link. Polling for the tap could be too late on a busy machine,
        # and miss the port's first three ARP requests.
        links = host.link_events()
        done = threading.Event()

        def plug():
            plugged = set()  # interface indexes: a tap that is created again gets a new one
            while not done.is_set():
                with contextlib.suppress(TimeoutError):
                    message = links.recv(1 << 16)
                    kind, index = LINK_MESSAGE.unpack_from(message)
                    if (kind == RTM_NEWLINK and index not in plugged
                            and f"{TAP}\0".encode() in message
                            and host.shell(f"ip link set {TAP} master bridge up")):
                        plugged.add(index)

        thread = threading.Thread(target=plug)
        thread.start()
        self.addCleanup(links.close)
        self.addCleanup(thread.join)
        self.addCleanup(done.set)
