"""Captures the frames on a guest's tap in a pcap file, whole and up to the last one."""

import os
import re
import signal
import socket

from process import CaseFailure, Deadline, Process

# An EtherType for experiments (IEEE 802), which every host on the bridge ignores.
MARKER_TYPE = b"\x88\xb5"
# So that a busy machine loses no frame: a buffer for more than a second of the bridge's highest
# rate here, and a priority with which tcpdump seldom has to wait for its CPU.
BUFFER_KIB, NICENESS = 131072, -20
STOP_S = 60


class Capture:
    def __init__(self, interface, folder, deadline):
        self.interface = interface
        self.path = folder / "wire.pcap"
        self.tcpdump = Process("tcpdump", ["nice", "-n", NICENESS, "tcpdump", "-i", interface, "-n",
                                           "-U", "-Z", "root", "-B", BUFFER_KIB, "-s", 0, "-w",
                                           self.path], folder)
        self.tcpdump.wait_for_line("listening on", deadline)

    def stop(self):
        """Stops the capture after all frames sent so far are in the file.

        This has its own time limit: the case is over, and the capture of a case that timed out is
        wanted, too."""
        deadline = Deadline(STOP_S)
        marker = os.urandom(16)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind((self.interface, 0))
            sender.send(b"\xff" * 6 + b"\x02" + b"\0" * 5 + MARKER_TYPE + marker + b"\0" * 30)

        def marked():
            if not self.tcpdump.running():
                raise CaseFailure(f"tcpdump ended: {self.tcpdump.stderr}")
            # tcpdump flushes each frame to the file on its own (-U).
            with open(self.path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 65536))
                return marker in file.read()

        deadline.wait_for("the capture's end", marked)
        self.tcpdump.signal(signal.SIGINT)
        self.tcpdump.wait(deadline)
        lost = re.search(r"(\d+) packets dropped by kernel", self.tcpdump.stderr)
        if lost and int(lost[1]):
            raise CaseFailure(f"the capture lost {lost[1]} frames")

    def close(self):
        self.tcpdump.close()
