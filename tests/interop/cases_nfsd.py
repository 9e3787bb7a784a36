"""Cases of Linux's NFS client on a directory that Pollux serves: mounts, work, and its results."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import signal
import stat
import subprocess

import rpc_judge
from case import TO_POLLUX, case, need
from network import BRIDGE, NETDEV
from process import shell

SERVICE_PORT, MOUNT_PORT = 20049, 20048
MOUNT_POINT = "/mnt"
USER = 1234
MIB = 1 << 20
# Sizes around those of a message, a page, a packet and a READ or WRITE; the largest is last.
SIZES = (0, 1, 1000, 4095, 4096, 4097, 65_537, MIB, MIB + 1, 3 * MIB + 5)
WANTS = [("linux", "REQ"), ("pollux", "REP"), ("linux", "RTU"), ("linux", "RC SEND ONLY"),
         ("pollux", "RC SEND ONLY")]
# The server READs what the client writes in bulk, and WRITEs what it reads.
BULK = WANTS + [("pollux", "RC READ REQUEST"), ("pollux", "RC WRITE FIRST")]


class Served:
    """pollux nfsd with a directory of the bench, and the guest's work on it."""

    def __init__(self, bench, squash=False, export=None, arguments=()):
        self.bench = bench
        self.root = export or bench.folder / "export"
        self.root.mkdir(exist_ok=True)
        self.root.chmod(0o777)
        self.options = "" if squash else ",no_root_squash"
        self.arguments = arguments
        self.process = None
        # Removes the address that another case left: with it the kernel would ask for the guest
        # over the bridge, in the name of its tap's address.
        shell(f"ip addr flush dev {BRIDGE}")
        self.start()

    def start(self):
        bench = self.bench
        place = bench.port.arguments() if bench.port.kind == "netdev" else (
            "--port", bench.port.devargs, "--address", f"{bench.port.address}/24", "--mac",
            bench.port.mac, "--kernel-path", "plxk")
        self.process = bench.program(
            "nfsd", bench.tools["pollux"], "nfsd", *place, "--export",
            f"{self.root}:rw{self.options}", "--key-file", bench.folder / "nfsd.key", "--json",
            "--recorder", *self.arguments)
        self.process.wait_for_line("^serving NFS", bench.deadline)
        bench.deadline.wait_for("the port on the bridge", bench.port.plugged)

    def mount_command(self, options=""):
        """Returns the mount command that the server prints, with MOUNT_POINT and more options."""
        told = re.search(r": (mount -t nfs .*) /mnt$", self.process.stderr, re.MULTILINE)
        need(told, f"no mount command among: {self.process.stderr}")
        return told[1].replace(" -o ", f" -o {options}") + f" {MOUNT_POINT}"

    def mount(self, options="hard,nolock,"):
        self.guest(self.mount_command(options))

    def unmount(self):
        self.guest(f"umount {MOUNT_POINT}")

    def guest(self, script):
        """Runs a script in the guest that must succeed."""
        return self.bench.guest.run(f"set -e; mkdir -p {MOUNT_POINT}\n{script}",
                                    self.bench.deadline)

    def checksum(self, name):
        with open(self.root / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def guest_checksums(self, *names):
        """Returns checksums of what the guest reads from the server; the guest's cache is dropped
        first."""
        text = self.guest("echo 3 >/proc/sys/vm/drop_caches; "
                          f"cd {MOUNT_POINT}; sha256sum {' '.join(names)}")
        return {line.split()[1]: line.split()[0] for line in text.splitlines()}

    def same(self, *names):
        """Checks that both sides see the same bytes in these files."""
        for name, digest in self.guest_checksums(*names).items():
            need(digest == self.checksum(name), f"{name} differs")

    def told(self, command):
        """Returns what `pollux COMMAND --json` prints about this server."""
        argv = [self.bench.tools["pollux"], command, "--json", "--pid",
                str(self.process.pid)]

        def answer():
            need(self.process.running(), f"{self.process.name} has ended")
            # The worker may wait for its CPU for longer than pollux waits for its answer.
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, check=False)
            return done.stdout if done.returncode == 0 else None

        text = self.bench.deadline.wait_for(f"an answer to pollux {command}", answer)
        return json.loads(text)["processes"][0]

    def worker(self):
        """Returns the statistics of its worker, by topic."""
        return self.told("stat")["workers"][0]

    def counters(self):
        """Returns the statistics of its NFS calls, by name."""
        return self.worker()["nfs"]

    def calls(self):
        """Returns how many READs and WRITEs it has answered."""
        nfs = self.counters()
        return nfs["calls/read"] + nfs["calls/write"]

    def wait_for_calls(self, count):
        """Waits until it has answered `count` more READs or WRITEs."""
        before = self.calls()
        self.bench.deadline.wait_for(f"{count} READs or WRITEs",
                                     lambda: self.calls() >= before + count)

    def wait_for_awaited_lock(self):
        """Waits until a client is waiting for a lock."""
        self.bench.deadline.wait_for(
            "a lock that is waited for",
            lambda: any(one["awaited"] for one in self.told("locks")["locks"]))

    def stop(self):
        """Stops nfsd by SIGINT and returns its JSON output."""
        self.process.signal(signal.SIGINT)
        return self.bench.pollux_json(self.process)

    def look(self, *wants):
        """Returns a check of the guest's RPCs in the capture, for the end of the case."""
        return lambda evidence: rpc_judge.judge_nfs(evidence, self.bench.guest_address, wants)


@contextlib.contextmanager
def mounted(served, options="hard,nolock,"):
    """Mounts the export in the guest at MOUNT_POINT and unmounts it again, by force if the case
    fails."""
    served.mount(options)
    try:
        yield
    except Exception:
        served.bench.guest.begin(f"umount -fl {MOUNT_POINT}")
        raise
    served.unmount()


def make_files(served, sizes):
    """Creates files of these sizes in the guest and returns their names."""
    names = [f"file{size}" for size in sizes]
    served.guest(f"cd {MOUNT_POINT}; " + "".join(
        f"head -c {size} /dev/urandom >{name};" for name, size in zip(names, sizes)) + "sync")
    for name, size in zip(names, sizes):
        need((served.root / name).stat().st_size == size, f"{name} has another size")
    return names


@case("nfsd-files", directions=(TO_POLLUX,), wants=BULK, deadline_s=300)
def nfsd_files(bench):
    """Files of many sizes are written and read back; nfsd prints the mount command."""
    served = Served(bench)
    with mounted(served):
        served.same(*make_files(served, SIZES))
    answer = served.stop()
    need(answer["bytes_written"] >= sum(SIZES) and answer["bytes_read"] >= sum(SIZES), f"{answer}")
    return served.look(rpc_judge.READ, rpc_judge.WRITE)


@case("nfsd-sizes", directions=(TO_POLLUX,), wants=BULK, deadline_s=400, extra=True)
def nfsd_sizes(bench):
    """64 MiB, and every rsize and wsize from a page to 1 MiB."""
    served = Served(bench)
    for size in (4096, 65_536, MIB):
        with mounted(served, f"hard,nolock,rsize={size},wsize={size},"):
            options = served.guest(f"grep {MOUNT_POINT} /proc/mounts")
            need(f"rsize={size}," in options and f"wsize={size}," in options, options)
            served.same(*make_files(served, (3 * MIB + 5 if size < MIB else 64 * MIB,)))
    served.stop()
    return served.look(rpc_judge.READ, rpc_judge.WRITE)


@case("nfsd-procedures", directions=(TO_POLLUX,), wants=BULK, deadline_s=240)
def nfsd_procedures(bench):
    """The kernel's client calls each of the 22 procedures, and each does what it is for."""
    served = Served(bench)
    with mounted(served, "hard,nolock,nordirplus,"):
        served.guest(f"""cd {MOUNT_POINT}
            mkdir directory
            touch directory/file
            test "$(ls directory)" = file""")
    with mounted(served):
        served.guest(f"""cd {MOUNT_POINT}
            test "$(ls -l directory | wc -l)" = 2
            head -c 3000000 /dev/urandom >file
            sync
            chmod 0640 file
            ln file hard
            ln -s file soft
            mknod node c 1 3
            mv hard directory
            rm directory/file directory/hard
            rmdir directory
            test "$(stat -f -c %T .)" = nfs
            echo 3 >/proc/sys/vm/drop_caches
            test "$(readlink soft)" = file""")
        served.same("file")
        nfs = served.counters()
    names = {name.removeprefix("calls/") for name in nfs if name.startswith("calls/")}
    need(len(names) == 22, f"other procedures: {names}")
    missing = {name for name in names if nfs[f"calls/{name}"] <= nfs[f"failures/{name}"]}
    need(not missing, f"none of these was answered: {missing}")
    found = {path.name: stat.filemode(path.lstat().st_mode) for path in served.root.iterdir()}
    need(found == {"file": "-rw-r-----", "soft": "lrwxrwxrwx", "node": "crw-r--r--"}, f"{found}")
    served.stop()
    return served.look(rpc_judge.READ, rpc_judge.WRITE)


@case("nfsd-ids", directions=(TO_POLLUX,), wants=WANTS, deadline_s=240)
def nfsd_ids(bench):
    """Users keep their IDs, root becomes nobody, and errors are those of the file system."""
    served = Served(bench, squash=True)
    os.mkdir(served.root / "private", 0o700)
    os.mkdir(served.root / "group", 0o070)
    os.chmod(served.root / "group", 0o070)
    os.chown(served.root / "group", 0, USER + 1)
    user = f"setpriv --reuid {USER} --regid {USER} --groups {USER + 1}"
    with mounted(served):
        served.guest(f"""cd {MOUNT_POINT}
            {user} sh -c 'echo text >users; umask 077; mkdir mine; echo secret >mine/file'
            echo text >roots
            ! ls private || exit 1
            ! {user} ls private || exit 1
            {user} ls group
            ! {user} chown 5 users || exit 1
            ! {user} chmod 0 roots || exit 1
            ! cat mine/file || exit 1
            {user} chmod 0400 users
            {user} sh -c 'exec 3>kept; chmod 0400 kept; echo text >&3; exec 3>&-'
            ! {user} sh -c 'echo more >>users' || exit 1""")
    for name, owner in (("users", USER), ("roots", 65534), ("mine", USER), ("kept", USER)):
        found = (served.root / name).stat()
        need((found.st_uid, found.st_gid) == (owner, owner), f"{name} is {found.st_uid}'s")
    need(stat.S_IMODE((served.root / "users").stat().st_mode) == 0o400, "another mode")
    need((served.root / "kept").read_text() == "text\n", "what its owner had open is lost")
    served.stop()
    return served.look()


@case("nfsd-full", directions=(TO_POLLUX,), wants=BULK, deadline_s=240)
def nfsd_full(bench):
    """A file system that fills up reports it, and works again when there is room."""
    small = bench.folder / "small"
    small.mkdir()
    shell(f"mount -t tmpfs -o size=4m small {small}")
    try:
        served = Served(bench, export=small)
        with mounted(served):
            served.guest(f"""cd {MOUNT_POINT}
                ! dd if=/dev/urandom of=large bs=64k count=100 conv=fsync 2>why || exit 1
                ! dd if=/dev/urandom of=large bs=64k count=100 conv=fsync 2>/tmp/why || exit 1
                grep 'No space left' /tmp/why
                rm large
                head -c 1000000 /dev/urandom >fits
                sync""")
            served.same("fits")
        served.stop()
    finally:
        shell(f"umount -l {small}")
    return served.look(rpc_judge.WRITE)


@case("nfsd-loss", directions=(TO_POLLUX,), wants=BULK, deadline_s=400, ports=("af_packet",))
def nfsd_loss(bench):
    """1 % of the frames are lost both ways: files arrive whole, and frames are sent again."""
    served = Served(bench, arguments=("--impair", f"loss=0.01,seed={bench.port.number}"))
    with mounted(served):
        served.same(*make_files(served, (1000, 65_537, MIB + 1, 4 * MIB)))
    answer = served.stop()
    need(answer["retransmitted_packets"] > 0, f"nothing was sent again: {answer}")
    return served.look(rpc_judge.READ, rpc_judge.WRITE)


def repeat_in_guest(bench, script):
    """Repeats the script in the guest until the returned function is called, which returns the
    script's output. So the script runs during all that happens in between."""
    flag = f"/tmp/enough{bench.guest.next}"
    under_way = bench.guest.begin(f"set -e; until [[ -e {flag} ]]; do {script}; done")

    def enough():
        need(not under_way.ended(), f"the guest ended too soon: {under_way.output}")
        bench.guest.run(f"touch {flag}", bench.deadline)
        return under_way.expect(0, bench.deadline)

    return enough


@case("nfsd-killed", directions=(TO_POLLUX,), wants=BULK, deadline_s=400, ports=("af_packet",))
def nfsd_killed(bench):
    """Pollux is killed while the client writes and while it reads; a new one takes its place."""
    served = Served(bench)

    def kill_during(script):
        enough = repeat_in_guest(bench, script)
        served.wait_for_calls(8)
        served.process.signal(signal.SIGKILL)
        served.process.wait(bench.deadline)
        served.start()
        return enough()

    with mounted(served):
        kill_during(f"number=$((number + 1)); dd if=/dev/urandom of={MOUNT_POINT}/file$number "
                    "bs=64k count=256 conv=fsync status=none")
        names = os.listdir(served.root)
        need(all((served.root / name).stat().st_size == 16 * MIB for name in names),
             "bytes are missing")
        served.same(*names)
        # Bypasses the guest's cache, which would soon hold the whole file.
        read = kill_during(f"dd if={MOUNT_POINT}/file1 bs=32k iflag=direct status=none | sha256sum")
        digests = {line.split()[0] for line in read.splitlines()}
        need(digests == {served.checksum("file1")}, f"the guest has read {digests}")
    served.stop()
    return served.look(rpc_judge.READ, rpc_judge.WRITE)


# Starts the programs that a client's lock manager needs.
STATUS_MONITOR = """
mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak
touch /var/lib/nfs/state
pgrep rpcbind >/dev/null || rpcbind -w
pgrep rpc.statd >/dev/null || rpc.statd --no-notify
"""


def can_lock(file):
    """Returns whether a program of this host gets the lock."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_locked(path):
    """Returns whether any program holds or awaits a lock of the file, without asking for one."""
    inode = path.stat().st_ino
    with open("/proc/locks", encoding="ascii") as file:
        return f":{inode} " in file.read()


def hold_until(bench, flag, name="locked"):
    """Holds the lock of the file `name` in the guest until a file `flag` exists; returns the
    script."""
    held = bench.guest.begin(f"rm -f {flag}; flock {MOUNT_POINT}/{name} sh -c 'echo held; "
                             f"until test -e {flag}; do sleep 0.1; done'")
    held.wait_for_output("held", bench.deadline)
    return held


@case("nfsd-locks", directions=(TO_POLLUX,), wants=WANTS, deadline_s=300, ports=("af_packet",))
def nfsd_locks(bench):
    """Locks of the guest's programs and locks of this host's exclude each other, in turn."""
    served = Served(bench)
    served.guest(STATUS_MONITOR)
    path, flag = f"{MOUNT_POINT}/locked", "/tmp/enough"
    with mounted(served, "hard,"):
        served.guest(f"touch {path}")
        with open(served.root / "locked", "r+b") as file:
            held = hold_until(bench, flag)
            need(not can_lock(file), "the guest's lock keeps nobody of this host out")
            served.guest(f"touch {flag}")
            held.expect(0, bench.deadline)
            bench.deadline.wait_for("the lock that the guest gave up", lambda: can_lock(file))
            bench.guest.begin(f"flock -n {path} true").expect(1, bench.deadline)
            waits = bench.guest.begin(f"flock {path} echo mine")
            served.wait_for_awaited_lock()
            need("mine" not in waits.output, "the guest did not wait")
            fcntl.lockf(file, fcntl.LOCK_UN)
            waits.expect(0, bench.deadline)
        held = hold_until(bench, flag)
        waits = bench.guest.begin(f"flock {path} echo mine")
        # The guest's own kernel makes it wait: it does not ask the server for a lock that another
        # program there holds.
        served.guest("until grep -q -e '->' /proc/locks; do sleep 0.05; done; "
                     f"touch {flag}")
        for one in (held, waits):
            one.expect(0, bench.deadline)
    served.stop()
    return served.look()


@case("nfsd-locks-restart", directions=(TO_POLLUX,), wants=WANTS, deadline_s=400,
      ports=("af_packet",))
def nfsd_locks_restart(bench):
    """Pollux is killed while the guest holds a lock: the guest is told, and gets it back first."""
    # Long enough for a slow guest to learn of the restart and to reclaim its lock.
    served = Served(bench, arguments=("--grace-s", "45"))
    served.guest(STATUS_MONITOR)
    with mounted(served, "hard,"):
        served.guest(f"touch {MOUNT_POINT}/locked {MOUNT_POINT}/other")
        held = hold_until(bench, "/tmp/enough")
        need(is_locked(served.root / "locked"), "no lock is seen on this host")
        served.process.signal(signal.SIGKILL)
        served.process.wait(bench.deadline)
        need(not is_locked(served.root / "locked"), "a killed server holds a lock")
        served.start()
        other = bench.guest.begin(f"flock {MOUNT_POINT}/other echo mine")
        bench.deadline.wait_for("the guest to ask for its lock again",
                                lambda: is_locked(served.root / "locked"))
        need("mine" not in other.output, "a new lock was to be had before the old ones")
        other.expect(0, bench.deadline)
        bench.guest.begin(f"flock -n {MOUNT_POINT}/locked true").expect(1, bench.deadline)
        served.guest("touch /tmp/enough")
        held.expect(0, bench.deadline)
        need(not is_locked(served.root / "locked"), "the lock was not given up")
    served.stop()
    return served.look()


@case("nfsd-locks-reboot", directions=(TO_POLLUX,), wants=WANTS, deadline_s=600,
      ports=("af_packet",), extra=True)
def nfsd_locks_reboot(bench):
    """The guest's power fails while it holds a lock: its reboot, told by UDP, frees the lock."""
    served = Served(bench)
    served.guest(STATUS_MONITOR)
    served.mount("hard,")
    served.guest(f"touch {MOUNT_POINT}/locked")
    hold_until(bench, "/tmp/enough")
    need(is_locked(served.root / "locked"), "no lock is seen on this host")
    # The guest's disk is in memory: saves what a real disk would have kept.
    served.guest("tar cf /host/monitored -C /var/lib/nfs sm state")
    kept = (bench.guest.shared / "monitored").read_bytes()
    bench.guest.qemu.signal(signal.SIGKILL)
    bench.guest.qemu.wait(bench.deadline)
    need(is_locked(served.root / "locked"), "the lock went with the guest's power")
    bench.guest.start(bench.port.mtu)
    (bench.guest.shared / "monitored").write_bytes(kept)
    served.guest("mkdir -p /run/rpcbind; rpcbind -w; tar xf /host/monitored -C /var/lib/nfs; "
                 "sm-notify")
    bench.deadline.wait_for("the lock to be free", lambda: not is_locked(served.root / "locked"))
    served.guest(STATUS_MONITOR)
    with mounted(served, "hard,"):
        bench.guest.begin(f"flock -n {MOUNT_POINT}/locked true").expect(0, bench.deadline)
    served.stop()

    def look(evidence):
        served.look()(evidence)
        rpc_judge.judge_notification(evidence, bench.guest_address)

    return look


@case("nfsd-netdev", directions=(TO_POLLUX,), wants=BULK, deadline_s=300, ports=("netdev",))
def nfsd_netdev(bench):
    """MOUNT, locks and NFS at the address of an interface that the kernel keeps."""
    shell(f"ip addr add {bench.port.address}/24 dev {NETDEV}")
    try:
        served = Served(bench)
        served.guest(STATUS_MONITOR)
        with mounted(served, "hard,"):
            served.same(*make_files(served, (0, 1000, MIB + 1)))
            with open(served.root / "file1000", "r+b") as file:
                held = hold_until(bench, "/tmp/enough", "file1000")
                need(not can_lock(file), "the guest's lock keeps nobody of this host out")
                served.guest("touch /tmp/enough")
                held.expect(0, bench.deadline)
        served.stop()
    finally:
        # With two interfaces on one network the kernel would use the wrong one in other cases.
        shell(f"ip addr flush dev {NETDEV}")
    return served.look(rpc_judge.READ, rpc_judge.WRITE)
