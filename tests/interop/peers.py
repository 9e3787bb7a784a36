"""Drives the two verbs programs by commands: one in the guest, one on Pollux. See peer/words.h for
the language."""

import itertools
import signal

import ibv
from case import need
from guest import ADDRESS6
from process import CaseFailure, last_line

REGION = 256 * 1024
FNV_BASIS, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
COMPLETION_MS = 60_000  # emulation is slow
# A program that is slow to end keeps its port. None is 20049: what is sent there is judged as RPC.
PORTS = itertools.count(21_000)


def pattern(begin, end, seed):
    """Returns the bytes that `fill` writes there."""
    return bytes((i * 31 + (i >> 8) * 13 + seed) & 0xFF for i in range(begin, end))


def digest(memory):
    value = FNV_BASIS
    for byte in memory:
        value = (value ^ byte) * FNV_PRIME & MASK
    return f"{value:016x}"


class Completion:
    def __init__(self, text):
        wr, status, opcode, length, flags, imm, qpn, src = text.split("/")
        self.wr, self.status, self.opcode = int(wr), int(status), int(opcode)
        self.length, self.flags, self.imm = int(length), int(flags, 16), int(imm, 16)
        self.qpn, self.src_qpn = int(qpn, 16), int(src, 16)

    def __str__(self):
        return f"wr {self.wr} status {self.status} of {self.length} bytes"


class Event:
    """An event of the connection manager."""

    def __init__(self, words):
        self.name = words[0].removeprefix("RDMA_CM_EVENT_")
        self.status, self.id = int(words[1]), int(words[2])
        self.qpn, self.qkey = (int(word) for word in words[3].split("/")) \
            if "/" in words[3] else (0, 0)
        self.data = bytes.fromhex(words[4][1:])


class Peer:
    """A program that answers each command with a line. It ends with the bench."""

    def __init__(self, bench, address):
        self.bench, self.address, self.answers = bench, address, 0
        self.base = 0
        self.port = next(PORTS)  # where it listens
        self.gone = False
        bench.peers.append(self)

    def output(self):
        raise NotImplementedError

    def ended(self):
        raise NotImplementedError

    def send(self, line):
        raise NotImplementedError

    def kill(self):
        """Kills the program."""
        raise NotImplementedError

    def expect_end(self):
        raise NotImplementedError

    def finish(self):
        """Lets the program release everything and end in good order."""
        if not self.gone:
            self.gone = True
            self.send("exit")
            self.expect_end()

    def begin(self, name, **values):
        """Sends a command."""
        self.send(" ".join([name, *(f"{key}={value}" for key, value in values.items())]))

    def answer(self):
        """Returns the words of the next answer, `ok` or `error` first."""
        def next_line():
            lines = self.output().split("\n")
            if len(lines) > self.answers + 1:
                return lines[self.answers]
            if self.ended():
                raise CaseFailure(f"{self} ended: {last_line(self.output())}")
            return None

        line = self.bench.deadline.wait_for(f"an answer of {self}", next_line, pause_s=0.003)
        self.answers += 1
        return line.split(" ")

    def do(self, name, **values):
        """Runs a command that must succeed; returns the words of its answer."""
        self.begin(name, **values)
        words = self.answer()
        need(words[0] == "ok", f"{self}: {name} {values}: {' '.join(words)}")
        return words[1:]

    def mr(self, n=0, **values):
        key, base = self.do("mr", n=n, **values)
        self.base = int(base)
        return int(key)

    def poll(self, count=1, ms=COMPLETION_MS):
        """Returns `count` completions, which must come."""
        found = [Completion(word) for word in self.do("poll", count=count, ms=ms) if word]
        need(len(found) == count, f"{self} has {len(found)} completions, not {count}")
        return found

    def nothing_comes(self, ms):
        found = self.do("poll", count=1, ms=ms)
        need(not any(found), f"{self} has a completion: {found}")

    def run(self, status=ibv.WC_SUCCESS, **values):
        """Runs a work request; returns its completion, which must have this status."""
        self.do("send", **values)
        done, = self.poll()
        need(done.status == status, f"{self}: {values} completed with {done.status}, not {status}")
        return done

    def event(self, *names, ms=COMPLETION_MS):
        """Returns the next event, which must be one of these."""
        words = self.do("event", ms=ms)
        need(words[0] != "none", f"{self}: no event came; {names} was due")
        found = Event(words)
        need(found.name in names, f"{self}: {found.name} {found.status}, not {names}")
        return found

    def peek(self, at, length):
        return bytes.fromhex(self.do("peek", at=at, len=length)[0])

    def word(self, at):
        """Returns the 64-bit number at this offset."""
        return int.from_bytes(self.peek(at, 8), "little")

    def check_memory(self, at, wanted, what):
        need(self.do("digest", at=at, len=len(wanted))[0] == digest(wanted),
             f"{self}: {what} is wrong")


class LinuxPeer(Peer):
    def __init__(self, bench, ipv6=False):
        super().__init__(bench, ADDRESS6 if ipv6 else bench.guest_address)
        self.file = bench.guest.shared / f"commands{bench.guest.next}"
        self.file.write_text("")
        self.script = bench.guest.begin(
            f"timeout {bench.deadline.seconds} /host/peer /host/{self.file.name} {self.address}")

    def __str__(self):
        return "the guest's peer"

    def output(self):
        return self.script.output

    def ended(self):
        return self.script.ended()

    def send(self, line):
        with open(self.file, "a", encoding="ascii") as file:
            file.write(line + "\n")

    def kill(self):
        self.gone = True
        self.script.end(self.bench.deadline)

    def expect_end(self):
        """Does not wait: rxe may take a minute to end a queue pair that has failed."""


class PolluxPeer(Peer):
    def __init__(self, bench, *arguments, ipv6=False):
        super().__init__(bench, bench.port.address6 if ipv6 else bench.port.address)
        self.file = bench.folder / f"commands{len(bench.processes)}"
        self.file.write_text("")
        self.process = bench.pollux_peer("--commands", self.file, *arguments)
        bench.listening(self.process)

    def __str__(self):
        return "pollux's peer"

    def output(self):
        return self.process.stdout

    def ended(self):
        return not self.process.running()

    def send(self, line):
        with open(self.file, "a", encoding="ascii") as file:
            file.write(line + "\n")

    def kill(self):
        self.gone = True
        self.process.signal(signal.SIGKILL)
        self.process.wait(self.bench.deadline)

    def expect_end(self):
        self.process.expect(0, self.bench.deadline)


def peers(bench, *pollux_arguments, ipv6=False):
    """Returns the active and the passive side in the bench's direction, with addresses of one
    kind."""
    mine, guest = PolluxPeer(bench, *pollux_arguments, ipv6=ipv6), LinuxPeer(bench, ipv6)
    return (mine, guest) if bench.to_linux else (guest, mine)


def listen(passive):
    passive.do("id", n=0, ps="tcp")
    passive.do("listen", id=0, port=passive.port)


def request(active, passive, number=0, qp=None, **param):
    """Sends a REQ from the active side. `number`: of its identifier and queue pair."""
    active.do("id", n=number, ps="tcp")
    active.do("resolve", id=number, to=passive.address, port=passive.port)
    active.do("cmqp", n=number, id=number, **(qp or {}))
    active.do("connect", id=number, **param)


def ask(active, passive, number=0, qp=None, **param):
    """Sends a REQ from the active side; returns the CONNECT_REQUEST at the passive side."""
    request(active, passive, number, qp, **param)
    return passive.event("CONNECT_REQUEST")


def establish(active, passive, asked, number=0, qp=None, **param):
    """Accepts a request; returns the event at the active side. The passive side's queue pair has
    `number`."""
    passive.do("cmqp", n=number, id=asked.id, **(qp or {}))
    passive.do("accept", id=asked.id, **param)
    established = active.event("ESTABLISHED")
    passive.event("ESTABLISHED")
    return established


def connect(active, passive, count=1, active_qp=None, passive_qp=None, **param):
    """Establishes `count` connections by CM, with queue pairs 0 to count - 1 on both sides. The
    active side's identifiers are 0 to count - 1; returns those of the passive side."""
    listen(passive)
    requests = []
    for number in range(count):
        requests.append(ask(active, passive, number, active_qp, **param))
        establish(active, passive, requests[-1], number, passive_qp, **param)
    return [request.id for request in requests]


def disconnect(active, passive, number=0):
    """Sends a DREQ from the active side, and waits for the end at both."""
    active.do("disconnect", id=number)
    passive.event("DISCONNECTED")
    active.event("DISCONNECTED")


def bare(one, other, kind, number=0, mtu=3, access=ibv.EVERY_REMOTE, ops=None, **values):
    """Connects two queue pairs of a type without CM, both to RTS. `access`: what `other` allows;
    `ops`: what can be posted beside the usual, as {"atomic_write": 1} or {"flush": 1}."""
    sides = ((one, other, 0x123450), (other, one, 0xFFFFF0))  # PSNs that wrap soon on one side
    qpn = {side: side.do("qp", n=number, type=kind, **(ops or {}))[0] for side, _, _ in sides}
    one.do("init", n=number, type=kind)
    other.do("init", n=number, type=kind, access=access)
    for side, far, psn in sides:
        peer_psn = next(its for who, _, its in sides if who is far)
        side.do("rtr", n=number, type=kind, to=far.address, dest=qpn[far], psn=peer_psn, mtu=mtu,
                **values)
        side.do("rts", n=number, type=kind, psn=psn, **values)
