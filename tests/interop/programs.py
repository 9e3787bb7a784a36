"""Runs a Debian program at both ends: by `pollux run` on the host, and on rxe0 in the guest."""

import contextlib
import ipaddress
import json
import os
import pathlib
import re
import shlex

from case import case, need
from guest import ADDRESS6, VLAN_ADDRESS
from judges import strays
from network import BRIDGE, NETDEV
from process import CaseFailure, Deadline, last_line, shell

# The address of the host's kernel on the bridge, for programs that connect by TCP before they use
# verbs.
HOST_ADDRESS = "192.0.2.9"
PREFIX = 24
HOST_ADDRESS6 = "fd00::9/64"  # of another network than the port's
TCP_LISTEN = " 0A "  # in /proc/net/tcp
WAYS = {"ipv6": "Over IPv6.", "vlan": "In a VLAN."}
LOSS = 0.01  # of the frames each way
# For programs whose run is a dozen frames: a few runs lose some of them for certain.
LOSS_OF_FEW = 0.05
# An interface that gives the host's kernel the port's address, and that leads nowhere.
OWN_INTERFACE = "own0"
TCP_TABLE = 100  # of the guest's routes


class Place:
    """One of the two ends, where a program runs. `peer` and `peer_tcp` are the addresses of the
    other end, over RDMA and through the kernels. `gid_index` and `gid_index6` are the indexes of
    its own IPv4 and IPv6 addresses in its device's GID table."""

    def __init__(self, bench, address, peer, peer_tcp):
        self.bench, self.address, self.peer, self.peer_tcp = bench, address, peer, peer_tcp

    def start(self, *argv):
        """Starts the program."""
        raise NotImplementedError

    def wait_for_tcp(self, port, opened=True):
        """Waits until the program listens on this port. `opened`: it opens its device before
        that."""
        raise NotImplementedError

    def wait_for_cm(self, port):
        raise NotImplementedError

    def wait_for_output(self, text):
        raise NotImplementedError

    def wait(self):
        """Waits until the program ends; returns the exit status."""
        raise NotImplementedError

    def kill(self):
        raise NotImplementedError

    @property
    def output(self):
        """Returns what the program has printed so far, on both streams."""
        raise NotImplementedError


class OnPollux(Place):
    name, device = "pollux", "pollux0"

    def __init__(self, bench, *options):
        port = bench.port
        own, peer = {"ipv4": (port.address, bench.guest_address), "ipv6": (port.address6, ADDRESS6),
                     "vlan": (port.vlan_address, VLAN_ADDRESS)}[bench.network]
        super().__init__(bench, own, peer, bench.guest_address)
        self.options = options
        self.gid_index, self.gid_index6 = bench.port.gid_index, bench.port.gid_index6
        self.file_prefix = f"pollux-interop-{os.getpid()}"
        self.process = None

    def start(self, *argv):
        self.process = self.bench.pollux("run", "--file-prefix", self.file_prefix, *self.options,
                                         "--", "stdbuf", "-oL", *argv)

    def _alive(self):
        need(self.process.running(),
             f"{self.process.name} ended before it listened: {last_line(self.output)}")

    def _listens_tcp(self, port):
        self._alive()
        text = ""
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):  # it has just ended
                text += pathlib.Path(f"/proc/{self.process.pid}/net/{table}").read_text()
        return any(f":{port:04X} " in line and TCP_LISTEN in line for line in text.splitlines())

    def _listens_cm(self, port):
        self._alive()
        status, told = self.bench.ask("connections", "--json", "--file-prefix", self.file_prefix)
        if status != 0:
            return False
        return any(one["state"] == "LISTEN" and one["local"].endswith(f":{port}")
                   for process in json.loads(told)["processes"]
                   for one in process["connections"])

    def _wait_for(self, listens, port):
        self.bench.deadline.wait_for(f"{self.process.name} to listen on {port}",
                                     lambda: listens(port))

    def _wait_until_plugged(self):
        self.bench.deadline.wait_for("the port on the bridge", self.bench.port.plugged)

    def wait_for_tcp(self, port, opened=True):
        self._wait_for(self._listens_tcp, port)
        if opened:
            self._wait_until_plugged()

    def wait_for_cm(self, port):
        self._wait_for(self._listens_cm, port)
        self._wait_until_plugged()

    def wait_for_output(self, text):
        self.process.wait_for_line(re.escape(text), self.bench.deadline)
        self._wait_until_plugged()

    def wait(self):
        return self.process.wait(self.bench.deadline)

    def kill(self):
        self.process.close()

    @property
    def output(self):
        return self.process.stdout + self.process.stderr


class OnLinux(Place):
    name, device = "the guest", "rxe0"

    def __init__(self, bench, on_pollux, host_address):
        super().__init__(bench, on_pollux.peer, on_pollux.address, host_address)
        self.command = None

    def _gid_index(self, tail):
        """Returns the index of the address that ends so; link-local ones come before or after
        it."""
        return int(self.bench.guest.run(
            f"cd /sys/class/infiniband/rxe0/ports/1/gids; grep -l '{tail}$' * 2>/dev/null | "
            "head -n 1", self.bench.deadline))

    @property
    def gid_index(self):
        raw = ipaddress.ip_address(self.bench.guest_address).packed.hex()
        return self._gid_index(f"ffff:{raw[:4]}:{raw[4:]}")

    @property
    def gid_index6(self):
        return self._gid_index(ipaddress.ip_address(ADDRESS6).exploded)

    def start(self, *argv):
        words = shlex.join(str(word) for word in ("stdbuf", "-oL", *argv))
        self.command = self.bench.guest.begin(f"timeout {self.bench.deadline.seconds} {words}")

    def wait_for_tcp(self, port, opened=True):
        self.bench.guest.wait_for_tcp(port, self.bench.deadline)

    def wait_for_cm(self, port):
        self.bench.guest.wait_for_cm(port, self.bench.deadline)

    def wait_for_output(self, text):
        self.command.wait_for_output(text, self.bench.deadline)

    def wait(self):
        return self.command.wait(self.bench.deadline)

    def kill(self):
        self.command.kill(self.bench.deadline)

    @property
    def output(self):
        return self.command.output


@contextlib.contextmanager
def places(bench, loss=0.0, turn=0):
    """Yields the active and the passive place. `loss`: the share of frames that are lost, of those
    that Pollux's port sends and of those that it receives; each `turn` loses other frames."""
    netdev = bench.port.kind == "netdev"
    host_address = bench.port.address if netdev else HOST_ADDRESS
    interface = NETDEV if netdev else BRIDGE
    shell(f"ip addr flush dev {BRIDGE}; ip addr add {host_address}/{PREFIX} dev {interface}")
    if bench.network == "ipv6":
        # getaddrinfo(3) returns no IPv6 address unless the kernel has one.
        shell(f"ip addr add {HOST_ADDRESS6} dev {interface} nodad")
    seed = bench.port.number + 100 * turn
    options = ("--impair", f"loss={loss},seed={seed}") if loss else ()
    mine = OnPollux(bench, *options)
    guest = OnLinux(bench, mine, host_address)
    try:
        yield (mine, guest) if bench.to_linux else (guest, mine)
    finally:
        # With two interfaces on one network the kernel would use the wrong one in other cases.
        shell(f"ip addr flush dev {interface}")


@contextlib.contextmanager
def tcp_at_own_address(bench):
    """Lets TCP reach the host's kernel at the address of Pollux's own port, for programs that know
    only one address of a peer. Only the guest sends to it there, and no other host asks for it."""
    if bench.port.kind == "netdev":
        yield
        return
    address = bench.port.address
    rule = f"to {address} ipproto tcp lookup {TCP_TABLE}"
    try:
        shell(f"ip link add {OWN_INTERFACE} type bridge; ip addr add {address}/32 dev "
              f"{OWN_INTERFACE}; ip link set {OWN_INTERFACE} up")
        bench.guest.run(f"ip route replace {address} via {HOST_ADDRESS} dev eth0 table "
                        f"{TCP_TABLE}; ip rule del {rule} 2>/dev/null; ip rule add {rule}",
                        bench.deadline)
        yield
    finally:
        shell(f"ip link del {OWN_INTERFACE} || true")
        with contextlib.suppress(CaseFailure):  # the guest may be gone, and its rules with it
            bench.guest.run(f"ip rule del {rule}", Deadline(20))


def end_well(*sides):
    """Waits until all programs have ended with status 0."""
    found = [(side, side.wait()) for side in sides]
    for side, status in found:
        need(status == 0, f"{side.name}'s program ended with {status}: {last_line(side.output)}")


def cases_of(name, wants, loss_wants=None, loss=LOSS, networks=(), extra=True, deadline_s=120,
             **options):
    """Registers `run(bench, loss)` as a case over a good wire. With `loss_wants`, which its capture
    must show, also registers a case over a wire that loses frames. Also registers a case over each
    of `networks` ("ipv6", "vlan"), for programs that know each other by their addresses alone."""

    def register(run):
        @case(f"run-{name}", wants=wants, extra=extra, deadline_s=deadline_s, **options)
        def clean(bench):
            return run(bench, 0.0)

        clean.__doc__ = run.__doc__
        for network in networks:
            define_over(network, name, run, wants, deadline_s, options)
        if loss_wants is not None:
            define_lossy(name, run, loss_wants, loss, deadline_s, options)
        return run

    return register


def define_over(network, name, run, wants, deadline_s, options):
    @case(f"run-{name}-{network}", wants=wants, extra=True, deadline_s=deadline_s, **options)
    def over_it(bench):
        bench.network = network
        look = run(bench, 0.0)

        def look_at_both(evidence):
            need(not strays(evidence, network), "a frame went another way")
            if look is not None:
                look(evidence)

        return look_at_both

    over_it.__doc__ = f"{run.__doc__} {WAYS[network]}"


def define_lossy(name, run, wants, loss, deadline_s, options):
    @case(f"run-{name}-loss", wants=wants, extra=True, deadline_s=2 * deadline_s, **options)
    def lossy(bench):
        look = run(bench, loss)

        def look_at_both(evidence):
            need(evidence.repeats() or evidence.lost_datagrams("pollux"),
                 "nothing was sent again or asked for, no datagram is missing: no frame was lost")
            if look is not None:
                look(evidence)

        return look_at_both

    lossy.__doc__ = f"{run.__doc__} {loss:.0%} of the frames are lost each way."
