"""A virtual machine made of the image (image.py), and scripts that run in it.

It is always emulated: it boots in seconds without KVM, while it takes a minute to find out that a
host's KVM cannot run an unmodified kernel.
"""

import shutil
import time

from process import CaseFailure, Deadline, Process, last_line

MEMORY_MIB = 768
BOOT_DEADLINE_S = 180  # five seconds on an idle machine
# no_timer_check: the timer works, but the kernel would check that within a fixed time, and panic on
# a busy host.
KERNEL_ARGUMENTS = ("console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off tsc=unstable nokaslr "
                    "net.ifnames=0 random.trust_cpu=on audit=0 no_timer_check")


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

    @property
    def status(self):
        """The exit status, or None while it runs."""
        ended = self._file(".rc")
        return int(ended.read_text()) if ended.exists() else None

    @property
    def pid(self):
        """The guest's process ID of the script, or None before it has begun."""
        begun = self._file(".pid")
        text = begun.read_text() if begun.exists() else ""
        return int(text) if text.endswith("\n") else None

    def ended(self):
        if not self.guest.running():
            raise CaseFailure("the guest died")
        return self.status is not None

    def wait(self, deadline):
        """Waits until it ends; returns the exit status."""
        try:
            deadline.wait_for("the guest's script to end", self.ended)
        except CaseFailure as failure:
            raise CaseFailure(f"{failure}; so far: {last_line(self.output)}") from failure
        return self.status

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


class Machine:
    """A guest with a disk. Subclasses add other devices, and settings for its init."""

    def __init__(self, name, image, folder, files):
        """Stores the settings. Names of files begin with `name`. `files` are put in the guest's
        /host, by name; "init" is the first program that the guest runs."""
        self.name, self.image, self.folder, self.files = name, image, folder, files
        self.shared = folder / name
        self.console = folder / f"{name}.console"
        self.qemu = None
        self.next = 1

    def hardware(self):
        """Returns QEMU's arguments for the board, the processors and the NIC."""
        raise NotImplementedError

    def boot(self, settings, kernel_arguments=""):
        """Starts the guest and waits until its init is done. `settings`: lines of shell variables
        for the init."""
        shutil.rmtree(self.shared, ignore_errors=True)
        (self.shared / "run").mkdir(parents=True)
        for name, path in self.files.items():
            shutil.copy(path, self.shared / name)
        (self.shared / "settings").write_text(settings)
        self.next = 1
        self.qemu = Process(f"{self.name}.qemu", [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,-la57", "-m",
            MEMORY_MIB, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", self.image / "vmlinux", "-initrd", self.image / "initrd.cpio", "-append",
            f"{KERNEL_ARGUMENTS} {kernel_arguments}", "-drive",
            f"file={self.image}/root.squashfs,format=raw,if=virtio,readonly=on", "-device",
            "virtio-rng-pci", "-virtfs",
            f"local,path={self.shared},mount_tag=host,security_model=none,multidevs=remap",
            "-serial", f"file:{self.console}", *self.hardware()], self.folder)
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

    def kill_scripts(self, deadline):
        """Kills all scripts that have not ended."""
        for number in range(1, self.next):
            command = Command(self, number)
            if command.status is None and command.pid is not None:
                command.kill(deadline)

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
