"""Guests in which Pollux runs on an emulated PCI NIC, which DPDK drives."""

import dataclasses
import json
import shlex
import socket

from machine import Machine
from process import CaseFailure, CaseSkipped, Deadline, Program, shell

# Two workers, and what else runs.
PROCESSORS = 2
TAP = "nic0"
MTU = 9000
# The only bus behind a root port, from which a device can be unplugged.
PCI_ADDRESS = "0000:01:00.0"
HUGE_PAGES = 96  # of 2 MiB: for one program, and for one that is just ending
VFIO, UIO = "vfio-pci", "uio_pci_generic"
# IOMMU faults that are DPDK's and not Pollux's: its vmxnet3 driver resets the device while the
# device still has an address of zero.
FAULT = "DMAR: .*fault addr"
HARMLESS_FAULTS = {"vmxnet3": "fault addr 0x0 "}


@dataclasses.dataclass(frozen=True)
class Nic:
    """An emulated NIC. `device`: QEMU's, with its properties. `queues`: those of its tap. `sorts`:
    QEMU distributes its packets by RSS."""
    model: str
    device: str
    queues: int = 1
    sorts: bool = False


NICS = {
    # Under an IOMMU it must be told that its addresses are translated.
    "virtio": Nic("virtio", "virtio-net-pci,mq=on,vectors=8,rss=on,hash=on,disable-legacy=on,"
                            "iommu_platform=on,host_mtu=9000", queues=2,
                  sorts=True),
    "vmxnet3": Nic("vmxnet3", "vmxnet3"),
    "e1000e": Nic("e1000e", "e1000e"),
    "igb": Nic("igb", "igb", sorts=True),  # QEMU 8.0 and later
}


class NicGuest(Machine):
    """A guest that has a NIC at PCI_ADDRESS, bound to `driver`. It shares `folder` with the host at
    the same path, and has the files of `programs` at theirs."""

    def __init__(self, image, folder, programs, init, bridge):
        super().__init__("nic", image, folder, {"init": init})
        self.programs, self.bridge = programs, bridge
        self.nic, self.driver = None, None

    def hardware(self):
        board = "q35,kernel-irqchip=split,usb=off,vmport=off"
        iommu = ("-device", "intel-iommu,intremap=on,caching-mode=on,aw-bits=48")
        queues = f",queues={self.nic.queues}" if self.nic.queues > 1 else ""
        return ["-M", board, "-smp", PROCESSORS, *(iommu if self.driver == VFIO else ()),
                "-netdev", f"tap,id=net,ifname={TAP},script=no,downscript=no,vhost=off{queues}",
                "-device", "pcie-root-port,id=root,chassis=1",
                "-device", f"{self.nic.device},netdev=net,id=nic,romfile=,bus=root",
                "-virtfs", f"local,path={self.folder},mount_tag=bench,security_model=none,"
                           "multidevs=remap",
                "-drive", f"file={self.programs_image()},format=raw,if=virtio,readonly=on",
                "-qmp", f"unix:{self.qmp_path()},server=on,wait=off"]

    def qmp_path(self):
        return self.folder / "nic.qmp"

    def programs_image(self):
        """Returns a file system with the programs; the share is too slow for them."""
        image = self.folder / "programs.squashfs"
        if not image.exists():
            shell(f"mksquashfs {self.programs} {image} -noI -noD -noF -noX -no-progress -quiet")
        return image

    def start(self, nic, driver):
        """Boots the guest with this NIC, unless it runs with that already."""
        if self.running() and (self.nic, self.driver) == (nic, driver):
            return
        self.stop()
        if f'name "{nic.device.split(",")[0]}"' not in shell("qemu-system-x86_64 -device help"):
            raise CaseSkipped(f"this QEMU has no {nic.model}")
        self.nic, self.driver = nic, driver
        multi = " multi_queue" if nic.queues > 1 else ""
        shell(f"ip link del {TAP} 2>/dev/null || true; "
              f"ip tuntap add {TAP} mode tap vnet_hdr{multi}; "
              f"ip link set {TAP} mtu {MTU} master {self.bridge} addrgenmode none up")
        self.boot(f"FOLDER={self.folder}\nPROGRAMS={self.programs}\nNIC={PCI_ADDRESS}\n"
                  f"NIC_DRIVER={driver}\n",
                  f"hugepages={HUGE_PAGES}" + (" intel_iommu=on" if driver == VFIO else ""))

    def control(self, command, **arguments):
        """Gives QEMU a command of its machine protocol (QMP)."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(20)
            peer.connect(str(self.qmp_path()))
            with peer.makefile("rw") as lines:
                lines.readline()  # the greeting
                for request in ({"execute": "qmp_capabilities"},
                                {"execute": command, "arguments": arguments}):
                    lines.write(json.dumps(request) + "\n")
                    lines.flush()
                    while "event" in (answer := json.loads(lines.readline())):
                        pass
                    if "error" in answer:
                        raise CaseFailure(f"QEMU: {command}: {answer['error']['desc']}")

    def set_link(self, up):
        self.control("set_link", name="nic", up=up)

    def unplug(self):
        """Unplugs the NIC; the next case gets another guest."""
        self.control("device_del", id="nic")
        self.driver = None

    def faults(self):
        """Returns what the IOMMU has refused to the NIC."""
        log = self.run(f"dmesg | grep -E '{FAULT}'; true", Deadline(20))
        harmless = HARMLESS_FAULTS.get(self.nic.model)
        return [line for line in log.splitlines() if harmless is None or harmless not in line]

    def reset(self):
        """Kills what the last case left; stops a guest in which that fails."""
        if not self.running():
            return
        try:
            self.kill_scripts(Deadline(20))
            self.run("dmesg -C", Deadline(20))
        except CaseFailure:
            self.stop()


class GuestProgram(Program):
    """A program in a NIC's guest. Its folder is shared with the host."""

    def __init__(self, guest, name, argv, folder):
        super().__init__(name, folder)
        words = shlex.join(str(word) for word in argv)
        self.command = guest.begin(f"cd {folder}; exec {words} >{self.out} 2>{self.err}")
        self.guest = guest

    @property
    def pid(self):
        return self.command.pid

    @property
    def status(self):
        return self.command.status if self.guest.running() else -1

    def signal(self, number):
        Deadline(20).wait_for(f"{self.name} to begin", lambda: self.pid is not None)
        self.guest.run(f"kill -{int(number)} {self.pid}", Deadline(20))

    def close(self):
        if self.running():
            self.command.kill(Deadline(20))
            Deadline(20).wait_for(f"{self.name} to be killed", lambda: not self.running())
