"""Cases of pollux nfs with the kernel's NFS server: files both ways, lists, errors, loss,
restarts."""

import hashlib
import os

import rpc_judge
from case import TO_LINUX, case, need
from network import BRIDGE
from process import shell

PORT = 20049
# The address of the host's kernel on the bridge: MOUNT goes through that kernel.
HOST_ADDRESS = "192.0.2.9/24"
DATA_MIB, SMALL_MIB = 192, 4
USER = 1234
KIB, MIB = 1 << 10, 1 << 20
SIZES = (0, 1, 4095, 4096, 4097, 100_001, MIB, 3 * MIB + 5)
LARGE, RESTARTED = 64 * MIB, 32 * MIB
ENTRIES = 5000
# Starts everything except the server's threads. /srv is for files; /small fills up quickly.
EXPORT = f"""
set -e
modprobe -a nfsd rpcrdma
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /run/rpcbind /srv /small /var/lib/nfs
touch /var/lib/nfs/etab /var/lib/nfs/rmtab /var/lib/nfs/state
pgrep rpcbind >/dev/null || rpcbind -w
mountpoint -q /srv || mount -t tmpfs -o size={DATA_MIB}m,mode=0777 data /srv
mountpoint -q /small || mount -t tmpfs -o size={SMALL_MIB}m,mode=0777 data /small
find /srv /small -mindepth 1 -delete
exportfs -i -o rw,no_root_squash,insecure,no_subtree_check,fsid=1 '*:/srv'
exportfs -i -o rw,insecure,no_subtree_check,fsid=2 '*:/small'
pgrep rpc.mountd >/dev/null || rpc.mountd
"""
STOP = "rpc.nfsd 0"
# So slow that a restart that begins after 4 MiB always interrupts the transfer, however fast the
# two machines are. SLOW_OUT limits what the guest sends, SLOW_IN what it receives.
SLOW = "netem rate 48mbit limit 20000"
SLOW_OUT, FAST_OUT = f"tc qdisc replace dev eth0 root {SLOW}", "tc qdisc del dev eth0 root"
SLOW_IN = f"""
ip link add ifb0 type ifb
ip link set ifb0 up
tc qdisc add dev ifb0 root {SLOW}
tc qdisc add dev eth0 clsact
tc filter add dev eth0 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0
"""
FAST_IN = "tc qdisc del dev eth0 clsact; ip link del ifb0"
WANTS = [("active", "REQ"), ("passive", "REP"), ("active", "RTU"), ("active", "DREQ"),
         ("passive", "DREP"), ("active", "RC SEND ONLY")]
# The server READs the data of a put, and WRITEs the data of a get.
BULK = WANTS + [("passive", "RC READ REQUEST"), ("active", "RC READ RESPONSE FIRST"),
                ("passive", "RC WRITE FIRST")]


def start_threads(block_bytes):
    """Returns commands that start a server with READs and WRITEs of at most `block_bytes`, which
    can be set only while it has no threads."""
    return (f"{STOP}; echo {block_bytes} >/proc/fs/nfsd/max_block_size; "
            f"rpc.nfsd -N 4 --rdma={PORT} 4; grep -q 'rdma {PORT}' /proc/fs/nfsd/portlist")


class KernelServer:
    """knfsd in the guest, and pollux nfs as its client."""

    def __init__(self, bench, block_bytes=MIB):
        self.bench = bench
        shell(f"ip addr replace {HOST_ADDRESS} dev {BRIDGE}")
        self.block_bytes = block_bytes
        self.guest(EXPORT + start_threads(block_bytes))

    def guest(self, script):
        return self.bench.guest.run(script, self.bench.deadline)

    def begin(self, command, *operands, path="", export="/srv"):
        """Starts pollux nfs; `operands` are options, then the local file."""
        bench = self.bench
        url = f"nfs://{bench.guest_address}{export}/{path}"
        order = (url, *operands) if command == "get" else (*operands, url)
        return bench.program("nfs", bench.tools["pollux"], "nfs", command,
                             *bench.port.arguments(), "--json", "--timeout-ms", 60_000, *order)

    def run(self, command, *operands, status=0, **where):
        return self.bench.pollux_json(self.begin(command, *operands, **where), status)

    def local(self, name, size):
        """Creates a file with random bytes on this host; returns its path and digest."""
        path = self.bench.folder / name
        data = os.urandom(size)
        path.write_bytes(data)
        return path, hashlib.sha256(data).hexdigest()

    def digest(self, path):
        """Returns a file's digest as the guest's own programs see it, the server's cache
        included."""
        return self.guest(f"sha256sum {path}").split()[0]

    def put_and_get(self, name, size):
        """Copies a file to the server and back; returns what the two commands printed."""
        path, digest = self.local(name, size)
        put = self.run("put", path, path=name)
        need(put["bytes"] == size and put["sha256"] == digest, f"put of {size} bytes: {put}")
        need(self.digest(f"/srv/{name}") == digest, f"the server has other bytes of {name}")
        back = self.bench.folder / f"{name}.back"
        got = self.run("get", back, path=name)
        need(got["sha256"] == digest, f"get of {size} bytes: {got}")
        need(hashlib.sha256(back.read_bytes()).hexdigest() == digest, f"{name} came back changed")
        path.unlink()
        back.unlink()
        return put, got

    def look(self, *wants):
        """Returns a check of the capture's RPCs, for the end of the case."""
        return lambda evidence: rpc_judge.judge_nfs(evidence, self.bench.port.address, wants)


@case("nfs-files", directions=(TO_LINUX,), wants=BULK, deadline_s=300)
def nfs_files(bench):
    """Files of many sizes to the kernel's server and back, with READs and WRITEs of 1 MiB."""
    server = KernelServer(bench)
    for size in SIZES:
        put, got = server.put_and_get(f"file{size}", size)
        need(put["block_bytes"] == got["block_bytes"] == MIB, f"{put} {got}")
    left = server.guest("ls -A /srv")
    need(".pollux" not in left, f"temporary files are left: {left}")
    return server.look(rpc_judge.READ, rpc_judge.WRITE)


@case("nfs-64mib", directions=(TO_LINUX,), wants=BULK, deadline_s=900, extra=True)
def nfs_64mib(bench):
    """64 MiB to the kernel's server and back."""
    server = KernelServer(bench)
    server.put_and_get("large", LARGE)
    return server.look(rpc_judge.READ, rpc_judge.WRITE)


@case("nfs-blocks-32k", directions=(TO_LINUX,), wants=BULK, deadline_s=300)
def nfs_blocks_32k(bench):
    """A server whose rsize and wsize are 32 KiB, which the client uses."""
    server = KernelServer(bench, block_bytes=32 * KIB)
    put, got = server.put_and_get("file", 2 * MIB + 77)
    need(put["block_bytes"] == got["block_bytes"] == 32 * KIB, f"{put} {got}")
    return server.look(rpc_judge.READ, rpc_judge.WRITE)


@case("nfs-loss-1%", directions=(TO_LINUX,), wants=BULK, deadline_s=400)
def nfs_loss(bench):
    """A file to the server and back with 1 % loss both ways."""
    server = KernelServer(bench)
    path, digest = server.local("file", 4 * MIB)
    impair = ("--impair", f"loss=0.01,seed={bench.port.number}")
    put = server.run("put", *impair, path, path="file")
    need(server.digest("/srv/file") == digest, "the server has other bytes")
    back = bench.folder / "back"
    got = server.run("get", *impair, back, path="file")
    need(hashlib.sha256(back.read_bytes()).hexdigest() == digest, "it came back changed")
    need(put["retransmitted_packets"] > 0, f"nothing was sent again: {put} {got}")
    return server.look(rpc_judge.READ, rpc_judge.WRITE)


@case("nfs-ls", directions=(TO_LINUX,), wants=WANTS, deadline_s=300)
def nfs_ls(bench):
    """A directory of 5,000 entries; attributes, a symbolic link, removal."""
    server = KernelServer(bench)
    server.guest(f"mkdir /srv/many; cd /srv/many; seq -f 'file%.0f' {ENTRIES} | xargs touch; "
                 "printf 12345 >/srv/many/file7; chmod 640 file7; chown 7:8 file7; "
                 "ln -s many/file7 /srv/link; ln -s /etc/passwd /srv/out; mkdir /srv/empty")
    entries = server.run("ls", path="many")["entries"]
    need([entry["name"] for entry in entries] ==
         sorted(f"file{i}" for i in range(1, ENTRIES + 1)), f"{len(entries)} entries, or others")
    found = next(entry for entry in entries if entry["name"] == "file7")
    need((found["size"], found["mode"], found["uid"], found["gid"]) == (5, "0640", 7, 8),
         f"{found}")
    root = {entry["name"]: entry for entry in server.run("ls")["entries"]}
    need(sorted(root) == ["empty", "link", "many", "out"], f"{sorted(root)}")
    need(root["link"]["target"] == "many/file7" and root["many"]["type"] == "directory", f"{root}")
    need(server.run("stat", path="link")["target"] == "many/file7", "the link points elsewhere")
    back = bench.folder / "back"
    server.run("get", back, path="link")
    need(back.read_text() == "12345", "the link leads elsewhere")
    refused = server.run("get", back, path="out", status=1)
    need("out of the export" in refused["error"], f"{refused}")
    server.run("rm", path="link")
    server.run("rm", "--dir", path="empty")
    left = server.guest("ls /srv").split()
    need(left == ["many", "out"], f"{left}")
    return server.look()


@case("nfs-errors", directions=(TO_LINUX,), wants=WANTS, deadline_s=300)
def nfs_errors(bench):
    """No permission, a full disk, a missing file or export: one clear line each."""
    server = KernelServer(bench)
    path, _ = server.local("file", 6 * MIB)
    server.guest("mkdir -m 700 /srv/private; printf secret >/srv/private/f; printf x >/small/old")
    back = bench.folder / "back"
    as_user = ("--uid", USER, "--gid", USER)

    def refused(words, *arguments, **where):
        answer = server.run(*arguments, status=1, **where)
        need(words in answer["error"], f"not '{words}' but: {answer['error']}")

    refused("permission denied (NFS3ERR_ACCES)", "put", *as_user, path, path="private/new")
    refused("permission denied (NFS3ERR_ACCES)", "get", *as_user, back, path="private/f")
    refused("no such file or directory (NFS3ERR_NOENT)", "stat", path="none")
    refused("NFS3ERR_ISDIR", "rm", path="private")
    refused("no space left (NFS3ERR_NOSPC)", "put", path, path="old", export="/small")
    left = server.guest("ls -A /small; cat /small/old")
    need(left.split() == ["old", "x"], f"the full disk holds {left}")
    refused("exports no directory that contains it, only: ", "stat", path="x", export="/elsewhere")
    return server.look()


def show_reconnection(server, *wants):
    """Returns a check of the capture, for the end of a case that restarted the server."""
    def look(evidence):
        server.look(*wants)(evidence)
        requests = {frame.payload for frame in evidence.frames if "REQ" in frame.names}
        need(len(requests) >= 2, f"{len(requests)} REQs, not one for each connection")

    return look


@case("nfs-restart", directions=(TO_LINUX,), wants=BULK[:-1], deadline_s=500)
def nfs_restart(bench):
    """knfsd is restarted in the middle of a put: the client reconnects, and the data are right."""
    server = KernelServer(bench)
    path, digest = server.local("file", RESTARTED)
    server.guest(SLOW_IN)
    # Begins when a part of the file has arrived, which the guest itself sees sooner than this host.
    restart = bench.guest.begin("until [[ $(du -sm /srv | cut -f1) -gt 4 ]]; do sleep 0.02; done; "
                                f"{STOP}; {FAST_IN}; {start_threads(MIB)}")
    put = server.begin("put", path, path="file")
    answer = bench.pollux_json(put)
    restart.expect(0, bench.deadline)
    need(answer["reconnects"] >= 1, f"it was over before the restart: {answer}")
    need(answer["sha256"] == digest, f"{answer}")
    need(server.digest("/srv/file") == digest, "the server has other bytes")
    return show_reconnection(server, rpc_judge.WRITE)


@case("nfs-restart-get", directions=(TO_LINUX,), wants=WANTS + [("passive", "RC WRITE FIRST")],
      deadline_s=500)
def nfs_restart_get(bench):
    """knfsd is restarted in the middle of a get: the client reconnects, and the data are right."""
    server = KernelServer(bench)
    digest = server.guest(f"head -c {RESTARTED} /dev/urandom >/srv/file; "
                          f"sha256sum /srv/file; {SLOW_OUT}").split()[0]
    # The bytes that the server has read for all its clients.
    read = "awk '/^io/ {print $2}' /proc/net/rpc/nfsd"
    restart = bench.guest.begin(f"before=$({read}); until (($({read}) > before + {4 * MIB})); do "
                                f"sleep 0.02; done; {STOP}; {FAST_OUT}; {start_threads(MIB)}")
    back = bench.folder / "back"
    answer = server.run("get", back, path="file")
    restart.expect(0, bench.deadline)
    need(answer["reconnects"] >= 1, f"it was over before the restart: {answer}")
    need(answer["sha256"] == digest, f"{answer}")
    need(hashlib.sha256(back.read_bytes()).hexdigest() == digest, "it came back changed")
    return show_reconnection(server, rpc_judge.READ)
