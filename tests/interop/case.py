"""Cases, and the bench that runs them."""

import contextlib
import dataclasses
import json
import shlex
import subprocess
import typing

from capture import Capture
from guest import ADDRESS
from judges import judge
from network import GUEST_TAP, NIC_PORTS
from nic_guest import TAP as NIC_TAP, GuestProgram
from process import CaseFailure, Deadline, Process, last_line
from wire import Evidence

TO_LINUX, TO_POLLUX = "pollux -> linux", "linux -> pollux"
BOTH = (TO_LINUX, TO_POLLUX)
BOTH_PORTS = ("tap", "af_packet")
NICS = tuple(NIC_PORTS)
CASES = []
ASK_S = 30
RECORDER_LINES = 80


@dataclasses.dataclass
class Case:
    """A case. Its capture must show `wants`, pairs of (sender, name), for the case to pass; see
    wire.py."""
    name: str
    run: typing.Callable
    directions: tuple
    ports: tuple
    nics: tuple  # kinds of ports that are used beside `ports` with --all and --nightly
    wants: tuple
    deadline_s: int
    extra: bool  # only with --all
    corrupted: bool  # frames are damaged on purpose


def case(name, directions=BOTH, ports=BOTH_PORTS, nics=(), wants=(), deadline_s=120, extra=False,
         corrupted=False):
    """Registers a function of a Bench as a case. `wants` may name "active" and "passive", which the
    direction maps to "pollux" and "linux". The function may return a function of the Evidence that
    checks the capture more closely."""

    def register(function):
        if any(other.name == name for other in CASES):
            raise ValueError(f"two cases are called {name}")
        CASES.append(Case(name, function, directions, ports, nics, wants, deadline_s, extra,
                          corrupted))
        return function

    return register


def need(condition, message):
    if not condition:
        raise CaseFailure(message)


class Bench:
    """One run of a case, in one direction over one port."""

    def __init__(self, the_case, direction, port, guest, nic_guest, tools, folder):
        self.case, self.direction, self.port = the_case, direction, port
        self.guest, self.tools, self.folder = guest, tools, folder
        # Where Pollux runs; None: on the host.
        self.nic_guest = nic_guest if port.kind in NIC_PORTS else None
        self.deadline = None  # set by run()
        self.guest_address = ADDRESS
        self.network = "ipv4"  # or "ipv6", "vlan": the network that two programs use over RDMA
        self.processes = []
        self.peers = []  # verbs programs, which end with the case
        self.capture = None
        self.evidence = None
        self.recorders = []  # lines of the flight recorders, after a failure

    @property
    def to_linux(self):
        return self.direction == TO_LINUX

    @property
    def sides(self):
        """Returns the active and the passive side."""
        return ("pollux", "linux") if self.to_linux else ("linux", "pollux")

    def program(self, name, path, *arguments):
        name = f"{name}{len(self.processes)}"
        argv = [path, *arguments]
        process = (GuestProgram(self.nic_guest, name, argv, self.folder) if self.nic_guest
                   else Process(name, argv, self.folder))
        self.processes.append(process)
        return process

    def ask(self, *arguments, on_host=False):
        """Runs a pollux command that asks running ones, where Pollux runs or on the host; returns
        its exit status and its output."""
        argv = [str(word) for word in (self.tools["pollux"], *arguments)]
        if self.nic_guest and not on_host:
            asked = self.nic_guest.begin(f"{shlex.join(argv)} 2>/dev/null")
            return asked.wait(Deadline(ASK_S)), asked.output
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              timeout=ASK_S, check=False)
        return done.returncode, done.stdout

    def pollux(self, command, *arguments):
        """Starts a pollux command on this bench's port."""
        return self.program(command, self.tools["pollux"], command, *self.port.arguments(),
                            *arguments)

    def pollux_rping(self, *arguments):
        """Starts the native-API rping on this bench's port."""
        return self.program("rping", self.tools["pollux_rping"], *self.port.arguments(),
                            *arguments)

    def pollux_peer(self, *arguments):
        """Starts the verbs program on this bench's port."""
        return self.program("pollux_peer", self.tools["pollux_peer"], *self.port.arguments(),
                            *arguments)

    def listening(self, process):
        """Waits until a pollux command can be reached."""
        process.wait_for_line("^(listening|serving)", self.deadline)
        self.deadline.wait_for("the port on the bridge", self.port.plugged)

    def pollux_json(self, process, status=0):
        """Waits until the process ends with `status`, and returns the object that it printed."""
        process.expect(status, self.deadline)
        try:
            return json.loads(last_line(process.stdout))
        except ValueError as error:
            raise CaseFailure(f"{process.name} printed no JSON: "
                              f"{last_line(process.stdout)}") from error

    def wait_on_wire(self, sender, name, count=1):
        """Waits until `sender` ("pollux" or "linux") has sent `count` frames of this name."""
        self.deadline.wait_for(
            f"{count} {name} of {sender}",
            lambda: Evidence(self.capture.path, self.guest.addresses).count(sender, name) >= count,
            pause_s=0.3)

    def run(self):
        """Runs the case. Raises CaseFailure unless it passes and its capture is right."""
        # The time starts here: a reboot of the guest before the case does not count.
        self.deadline = Deadline(self.case.deadline_s)
        # Frames between a NIC and the host do not pass the tap of the Linux guest.
        self.capture = Capture(NIC_TAP if self.nic_guest else GUEST_TAP, self.folder,
                               self.deadline)
        try:
            look = self._run_case()
        except BaseException:
            # What fails at the end of a failed case must not replace the case's own failure, nor
            # the end of the worker.
            with contextlib.suppress(Exception):
                self._end()
            raise
        self._end()
        self.evidence = Evidence(self.capture.path, self.guest.addresses)
        self._judge()
        if look is not None:
            look(self.evidence)

    def _run_case(self):
        try:
            look = self.case.run(self)
            for peer in self.peers:
                peer.finish()
            if self.nic_guest and (faults := self.nic_guest.faults()):
                raise CaseFailure(f"the IOMMU refused the NIC: {faults[0]}")
            return look
        except Exception:
            self.record_connections()
            raise

    def _end(self):
        """Ends the processes and the capture, each of them even if another one fails to end; raises
        the first failure."""
        failures = []
        for end in (*(process.close for process in self.processes), self.capture.stop,
                    self.capture.close):
            try:
                end()
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def record_connections(self):
        """Saves the flight recorders of live connections to explain a failure: a hang shows nowhere
        else."""
        for process in self.processes:
            if not process.running():
                continue
            try:
                _, output = self.ask("connections", "--recorder", "--pid", process.pid,
                                     on_host=isinstance(process, Process))
                self.recorders += output.splitlines()[-RECORDER_LINES:]
            except (subprocess.TimeoutExpired, CaseFailure):
                self.recorders.append(f"{process.name} did not answer in {ASK_S} s")

    def _judge(self):
        sides = dict(zip(("active", "passive"), self.sides))
        missing = self.evidence.missing(
            [(sides.get(sender, sender), name) for sender, name in self.case.wants])
        if missing:
            raise CaseFailure(f"the capture does not show {', '.join(missing)}")
        found = judge(self.evidence, self.case.corrupted, self.tools["conformance"])
        if found:
            raise CaseFailure(f"{len(found)} findings in the capture: {'; '.join(found[:3])}")
