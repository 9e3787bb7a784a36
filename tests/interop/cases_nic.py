"""Pollux on PCI NICs, which DPDK drives in a guest: what belongs to the NIC and not to the verbs.

Many other cases run over NICs, too: those that have `nics`.
"""

import copy
import hashlib
import json
import signal
import time

from case import NICS, TO_LINUX, TO_POLLUX, case, need
from cases_nfsd import BULK, MIB, MOUNT_POINT
from cases_rping import LARGE, exchange
from network import SECOND
from nic_guest import PCI_ADDRESS
from process import Process

DEVICE = f"/sys/bus/pci/devices/{PCI_ADDRESS}"
FILE_BYTES = 8_000_003
QUEUES = 2
LINK_DOWN_S = 1  # less than the retries of a connection last
PAIRS = 32
# Of the packets that the workers received, at most this share may have to be passed on if the NIC
# sorts: those of CM and ARP.
PASSED_ON = 0.05
EXPORT = "/srv/nfs"  # a file system that can be served, unlike the guest's root
NFS_SIZES = (0, 1, 4097, MIB + 1, 3 * MIB + 5)
# Between a NIC and the host both ends are Pollux.
CALLS = [("pollux", "REQ"), ("pollux", "REP"), ("pollux", "RC SEND ONLY")]


def serve(bench, *arguments):
    """Starts pollux serve on the NIC, with a file in the bench's folder; returns it and the file's
    checksum."""
    data = hashlib.shake_256(bench.case.name.encode()).digest(FILE_BYTES)
    (bench.folder / "file").write_bytes(data)
    server = bench.pollux("serve", "--root", bench.folder, *arguments)
    bench.listening(server)
    return server, hashlib.sha256(data).hexdigest()


def on_host(bench, command, *arguments):
    """Starts a pollux command on the host, on another port of the bridge."""
    process = Process(f"{command}{len(bench.processes)}",
                      [bench.tools["pollux"], command, *SECOND.arguments(), *arguments],
                      bench.folder)
    bench.processes.append(process)
    return process


def check_file(bench, name, checksum):
    with open(bench.folder / name, "rb") as file:
        need(hashlib.file_digest(file, "sha256").hexdigest() == checksum, f"{name} has changed")


def end(bench, process):
    process.signal(signal.SIGINT)
    process.expect(0, bench.deadline)


def statistics(bench, process):
    """Returns what pollux stat says of the process, worker by worker."""
    status, text = bench.ask("stat", "--json", "--pid", process.pid)
    need(status == 0, f"pollux stat ended with {status}")
    return json.loads(text)["processes"][0]["workers"]


def define_transfer(name, **options):
    @case(name, directions=(TO_POLLUX,), wants=CALLS, deadline_s=180, **options)
    def run(bench):
        server, checksum = serve(bench, "--idle", "sleep")
        on_host(bench, "get", bench.port.address, "file", "got").expect(0, bench.deadline)
        check_file(bench, "got", checksum)
        on_host(bench, "put", bench.port.address, "got", "put").expect(0, bench.deadline)
        check_file(bench, "put", checksum)
        end(bench, server)

    run.__doc__ = "A file from a server on a NIC to a client on the host, and back."


define_transfer("nic-transfer-virtio", ports=("virtio",))
define_transfer("nic-transfer", ports=(), nics=NICS)


@case("nic-bench", directions=(TO_POLLUX,), ports=(), nics=NICS, wants=CALLS,
      deadline_s=300)
def nic_bench(bench):
    """pollux ping and pollux bench of a server on the NIC."""
    server = bench.pollux("bench", "--server")
    bench.listening(server)
    on_host(bench, "ping", "--count", 20, bench.port.address).expect(0, bench.deadline)
    on_host(bench, "bench", "--passes", 1, "--sizes", "64,65536", "--mib", 8, "--measure",
            "null,blocks,send,write,read", bench.port.address).expect(0, bench.deadline)
    end(bench, server)


@case("nic-workers", directions=(TO_POLLUX,), ports=(), nics=NICS, wants=CALLS,
      deadline_s=300)
def nic_workers(bench):
    """Two workers with a queue each, and many connections: a NIC that sorts takes the packets of a
    Pollux peer to their worker, and others are passed on."""
    server = bench.pollux("bench", "--server", "--cores", "0,1", "--idle", "sleep")
    bench.listening(server)
    on_host(bench, "bench", "--passes", 1, "--sizes", 64, "--pairs", PAIRS, "--measure", "pairs",
            bench.port.address).expect(0, bench.deadline)
    workers = statistics(bench, server)
    port, = workers[0]["ports"]
    nic = bench.port.nic
    counters = [worker["core"] for worker in workers]
    total = sum(one["steering/received"] for one in counters)
    passed_on = sum(one["steering/handed_over"] for one in counters)
    for one in counters:
        need(one["steering/kept"] + one["steering/by_ring"] > total / 8,
             f"one worker got almost nothing: {counters}")
    if nic.sorts:
        need(port["device/sorts_by_qpn"] == 1 and port["device/queues"] == QUEUES,
             f"it says {port}")
        need(passed_on < PASSED_ON * total, f"{passed_on} of {total} frames were passed on")
    else:
        need(passed_on > 0, "no frame was passed on, though the NIC does not sort")
    end(bench, server)


@case("nic-nfsd", directions=(TO_POLLUX,), ports=(), nics=NICS, wants=BULK, deadline_s=300)
def nic_nfsd(bench):
    """The Linux client mounts a directory of nfsd on the NIC, writes files and reads them back."""
    nic, linux = bench.nic_guest, bench.guest
    nic.run(f"umount {EXPORT} 2>/dev/null; mkdir -p {EXPORT}; mount -t tmpfs -o mode=777 export "
            f"{EXPORT}", bench.deadline)
    server = bench.program(
        "nfsd", bench.tools["pollux"], "nfsd", "--port", PCI_ADDRESS, *bench.port.options,
        "--address", f"{bench.port.address}/24", "--mac", bench.port.mac, "--kernel-path", "plxk",
        "--export", f"{EXPORT}:rw,no_root_squash", "--key-file", "/tmp/nfsd.key")
    server.wait_for_line("^serving NFS", bench.deadline)
    linux.run(f"""set -e
        mkdir -p {MOUNT_POINT}
        mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=20048,nolock \
            {bench.port.address}:{EXPORT} {MOUNT_POINT}
        cd {MOUNT_POINT}
        {"; ".join(f"head -c {size} /dev/urandom >file{size}" for size in NFS_SIZES)}
        sync
        sha256sum file* >/root/sums""", bench.deadline)
    sums = linux.run(f"echo 3 >/proc/sys/vm/drop_caches; cd {MOUNT_POINT}; sha256sum file*",
                     bench.deadline)
    linux.run(f"cd /; umount {MOUNT_POINT}", bench.deadline)
    need(sums == linux.run("cat /root/sums", bench.deadline), "the client reads other bytes")
    need(sums == nic.run(f"cd {EXPORT}; sha256sum file*", bench.deadline),
         "the server has other bytes")
    end(bench, server)


@case("nic-link", directions=(TO_POLLUX,), ports=(), nics=NICS, wants=CALLS,
      deadline_s=180)
def nic_link(bench):
    """The NIC's link goes down while a client makes calls, and comes back: Pollux counts it, and
    every call is answered."""
    server, checksum = serve(bench)
    client = on_host(bench, "ping", "--interval", 0.1, "--count", 50, bench.port.address)
    client.wait_for_line("seq=3", bench.deadline)
    bench.nic_guest.set_link(False)
    time.sleep(LINK_DOWN_S)
    bench.nic_guest.set_link(True)
    client.expect(0, bench.deadline)
    port, = statistics(bench, server)[0]["ports"]
    need(port["link_downed"] == 1, f"the link has gone down {port['link_downed']} times")
    on_host(bench, "get", bench.port.address, "file", "got").expect(0, bench.deadline)
    check_file(bench, "got", checksum)
    end(bench, server)


@case("nic-unplug", directions=(TO_POLLUX,), ports=(), nics=NICS, wants=CALLS,
      deadline_s=180)
def nic_unplug(bench):
    """The NIC is unplugged: the server ends, and says why."""
    server, _ = serve(bench)
    on_host(bench, "ping", bench.port.address).expect(0, bench.deadline)
    bench.nic_guest.unplug()
    server.expect(1, bench.deadline)
    need(f"{PCI_ADDRESS}" in server.stderr and "is gone" in server.stderr,
         f"it says {server.stderr}")
    bench.nic_guest.run(f"while [[ -e {DEVICE} ]]; do sleep 0.1; done", bench.deadline)


@case("nic-mtu-1500", directions=(TO_LINUX,), ports=(), nics=NICS, wants=LARGE,
      deadline_s=180)
def nic_mtu_1500(bench):
    """A NIC has an MTU of 1,500 bytes without --mtu: the path MTU is 1024."""
    bench.guest.run("ip link set eth0 mtu 1500", bench.deadline)
    bench.port = copy.copy(bench.port)
    bench.port.options = []
    exchange(bench, 5, 4000)


@case("nic-doctor", directions=(TO_POLLUX,), ports=(), nics=NICS, deadline_s=180)
def nic_doctor(bench):
    """pollux doctor finds that nothing is missing on a prepared host; without the driver it names
    the command that binds it."""
    def examine():
        status, text = bench.ask("doctor", "--port", PCI_ADDRESS, "--json")
        return status, json.loads(text)

    status, found = examine()
    need(status == 0, f"it says {found}")
    bench.nic_guest.run(f"echo {PCI_ADDRESS} >{DEVICE}/driver/unbind", bench.deadline)
    try:
        status, found = examine()
    finally:
        bench.nic_guest.run(f"echo {PCI_ADDRESS} >/sys/bus/pci/drivers_probe", bench.deadline)
    commands = json.dumps(found)
    need(status == 1 and f"dpdk-devbind.py -b vfio-pci {PCI_ADDRESS}" in commands,
         f"it says {found}")
    status, found = examine()
    need(status == 0, f"it says {found}")
