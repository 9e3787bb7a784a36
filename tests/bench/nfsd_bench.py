"""pollux nfsd beside Linux's NFS server, seen by Linux's NFS client.

usage: tools/dev bench --nfsd [--passes N] [--json]

Two virtual machines are on a bridge: the client, and Linux's NFS server (knfsd), which the client
mounts over rxe and over TCP; pollux nfsd has a port on the same bridge. All files are in memory.
Each pass runs the same fio loads on the three mounts in turn; a ratio is taken within each pass.
Both machines are emulated. knfsd therefore runs in an emulated machine, and Pollux does not. The
ratios compare what a client sees here, and say nothing about either server on its own hardware.
Needs root.
"""

import argparse
import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))

# pylint: disable=wrong-import-position
import guest as guests
import image
import network
import nfsd_figures
from cases_nfs import EXPORT, MIB, start_threads
from nfsd_figures import OVER_RXE, OVER_TCP, POLLUX
from process import CaseFailure, CaseSkipped, Deadline, Process, shell

ROOT = HERE.parents[1]
SECOND_TAP = "guest1"
SECOND_PLACE = guests.Place("52:54:00:00:00:02", "192.0.2.2", "2001:db8::2", "198.51.100.2")
PORT = network.PORTS["af_packet"]
FILE_MIB = 32
STEP_S = 300  # a limit against hanging, not an expected time
LOAD_S = 3


class Bench:
    """The mounts of three NFS servers, and the client machine that measures them."""

    def __init__(self, client, folder):
        self.client, self.folder = client, folder
        self.mounts = {}

    def guest(self, machine, script):
        return machine.run(f"set -e\n{script}", Deadline(STEP_S))

    def serve_linux(self, machine):
        self.guest(machine, EXPORT + start_threads(MIB))
        options = "vers=3,hard,nolock"
        address = SECOND_PLACE.address
        self.mounts[OVER_RXE] = f"-o {options},proto=rdma,port=20049 {address}:/srv"
        self.mounts[OVER_TCP] = f"-o {options},proto=tcp {address}:/srv"

    @contextlib.contextmanager
    def serving(self, pollux):
        """Runs pollux nfsd on a directory in memory during the block."""
        root = pathlib.Path(tempfile.mkdtemp(prefix="pollux-bench-", dir="/dev/shm"))
        server = Process("nfsd", [
            pollux, "nfsd", "--port", PORT.devargs, "--address", f"{PORT.address}/24", "--mac",
            PORT.mac, "--kernel-path", "plxk", "--export", f"{root}:rw,no_root_squash",
            "--key-file", self.folder / "key"], self.folder)
        try:
            server.wait_for_line("^serving NFS", Deadline(STEP_S))
            self.mounts[POLLUX] = (f"-o vers=3,hard,nolock,proto=rdma,port=20049 "
                                   f"{PORT.address}:{root}")
            yield
        finally:
            server.close()
            shutil.rmtree(root)

    def measure(self, where, load, unit):
        """Runs one load on one mount and returns its figure."""
        told = self.client.shared / "fio.json"
        self.guest(self.client, f"""mkdir -p /mnt
            mount -t nfs {self.mounts[where]} /mnt
            trap 'umount -fl /mnt' EXIT
            test -e /mnt/file || dd if=/dev/zero of=/mnt/file bs=1M count={FILE_MIB} conv=fsync \\
              status=none
            fio --name=load --filename=/mnt/file --size={FILE_MIB}m --ioengine=libaio \\
              --direct=1 --time_based --runtime={LOAD_S} {load} --output-format=json \\
              --output=/host/fio.json""")
        text = told.read_text()
        told.unlink()
        return nfsd_figures.rate(text, load, unit)

    def run(self, passes):
        """Returns {(server, load): figures, one per pass}."""
        figures = {}
        for _ in range(passes):
            for name, (load, unit) in nfsd_figures.LOADS.items():
                for where in self.mounts:
                    figures.setdefault((where, name), []).append(self.measure(where, load, unit))
        return figures


def build(folder):
    done = subprocess.run(["bazel", "build", "--noshow_progress", "--show_result=0",
                           "//tools/pollux:pollux", "//tests/interop:peer"], cwd=ROOT,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}\ntools/dev bench: the build failed")
    return [pathlib.Path(shutil.copy(ROOT / "bazel-bin" / path, folder))
            for path in ("tools/pollux/pollux", "tests/interop/peer")]


def run(passes, as_json, folder):
    pollux, peer = build(folder)
    built = image.build(lambda text: print(f"tools/dev bench: {text}", file=sys.stderr),
                        image.SUITES[0])
    network.enter()
    shell(f"ip tuntap add {SECOND_TAP} mode tap; ip link set {SECOND_TAP} mtu {network.MTU} "
          f"master {network.BRIDGE} addrgenmode none up")
    files = {"init": HERE.parent / "interop/guest_init.sh", "peer": peer}
    machines = []
    try:
        for name, tap, place in (("client", network.GUEST_TAP, guests.FIRST_PLACE),
                                 ("server", SECOND_TAP, SECOND_PLACE)):
            (folder / name).mkdir()
            machines.append(guests.Guest(built, folder / name, tap, files, place))
            machines[-1].start(network.MTU)
        client, server = machines
        bench = Bench(client, folder)
        with bench.serving(pollux):
            bench.serve_linux(server)
            print(nfsd_figures.report(bench.run(passes), as_json))
    finally:
        for machine in machines:
            machine.stop()


def main():
    parser = argparse.ArgumentParser(prog="tools/dev bench --nfsd",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=3, help="passes of all loads (3)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pollux-bench-"))
    try:
        run(options.passes, options.json, folder)
    except (image.ImageError, CaseFailure, CaseSkipped) as failure:
        sys.exit(f"tools/dev bench: {failure}; outputs: {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/build"))
    import closed_pipe
    closed_pipe.run(main)
