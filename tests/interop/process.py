"""Programs that a case runs on the host. Their output goes to files, and every wait has a
deadline."""

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


class Process:
    """A started program; its standard output and error are files NAME.out and NAME.err."""

    def __init__(self, name, argv, folder):
        self.name = name
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.child = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=err, cwd=folder,
                                          preexec_fn=die_with_parent)

    stdout = property(lambda self: self.out.read_text(errors="replace"))
    stderr = property(lambda self: self.err.read_text(errors="replace"))

    def running(self):
        return self.child.poll() is None

    def wait_for_line(self, pattern, deadline):
        """Waits until a line of standard error or output matches."""

        def found():
            text = self.stderr + self.stdout
            if re.search(pattern, text, re.MULTILINE):
                return True
            if not self.running():
                raise CaseFailure(f"{self.name} ended with {self.child.returncode} before saying "
                                  f"'{pattern}': {last_line(text)}")
            return False

        deadline.wait_for(f"'{pattern}' of {self.name}", found)

    def wait(self, deadline):
        """Waits until it ends; returns the exit status."""
        deadline.wait_for(f"{self.name} to end", lambda: not self.running())
        return self.child.returncode

    def expect(self, status, deadline):
        found = self.wait(deadline)
        if found != status:
            raise CaseFailure(f"{self.name} ended with {found}, not {status}: "
                              f"{last_line(self.stderr)}")

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
