"""The Linux peer: a virtual machine with a soft-RoCE device rxe0 on a tap."""

import dataclasses

from machine import Command, Machine
from process import CaseFailure, Deadline, last_line

# The second processor is never added. With a maximum of one, QEMU before 8.1 leaves out the memory
# barriers between the guest's virtio drivers and the devices: now and then a notification gets
# lost, after which the interface sends nothing any more.
PROCESSORS = "1,maxcpus=2"
MAC = "52:54:00:00:00:01"
ADDRESS, ADDRESS6 = "192.0.2.1", "2001:db8::1"
VLAN, VLAN_ADDRESS = 100, "198.51.100.1"


@dataclasses.dataclass(frozen=True)
class Place:
    """The addresses of a guest on the bridge."""
    mac: str
    address: str
    address6: str
    vlan_address: str


FIRST_PLACE = Place(MAC, ADDRESS, ADDRESS6, VLAN_ADDRESS)
# Shows queue pairs with their states and PSNs, rxe's nonzero counters, what netem dropped, zombies
# and processes in uninterruptible sleep with their stacks in the kernel, and the kernel's last
# messages.
SHOW_STATE = ("rdma -d resource show qp; grep -Hv '^0$' /sys/class/infiniband/rxe0/ports/1/"
              "hw_counters/* | sed 's|.*/||'; tc -s qdisc show; "
              "ps -eo pid=,sess=,stat=,comm= | while read -r pid session state name; do "
              "[[ $state == [DZ]* ]] && echo \"process $pid session $session $state $name:\" "
              "$(sed 's/+.*//' /proc/$pid/stack); done; dmesg | tail -n 20; true")
# Frames carry complete checksums and are never larger than the wire's.
NO_OFFLOADS = ",".join(f"{name}=off" for name in (
    "csum", "guest_csum", "gso", "guest_tso4", "guest_tso6", "guest_ufo", "host_tso4", "host_tso6",
    "host_ufo", "mq"))


class Guest(Machine):
    """A guest with rxe0. start() boots it; one boot serves many cases."""

    def __init__(self, image, folder, tap, files, place=FIRST_PLACE):
        super().__init__("linux", image, folder, files)
        self.tap, self.place = tap, place
        self.addresses = (place.address, place.address6, place.vlan_address)

    def hardware(self):
        return ["-M", "pc,usb=off,vmport=off", "-smp", PROCESSORS, "-netdev",
                f"tap,id=net,ifname={self.tap},script=no,downscript=no,vnet_hdr=off", "-device",
                f"virtio-net-pci,netdev=net,mac={self.place.mac},romfile=,{NO_OFFLOADS}"]

    def start(self, mtu=9000):
        self.boot(f"ADDRESSES='{self.place.address}/24 {self.place.address6}/64'\nMTU={mtu}\n"
                  f"VLAN={VLAN}:{self.place.vlan_address}/24\n")

    def wait_for_cm(self, port, deadline):
        """Waits until a program listens on this port by RDMA CM, as the kernel reports: programs do
        not."""
        self.run("until rdma resource show cm_id | "
                 f"grep -Eq 'LISTEN .*src-addr [^ ]*:{port}( |$)'; do sleep 0.05; done", deadline)

    def wait_for_no_cm(self, deadline):
        """Waits until no program listens by RDMA CM: a killed program keeps listening for some
        time. It would be taken for the next one, which cannot have its port."""
        self.run("while rdma resource show cm_id | grep LISTEN | grep -q ' pid '; do sleep 0.05; "
                 "done", deadline)

    def wait_for_tcp(self, port, deadline):
        self.run(f"until ss -Hltn | grep -q ':{port} '; do sleep 0.05; done", deadline)

    def healthy(self):
        """Returns whether the guest still runs commands, within 20 s, and has no iSCSI session. The
        kernel would try for minutes to recover one that a failed case has left."""
        if not self.running():
            return False
        try:
            self.run("test -d /sys/class/infiniband/rxe0 && "
                     "! compgen -G '/sys/class/iscsi_session/*'", Deadline(20))
        except CaseFailure:
            return False
        return True

    def reset(self, mtu):
        """Removes all traces of the last case; reboots a guest in which that fails.

        The server of a mount that a failed case left is gone: access would hang, or fail with
        handles that are stale for the next server. Mounts of several cases may be stacked.

        With an MTU below 1,280 Linux removes all IPv6 addresses of an interface. A VLAN's interface
        takes a lower MTU of its parent, but keeps it when the parent's rises again; rxe would then
        repeat packets that exceed it for ever, in the system call that posts them.
        """
        try:
            self.kill_scripts(Deadline(20))
            self.run("while umount -fl /mnt 2>/dev/null; do :; done; "
                     "tc qdisc del dev eth0 root 2>/dev/null; tc qdisc del dev eth0 clsact "
                     "2>/dev/null; ip link del ifb0 2>/dev/null; ip neigh flush all; "
                     f"ip link set eth0 mtu {mtu} && ip link set eth0.{VLAN} mtu {mtu} && "
                     f"ip addr replace {self.place.address6}/64 dev eth0 nodad", Deadline(20))
            self.wait_for_no_cm(Deadline(20))
        except CaseFailure:
            self.stop()
        if not self.healthy():
            self.stop()
            self.start(mtu)

    def state(self):
        """Returns lines about the state of its RDMA device and its unfinished scripts, or about why
        it does not answer."""
        lines = []
        try:
            lines += [f"script {number}: {last_line(command.output)}"
                      for number in range(1, self.next)
                      if not (command := Command(self, number)).ended()]
            lines += self.run(SHOW_STATE, Deadline(20)).splitlines()
        except CaseFailure as failure:
            lines.append(str(failure))
        return lines
