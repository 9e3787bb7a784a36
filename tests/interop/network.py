"""The network namespace of a guest: a bridge with the guest's tap and Pollux's ports on it."""

import ctypes
import os
import subprocess
import threading

import nic_guest
from guest import VLAN
from process import CaseSkipped, shell

CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x00020000
BRIDGE, GUEST_TAP = "br0", "guest0"
# A bridge without a fixed address takes the lowest one of its ports, and changes it when Pollux's
# tap is added. The guest ignores a new address within a second of having learned the old one
# (locktime, arp(7)).
BRIDGE_MAC = "02:00:00:00:01:00"
NETDEV = "veth5"  # where the kernel has the port's addresses
MTU = 9000


def enter():
    """Moves this process, and all that it starts later, to a new network namespace and a new mount
    namespace. Its mounts end with the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        raise CaseSkipped(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    # The kernel has the addresses of Pollux's taps, and answers ARP for them only on these taps.
    shell("mount --make-rprivate /; echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; "
          f"ip link set lo up; ip link add {BRIDGE} address {BRIDGE_MAC} type bridge "
          f"mcast_snooping 0 forward_delay 0 stp_state 0; "
          f"ip link set {BRIDGE} mtu {MTU} addrgenmode none up; "
          f"ip tuntap add {GUEST_TAP} mode tap; "
          f"ip link set {GUEST_TAP} mtu {MTU} master {BRIDGE} addrgenmode none up; "
          + "; ".join(f"ip link add {near} type veth peer name {far}; "
                      f"ip link set {near} mtu {MTU} master {BRIDGE} addrgenmode none up; "
                      f"ip link set {far} mtu {MTU} addrgenmode none up"
                      for near, far in (("veth0", "veth1"), ("veth2", "veth3"), ("veth4", NETDEV))))


def tap_state():
    """Returns what ip prints about Pollux's tap; empty if there is none."""
    return subprocess.run(["ip", "-o", "link", "show", "plx0"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False).stdout


class Port:
    """A port of Pollux on the bridge. Each kind has its own addresses, so that no host on the
    bridge remembers those of another kind."""

    def __init__(self, kind, devargs, number, mtu):
        self.kind = kind
        # A request for a larger path MTU than the port's is rejected, as by a Linux peer. So the
        # guest's interface is set to this MTU before each case.
        self.mtu = mtu
        self.devargs = devargs
        self.number = number
        self.address = f"192.0.2.{number}"
        self.address6 = f"2001:db8::{number:x}"
        self.vlan_address = f"198.51.100.{number}"
        self.mac = f"02:00:00:00:00:{number:02x}"
        # The GID indexes of `address` and `address6`; the link-local address is first.
        self.gid_index, self.gid_index6 = 1, 2

    def plugged(self):
        """Returns whether frames pass, once Pollux runs on the port."""
        return self.kind != "tap" or "master" in tap_state()

    def arguments(self):
        return ["--port", self.devargs, "--address", f"{self.address}/24", "--address",
                f"{self.address6}/64", "--address", f"{self.vlan_address}/24,vlan={VLAN}", "--mac",
                self.mac]


class SharedPort(Port):
    """An interface of the kernel, which has `address` on it while a case runs."""

    def __init__(self, interface, number, mtu):
        super().__init__("netdev", interface, number, mtu)
        self.gid_index, self.gid_index6 = 0, None  # it has no other address

    def arguments(self):
        return ["--netdev", self.devargs]


class NicPort(Port):
    """A PCI NIC, in a guest in which Pollux runs."""

    def __init__(self, kind, number, nic, driver=nic_guest.VFIO):
        super().__init__(kind, nic_guest.PCI_ADDRESS, number, MTU)
        self.nic, self.driver = nic, driver
        self.options = ["--mtu", MTU]

    def arguments(self):
        return super().arguments() + self.options


# By the emulated NIC, and by the driver that gives DPDK access to it.
NIC_PORTS = {
    **{name: NicPort(name, 20 + number, nic)
       for number, (name, nic) in enumerate(nic_guest.NICS.items())},
    **{f"{name}-uio": NicPort(f"{name}-uio", 30 + number, nic, nic_guest.UIO)
       for number, (name, nic) in enumerate(nic_guest.NICS.items())},
}
PORTS = {
    "tap": Port("tap", "net_tap0,iface=plx0", 10, 1500),
    "af_packet": Port("af_packet", "net_af_packet0,iface=veth1", 11, MTU),
    "netdev": SharedPort(NETDEV, 13, MTU),
    **NIC_PORTS,
}
# For another Pollux beside the one that the guest talks to.
SECOND = Port("af_packet", "net_af_packet0,iface=veth3", 12, MTU)


class Plugger:
    """A thread that puts Pollux's tap on the bridge whenever one appears."""

    def __init__(self):
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._plug, daemon=True)
        self.thread.start()

    def _plug(self):
        while not self.done.wait(0.03):
            state = tap_state()
            # The tap may be gone by now, which is no error.
            if state and "master" not in state:
                subprocess.run(["ip", "link", "set", "plx0", "master", BRIDGE, "addrgenmode",
                                "none", "up"], stderr=subprocess.DEVNULL, check=False)

    def close(self):
        self.done.set()
        self.thread.join()
