"""What goes over the guest's tap, in a pcap file: whole and up to the last frame."""

import os
import re
import signal
import socket

from process import CaseFailure, Process

# An EtherType for experiments (IEEE 802): nobody on the bridge heeds it.
MARKER_TYPE = b"\x88\xb5"
# So that a busy machine loses no frame: more than a second of the most that a bridge carries here,
# for a program that seldom has to wait for its CPU.
BUFFER_KIB, NICENESS = 131072, -20


class Capture:
    def __init__(self, interface, folder, deadline):
        self.interface = interface
        self.path = folder / "wire.pcap"
        self.deadline = deadline
        self.tcpdump = Process("tcpdump", ["nice", "-n", NICENESS, "tcpdump", "-i", interface, "-n",
                                           "-U", "-Z", "root", "-B", BUFFER_KIB, "-s", 0, "-w",
                                           self.path], folder)
        self.tcpdump.wait_for_line("listening on", deadline)

    def stop(self):
        """Returns once all that passed so far is in the file."""
        marker = os.urandom(16)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind((self.interface, 0))
            sender.send(b"\xff" * 6 + b"\x02" + b"\0" * 5 + MARKER_TYPE + marker + b"\0" * 30)

        def marked():
            if not self.tcpdump.running():
                raise CaseFailure(f"tcpdump ended: {self.tcpdump.stderr}")
            # Every frame is flushed to the file on its own.
            with open(self.path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 65536))
                return marker in file.read()

        self.deadline.wait_for("the capture's end", marked)
        self.tcpdump.signal(signal.SIGINT)
        self.tcpdump.wait(self.deadline)
        lost = re.search(r"(\d+) packets dropped by kernel", self.tcpdump.stderr)
        if lost and int(lost[1]):
            raise CaseFailure(f"the capture lost {lost[1]} frames")

    def close(self):
        self.tcpdump.close()
