"""Cases of programs that work in the guest on a directory that Pollux serves, each also over a wire
that loses frames."""

import hashlib
import os
import subprocess

import rpc_judge
from case import TO_POLLUX, case, need
from cases_connect import SEND_ONLY, drop_frames, stop_dropping
from cases_nfsd import (BULK, MIB, MOUNT_POINT, MOUNT_PORT, WANTS, Served, mounted,
                        repeat_in_guest)
from network import SECOND

DROP_CACHES = "echo 3 >/proc/sys/vm/drop_caches"
VERIFY = "--verify=crc32c --verify_fatal=1 --verify_state_save=0"
COMMITS = 4
LISTED, FEW = 5000, 300


def names(served, removed="many"):
    """5,000 entries listed and removed; links, renames, names of 255 bytes, nodes."""
    entries = {"many": LISTED, "few": FEW}
    for folder, count in entries.items():
        (served.root / folder).mkdir()
        for number in range(count):
            (served.root / folder / f"entry{number}").touch()
    listed = served.guest(f"ls -f {MOUNT_POINT}/many; ls -l {MOUNT_POINT}/many | wc -l")
    need(sorted(set(listed.split())) == sorted(
        {".", "..", f"{LISTED + 1}", *(f"entry{number}" for number in range(LISTED))}),
         "other entries")
    name = "n" * 255
    served.guest(f"""cd {MOUNT_POINT}
        rm -r {removed}
        test ! -e {removed}
        echo text >{name}
        ! echo text >{name}x || exit 1
        ln {name} hard
        ln -s {name} soft
        test "$(cat soft)" = text
        test "$(readlink soft)" = {name}
        test "$(stat -c %h hard)" = 2
        mkdir -p one/two
        mv {name} one/two/three
        mv one/two other
        ! rmdir other || exit 1
        echo new >new
        mv -T new other/three
        mkfifo fifo
        ! mkdir fifo || exit 1
        rm fifo soft""")
    need(set(os.listdir(served.root)) == {"hard", "one", "other", *entries} - {removed},
         f"{os.listdir(served.root)}")
    need((served.root / "other/three").read_text() == "new\n", "another text")


def fewer_names(served):
    """Does the same as names(), but removes fewer entries: each lost REMOVE costs the guest a
    time-out."""
    names(served, "few")


def data(served):
    """Truncation, holes, O_DIRECT, fsync, append, and a program that runs from the mount (mmap)."""
    served.guest(f"""cd {MOUNT_POINT}
        head -c 300000 /dev/urandom >cut
        truncate -s 100001 cut
        truncate -s 5000000 sparse
        dd if=/dev/urandom of=sparse bs=4096 seek=700 count=3 conv=notrunc status=none
        dd if=/dev/urandom of=direct bs=64k count=20 oflag=direct status=none
        dd if=/dev/urandom of=synced bs=10000 count=30 oflag=dsync conv=fsync status=none
        for i in $(seq 50); do echo "line $i" >>appended; done
        cp /bin/ls program
        ./program -l program
        dd if=direct of=/dev/null bs=64k iflag=direct status=none""")
    served.same("cut", "sparse", "direct", "synced", "appended", "program")
    sparse = (served.root / "sparse").stat()
    need(sparse.st_size == 5_000_000 and sparse.st_blocks * 512 < MIB, "the holes are filled")
    need(len((served.root / "appended").read_text().splitlines()) == 50, "lines are missing")


def tar(served):
    """A tree is copied in and out by tar and keeps its owners, modes and times."""
    trees = "etc usr/lib/x86_64-linux-gnu/libibverbs usr/share/perl5 usr/sbin"
    told = served.guest(f"""cd /
        tar cf - {trees} | tar xpf - -C {MOUNT_POINT}
        sync
        {DROP_CACHES}
        rm -rf /tmp/back
        mkdir /tmp/back
        tar cf - -C {MOUNT_POINT} {trees} | tar xpf - -C /tmp/back
        cd /tmp/back
        for tree in {trees}; do diff -r --no-dereference /$tree $tree; done
        list() {{ find {trees} -printf '%p %M %U %G %Ts %s %l\\n' | grep -v ' d' | sort; }}
        (cd / && list) >/tmp/wanted
        list >/tmp/found
        cmp /tmp/wanted /tmp/found
        wc -l </tmp/found
        rm -r /tmp/back""")
    need(int(told.split()[-1]) > 100, f"a small tree: {told}")


def git(served):
    """A repository is cloned onto the mount, changed and repacked, and passes git fsck."""
    head = served.guest(f"""cd /tmp
        rm -rf source
        git init -q -b main source
        cd source
        git config --global user.name guest
        git config --global user.email guest@example.net
        cp -r /etc/* .
        find . -not -path './.git/*' -type d -empty -delete
        for commit in $(seq {COMMITS}); do
          echo "$commit" >number
          head -c 100000 /dev/urandom >"random$commit"
          git add -A
          git commit -qm "commit $commit"
        done
        git clone -q file:///tmp/source {MOUNT_POINT}/clone
        cd {MOUNT_POINT}/clone
        {DROP_CACHES}
        git fsck --full --strict
        test -z "$(git status --porcelain)"
        git mv number renamed
        git commit -qm renamed
        git revert --no-edit HEAD >/dev/null
        git repack -adq
        {DROP_CACHES}
        git fsck --full --strict
        diff -r --no-dereference --exclude .git /tmp/source .
        test "$(git rev-parse HEAD~2)" = "$(git -C /tmp/source rev-parse HEAD)"
        git rev-parse HEAD""").split()[-1]
    # Checks the repository in the server's own file system, too.
    here = subprocess.run(["git", "-C", served.root / "clone", "-c", "safe.directory=*", "fsck",
                           "--full", "--strict"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    need(here.returncode == 0, f"git fsck at the server: {here.stdout}")
    refs = (served.root / "clone/.git/refs/heads/main").read_text()
    need(refs.strip() == head, f"the head is {refs}, not {head}")


def fio(served):
    """Verification by fio: direct and asynchronous, buffered, and through a shared mapping."""
    common = f"fio --output=/tmp/fio --directory={MOUNT_POINT} --fallocate=none {VERIFY}"
    jobs = {
        "direct": "--ioengine=libaio --iodepth=8 --direct=1 --rw=randwrite --bsrange=4k-256k "
                  "--size=4m",
        "buffered": "--ioengine=psync --rw=randrw --bs=3k --size=1m",
        "mapped": "--ioengine=mmap --rw=randwrite --bs=4k --size=1m",
    }
    for name, job in jobs.items():
        # Verifies the data from the server once more, by the job's pattern alone.
        again = "" if name == "buffered" else f"{common} --name={name} {job} --verify_only"
        served.guest(f"""trap 'cat /tmp/fio' ERR
            {common} --name={name} {job} --end_fsync=1
            {DROP_CACHES}
            {again}""")
    served.same(*(f"{name}.0.0" for name in jobs))


def define(name, work, *wants, frames=BULK, lossy_work=None, deadline_s=300):
    """Registers a case that calls `work` with the served export; its capture must have calls with
    chunks of the procedures `wants`. Also registers a slow case of `lossy_work`, or of `work`, over
    a wire that loses frames."""
    @case(name, directions=(TO_POLLUX,), wants=frames, deadline_s=deadline_s)
    def clean(bench):
        served = Served(bench)
        with mounted(served):
            work(served)
        served.stop()
        return served.look(*wants)

    @case(f"{name}-loss", directions=(TO_POLLUX,), wants=frames, deadline_s=3 * deadline_s,
          ports=("af_packet",), extra=True)
    def lossy(bench):
        served = Served(bench, arguments=("--impair", f"loss=0.01,seed={bench.port.number}"))
        with mounted(served):
            (lossy_work or work)(served)
            port, = served.worker()["ports"]
        for way in ("sent", "received"):
            need(port[f"impaired/{way}/lost"] > 0, f"no frame {way} was lost: {port}")
        answer = served.stop()
        need(answer["retransmitted_packets"] > 0, f"nothing was sent again: {answer}")
        return served.look(*wants)

    clean.__doc__ = work.__doc__
    lossy.__doc__ = f"{work.__doc__[:-1]}, with 1 % loss both ways."


define("nfsd-names", names, frames=WANTS, lossy_work=fewer_names)
define("nfsd-data", data, rpc_judge.READ, rpc_judge.WRITE)
define("nfsd-tar", tar, rpc_judge.READ, rpc_judge.WRITE)
define("nfsd-git", git, rpc_judge.READ, rpc_judge.WRITE)
define("nfsd-fio", fio, rpc_judge.READ, rpc_judge.WRITE)


@case("nfsd-replayed", directions=(TO_POLLUX,), wants=WANTS, deadline_s=600, ports=("af_packet",),
      extra=True)
def nfsd_replayed(bench):
    """Replies are lost until the connection breaks: calls that the client then repeats run once."""
    served = Served(bench)

    def counted(name):
        return served.worker()["rpc"][f"server/{name}"]

    def wait_for(name, count):
        bench.deadline.wait_for(f"{count} {name}", lambda: counted(name) >= count)

    with mounted(served):
        enough = repeat_in_guest(
            bench, f"n=$((n + 1)); mkdir {MOUNT_POINT}/a$n; mv -T {MOUNT_POINT}/a$n "
                   f"{MOUNT_POINT}/b$n; rmdir {MOUNT_POINT}/b$n")
        # The lost reply may be that of a call that is safe to run twice: repeats until one is not.
        while not counted("duplicates_answered"):
            connections = counted("connections_established")
            wait_for("replies_sent", counted("replies_sent") + 1)
            drop_frames(bench, "pollux", SEND_ONLY)
            wait_for("connections_established", connections + 1)
            stop_dropping(bench)
            wait_for("replies_sent", counted("replies_sent") + 3)
        enough()
    need(os.listdir(served.root) == [], f"{os.listdir(served.root)} is left")
    served.stop()
    return served.look()


class SecondClient:
    """pollux nfs, on a port of its own beside the guest."""

    def __init__(self, served):
        self.served = served

    def begin(self, command, *operands, name):
        bench = self.served.bench
        url = f"nfs://{bench.port.address}{self.served.root}/{name}"
        order = (url, *operands) if command == "get" else (*operands, url)
        return bench.program("nfs", bench.tools["pollux"], "nfs", command, *SECOND.arguments(),
                             "--mount", f"{bench.port.address}:{MOUNT_PORT}", "--json",
                             "--timeout-ms", 60_000, *order)


@case("nfsd-two-clients", directions=(TO_POLLUX,), ports=("af_packet",), wants=BULK,
      deadline_s=300)
def nfsd_two_clients(bench):
    """The guest and a pollux nfs at once: both write, then each reads what the other wrote."""
    served = Served(bench)
    second = SecondClient(served)
    mine, back = bench.folder / "mine", bench.folder / "back"
    mine.write_bytes(os.urandom(32 * MIB))
    with mounted(served):
        enough = repeat_in_guest(bench, f"dd if=/dev/urandom of={MOUNT_POINT}/guests bs=64k "
                                        "count=64 conv=fsync status=none")
        served.wait_for_calls(4)
        put = bench.pollux_json(second.begin("put", mine, name="pollux"))
        enough()
        need(put["sha256"] == served.checksum("pollux"), f"{put}")
        enough = repeat_in_guest(bench, f"{DROP_CACHES}; sha256sum {MOUNT_POINT}/pollux")
        served.wait_for_calls(4)
        got = bench.pollux_json(second.begin("get", back, name="guests"))
        read = {line.split()[0] for line in enough().splitlines()}
        need(read == {put["sha256"]}, f"the guest reads {read}, not {put}")
        need(got["bytes"] == 4 * MIB and got["sha256"] == served.checksum("guests")
             == hashlib.sha256(back.read_bytes()).hexdigest(), f"{got}")
        served.same("guests")
    served.stop()
    return served.look(rpc_judge.READ, rpc_judge.WRITE)
