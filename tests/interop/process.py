"""Programs that a case runs. Their output goes to files, and every wait has a deadline."""

import ctypes
import os
import re
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
POLL_S = 0.02


class CaseFailure(Exception):
    """The reason why a case failed."""


class CaseSkipped(Exception):
    """The reason why a case cannot run here."""


class Deadline:
    """The time by which a case must be done. It bounds every wait of the case."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.at = time.monotonic() + seconds

    def wait_for(self, what, condition, pause_s=POLL_S):
        """Waits until `condition()` holds and returns what it returned."""
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > self.at:
                raise CaseFailure(f"deadline of {self.seconds} s passed waiting for {what}")
            time.sleep(pause_s)


def die_with_parent():
    """Runs in the child, so that no process outlives the run, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """A started program; its standard output and error are files NAME.out and NAME.err in
    `folder`."""

    def __init__(self, name, folder):
        self.name = name
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        self.out.touch()
        self.err.touch()

    stdout = property(lambda self: self.out.read_text(errors="replace"))
    stderr = property(lambda self: self.err.read_text(errors="replace"))

    @property
    def pid(self):
        raise NotImplementedError

    @property
    def status(self):
        """The exit status, or None while it runs."""
        raise NotImplementedError

    def signal(self, number):
        raise NotImplementedError

    def close(self):
        """Kills it if it still runs."""
        raise NotImplementedError

    def running(self):
        return self.status is None

    def wait_for_line(self, pattern, deadline):
        """Waits until a line of standard error or output matches."""

        def found():
            text = self.stderr + self.stdout
            if re.search(pattern, text, re.MULTILINE):
                return True
            if not self.running():
                raise CaseFailure(f"{self.name} ended with {self.status} before saying "
                                  f"'{pattern}': {last_line(text)}")
            return False

        deadline.wait_for(f"'{pattern}' of {self.name}", found)

    def wait(self, deadline):
        """Waits until it ends; returns the exit status."""
        deadline.wait_for(f"{self.name} to end", lambda: not self.running())
        return self.status

    def expect(self, status, deadline):
        found = self.wait(deadline)
        if found != status:
            raise CaseFailure(f"{self.name} ended with {found}, not {status}: "
                              f"{last_line(self.stderr)}")


class Process(Program):
    """A program on the host."""

    def __init__(self, name, argv, folder):
        super().__init__(name, folder)
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.child = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=err, cwd=folder,
                                          preexec_fn=die_with_parent)

    @property
    def pid(self):
        return self.child.pid

    @property
    def status(self):
        return self.child.poll()

    def signal(self, number):
        self.child.send_signal(number)

    def close(self):
        if self.running():
            self.child.kill()
        self.child.wait()


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "(it said nothing)"


def shell(command):
    """Runs a shell command that must succeed."""
    done = subprocess.run(["sh", "-ec", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode != 0:
        raise CaseFailure(f"`{command}`: {last_line(done.stdout)}")
    return done.stdout


def is_root():
    return os.geteuid() == 0
