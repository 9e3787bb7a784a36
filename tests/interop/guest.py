"""The Linux peer: a virtual machine with a soft-RoCE device rxe0 on a tap.

It is always emulated: it boots in seconds without KVM, while it takes a minute to find out that a
host's KVM cannot run an unmodified kernel.
"""

import dataclasses
import shutil
import time

from process import CaseFailure, Deadline, Process, last_line

MEMORY_MIB = 768
# The second processor is never added. With a maximum of one, QEMU before 8.1 leaves out the memory
# barriers between the guest's virtio drivers and the devices: now and then a notification gets
# lost, after which the interface sends nothing any more.
PROCESSORS = "1,maxcpus=2"
BOOT_DEADLINE_S = 180  # five seconds on an idle machine
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
# no_timer_check: the timer works, but the kernel would check that within a fixed time, and panic on
# a busy host.
KERNEL_ARGUMENTS = ("console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off tsc=unstable nokaslr "
                    "net.ifnames=0 random.trust_cpu=on audit=0 no_timer_check")
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


class Command:
    """A script that runs in the guest."""

    def __init__(self, guest, number):
        self.guest = guest
        self.base = guest.shared / "run" / str(number)

    def _file(self, suffix):
        return self.base.with_suffix(suffix)

    @property
    def output(self):
        out = self._file(".out")
        return out.read_text(errors="replace") if out.exists() else ""

    def ended(self):
        if not self.guest.running():
            raise CaseFailure("the guest died")
        return self._file(".rc").exists()

    def wait(self, deadline):
        """Waits until it ends; returns the exit status."""
        deadline.wait_for(f"the guest's script to end; so far: {last_line(self.output)}",
                          self.ended)
        return int(self._file(".rc").read_text())

    def expect(self, status, deadline):
        """Waits until it ends; returns its output, or fails unless it ended with this status."""
        found = self.wait(deadline)
        if found != status:
            raise CaseFailure(f"the guest's script ended with {found}, not {status}: "
                              f"{last_line(self.output)}")
        return self.output

    def wait_for_output(self, text, deadline):
        def found():
            if text in self.output:
                return True
            if self.ended():
                raise CaseFailure(f"the guest's script ended before saying '{text}': "
                                  f"{last_line(self.output)}")
            return False

        deadline.wait_for(f"the guest to say '{text}'", found)

    def kill(self, deadline):
        """Kills all its remaining processes, which are a session of their own."""
        self.guest.run(f"pkill -9 -s $(cat /host/run/{self.base.name}.pid); true", deadline)

    def end(self, deadline):
        """Does the same as kill(), and waits until the processes, which must have one thread each,
        have released their resources. Zombies have; they may remain, because bash, the guest's
        init, sometimes stops reaping."""
        self.guest.run(f"session=$(cat /host/run/{self.base.name}.pid); "
                       "while pkill -9 -r D,R,S,T -s $session; do sleep 0.02; done", deadline)


class Guest:
    """A guest. start() boots it; one boot serves many cases."""

    def __init__(self, image, folder, tap, files, place=FIRST_PLACE):
        """Stores the settings. `files` are put in the guest's /host, by name; "init" is the first
        program that the guest runs."""
        self.image, self.folder, self.tap, self.files = image, folder, tap, files
        self.place = place
        self.shared = folder / "host"
        self.console = folder / "console"
        self.addresses = (place.address, place.address6, place.vlan_address)
        self.qemu = None
        self.next = 1

    def start(self, mtu=9000):
        shutil.rmtree(self.shared, ignore_errors=True)
        (self.shared / "run").mkdir(parents=True)
        for name, path in self.files.items():
            shutil.copy(path, self.shared / name)
        (self.shared / "settings").write_text(
            f"ADDRESSES='{self.place.address}/24 {self.place.address6}/64'\nMTU={mtu}\n"
            f"VLAN={VLAN}:{self.place.vlan_address}/24\n")
        self.next = 1
        self.qemu = Process("qemu", [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", PROCESSORS, "-cpu",
            "max,-la57", "-m", MEMORY_MIB, "-M", "pc,usb=off,vmport=off", "-nodefaults",
            "-no-user-config", "-display", "none", "-no-reboot", "-kernel",
            self.image / "vmlinux", "-initrd", self.image / "initrd.cpio", "-append",
            KERNEL_ARGUMENTS, "-drive",
            f"file={self.image}/root.squashfs,format=raw,if=virtio,readonly=on", "-netdev",
            f"tap,id=net,ifname={self.tap},script=no,downscript=no,vnet_hdr=off", "-device",
            f"virtio-net-pci,netdev=net,mac={self.place.mac},romfile=,{NO_OFFLOADS}", "-device",
            "virtio-rng-pci", "-virtfs",
            f"local,path={self.shared},mount_tag=host,security_model=none,multidevs=remap",
            "-serial", f"file:{self.console}"], self.folder)
        ready = self.shared / "ready"

        def booted():
            if not self.running():
                raise CaseFailure(f"the guest ended while booting: {last_line(self.qemu.stderr)}; "
                                  f"console: {last_line(self.console_tail())}")
            return ready.exists()

        Deadline(BOOT_DEADLINE_S).wait_for("the guest to boot", booted)

    def running(self):
        return self.qemu is not None and self.qemu.running()

    def begin(self, script):
        """Starts a bash script; its output is that of both streams."""
        command = Command(self, self.next)
        base = self.shared / "run" / str(self.next)
        base.with_suffix(".sh").write_text(f"echo $$ >/host/run/{self.next}.pid\n{script}\n")
        base.with_suffix(".go").touch()
        self.next += 1
        return command

    def run(self, script, deadline):
        """Runs a script that must succeed; returns its output."""
        return self.begin(script).expect(0, deadline)

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
        """Returns whether the guest still runs commands, within 20 s."""
        if not self.running():
            return False
        try:
            self.run("test -d /sys/class/infiniband/rxe0", Deadline(20))
        except CaseFailure:
            return False
        return True

    def reset(self, mtu):
        """Removes all traces of the last case; reboots a guest in which that fails."""
        try:
            for number in range(1, self.next):
                base = self.shared / "run" / str(number)
                if not base.with_suffix(".rc").exists() and base.with_suffix(".pid").exists():
                    Command(self, number).kill(Deadline(20))
            self.run("tc qdisc del dev eth0 root 2>/dev/null; tc qdisc del dev eth0 clsact "
                     "2>/dev/null; ip link del ifb0 2>/dev/null; ip neigh flush all; "
                     f"ip link set eth0 mtu {mtu}", Deadline(20))
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

    def console_tail(self, lines=20):
        if not self.console.exists():
            return ""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:])

    def stop(self):
        if self.qemu is None:
            return
        (self.shared / "poweroff").touch()
        end = time.monotonic() + 5
        while self.running() and time.monotonic() < end:
            time.sleep(0.05)
        self.qemu.close()
        self.qemu = None
