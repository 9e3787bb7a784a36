"""Tests `pollux run` with QEMU, which migrates a running guest to another QEMU over RDMA."""

import contextlib
import json
import shutil
import socket
import subprocess

from tests.command.harness import TIMEOUT_S, wait_for
from tests.command.run_test import RunTest

QEMU = "qemu-system-x86_64"
PORT = 4444
MIB = 1 << 20
MEMORY, FIRST, CHANGING, LAST = 32 * MIB, 1 * MIB, 5 * MIB, 28 * MIB

# The guest writes a different number to each word of its memory, and then keeps changing the words
# of the first 4 MiB.
GUEST = f"""
.code16
  cli
  xorw %ax, %ax
  movw %ax, %ds
  lgdtl table
  movl %cr0, %eax
  orb $1, %al
  movl %eax, %cr0
  ljmpl $8, $protected
.code32
protected:
  movw $16, %ax
  movw %ax, %ds
  movl ${LAST}, %ecx
  xorl %edx, %edx
round:
  incl %edx
  movl ${FIRST}, %edi
word:
  imull $2654435761, %edi, %eax
  addl %edx, %eax
  movl %eax, (%edi)
  addl $4, %edi
  cmpl %ecx, %edi
  jb word
  movl ${CHANGING}, %ecx
  jmp round
segments:
  .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
table:
  .word . - segments - 1
  .long segments
  .org 510
  .word 0xaa55
"""


class Monitor:
    """The monitor of a QEMU, which takes commands (QMP)."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile()
        self.lines.readline()  # the greeting of QEMU
        self.ask("qmp_capabilities")

    def close(self):
        self.lines.close()
        self.socket.close()

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            line = self.lines.readline()
            if not line and command == "quit":
                return None
            if not line:
                raise AssertionError(f"{command}: QEMU ended")
            answer = json.loads(line)
            if "error" in answer:
                raise AssertionError(f"{command}: {answer}")
            if "return" in answer:
                return answer["return"]


class MigrationTest(RunTest):
    def setUp(self):
        super().setUp()
        for tool in (QEMU, "as", "ld"):
            if shutil.which(tool) is None:
                self.skipTest(f"needs the command {tool}")
        code, disk = self.directory / "guest.o", self.directory / "guest"
        subprocess.run(["as", "--32", "-o", code, "-"], input=GUEST, text=True, check=True)
        subprocess.run(["ld", "-m", "elf_i386", "-Ttext", "0x7c00", "--oformat", "binary", "-e",
                        "0x7c00", "-o", disk, code], check=True)
        disk.write_bytes(disk.read_bytes().ljust(1440 << 10, b"\0"))

    def qemu_argv(self, name, *options):
        return (QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg", "-m",
                f"{MEMORY // MIB}M", "-drive", f"if=floppy,format=raw,readonly=on,"
                f"file={self.directory / 'guest'}", "-qmp",
                f"unix:{self.directory / name}.qmp,server=on,wait=off", *options)

    def monitor(self, name):
        def connected():
            # QEMU creates the socket's file before it listens on it.
            with contextlib.suppress(ConnectionRefusedError):
                return Monitor(self.directory / f"{name}.qmp")

        made = wait_for(f"the monitor of {name}", connected)
        self.addCleanup(made.close)
        return made

    def memory(self, monitor, address=0, size=MEMORY):
        path = self.directory / "memory"
        monitor.ask("pmemsave", val=address, size=size, filename=str(path))
        return path.read_bytes()

    def changes(self, monitor):
        """Waits until the guest changes its memory, which shows that it runs."""
        before = self.memory(monitor, CHANGING - 4, 4)
        return wait_for("changes of memory",
                        lambda: self.memory(monitor, CHANGING - 4, 4) != before)

    def migrate(self, **capabilities):
        target = self.start_server(*self.qemu_argv("target", "-S", "-incoming",
                                                   f"rdma:{self.address}:{PORT}"))
        source = self.run_program(self.client_host, *self.qemu_argv("source"))
        wait_for("a monitor", (self.directory / "source.qmp").exists)
        there, here = self.monitor("target"), self.monitor("source")
        for monitor in (there, here):
            monitor.ask("migrate-set-capabilities", capabilities=[
                {"capability": name.replace("_", "-"), "state": state}
                for name, state in capabilities.items()])
        wait_for("the guest", lambda: any(self.memory(here, CHANGING, 4)))
        self.changes(here)
        # The guest may be stopped for the last pass for as long as that takes.
        here.ask("migrate-set-parameters", **{"downtime-limit": 100_000})
        here.ask("migrate", uri=f"rdma:{self.address}:{PORT}")

        def ended():
            told = here.ask("query-migrate")
            self.assertNotIn(told["status"], ("failed", "cancelled"), f"{told} {source.stderr} "
                             f"{target.stderr}")
            return told["status"] == "completed" and told["ram"]

        ram = wait_for("the migration", ended)
        wait_for("the target", lambda: there.ask("query-status")["status"] == "paused")
        self.assertTrue(self.memory(there) == self.memory(here))
        self.assertGreaterEqual(ram["transferred"], LAST - FIRST)
        self.assertGreaterEqual(ram["dirty-sync-count"], 2)
        there.ask("cont")
        self.changes(there)
        for monitor in (here, there):
            monitor.ask("quit")
        self.assertEqual((source.wait(), target.wait()), (0, 0), source.stderr + target.stderr)

    def test_a_guest_migrates(self):
        self.migrate()

    def test_a_guest_migrates_with_all_memory_pinned(self):
        self.migrate(rdma_pin_all=True)
