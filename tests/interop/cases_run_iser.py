"""pollux run: tgt's iSER target, with the kernel's initiator (ib_iser) in the guest.

ib_iser registers memory for each command (REG_MR) in the chain that sends the command, and
invalidates it before the next use (LOCAL_INV): tgt does not invalidate remotely.

When rxe repeats a SEND after it has executed REG_MRs that stand behind it, it executes them again,
which fails: "not free". It then sends no more requests, but still acknowledges, so that only the
time-outs of SCSI, more than a minute later, end the connection. With one command at a time there is
no REG_MR behind a SEND.
"""

import os
import shutil
import subprocess

from case import TO_POLLUX, need
from process import CaseSkipped
from programs import cases_of, places

PORT = 3260  # the default: the tgtd of Debian 12 accepts no other by --iser port=
TARGET, INITIATOR = "iqn.2026-01.pollux:disk", "iqn.2026-01.pollux:guest"
DISK_SIZE = 16 << 20
WRITTEN = "4m"
DEPTH = 8  # commands at once, over a wire that loses nothing
LOG_IN = f"""set -e
dmesg -C
modprobe -a ib_iser sd_mod
mkdir -p /etc/iscsi
echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi
iscsid
iscsiadm -m node -o new -T {TARGET} -p {{address}}:{PORT},1 -I iser
iscsiadm -m node -T {TARGET} -l
until [[ -b /dev/sda ]]; do sleep 0.05; done
"""
# fio writes in random order, then reads the data again and compares it.
WORK = ("fio --name=disk --filename=/dev/sda --direct=1 --ioengine=libaio --iodepth={depth} "
        f"--rw=randwrite --bsrange=4k-256k --size={WRITTEN} --verify=crc32c --verify_fatal=1")
LOG_OUT = f"iscsiadm -m node -T {TARGET} -u && iscsiadm -k 0 && dmesg"
BULK = [("active", "REQ"), ("passive", "REP"), ("active", "RTU"), ("passive", "RC READ REQUEST"),
        ("passive", "RC WRITE FIRST")]


def start_target(bench, place):
    """Starts tgtd with a disk, which LUN 1 of TARGET is."""
    disk, control = bench.folder / "disk", bench.folder / "control"
    disk.write_bytes(bytes(DISK_SIZE))
    place.start("env", f"TGT_IPC_SOCKET={control}", "tgtd", "-f", "-C", 0, "-t", 1, "--iser",
                "pool_sz_mb=128")

    def administer(mode, operation, *options):
        return subprocess.run(
            ["tgtadm", "-C", "0", "--lld", "iser", "--mode", mode, "--op", operation, "--tid", "1",
             *options], env={**os.environ, "TGT_IPC_SOCKET": str(control)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0

    bench.deadline.wait_for("the target",
                            lambda: administer("target", "new", "--targetname", TARGET))
    need(administer("logicalunit", "new", "--lun", "1", "--backing-store", str(disk)),
         "the target refuses the disk")
    # It admits an initiator only with both.
    need(administer("target", "bind", "--initiator-address", "ALL")
         and administer("target", "bind", "--initiator-name", INITIATOR),
         "the target does not admit the initiator")
    place.wait_for_cm(PORT)


@cases_of("iser", BULK, loss_wants=BULK, directions=(TO_POLLUX,), deadline_s=300)
def iser(bench, loss):
    """tgt's iSER disk: the guest's kernel logs in, writes, reads and compares, and logs out."""
    missing = [tool for tool in ("tgtd", "tgtadm") if shutil.which(tool) is None]
    if missing:
        raise CaseSkipped(f"not installed: {', '.join(missing)}")
    with places(bench, loss) as (active, passive):
        start_target(bench, passive)
        bench.guest.run(LOG_IN.format(address=active.peer), bench.deadline)
        bench.guest.run(WORK.format(depth=1 if loss else DEPTH), bench.deadline)
        kernel_log = bench.guest.run(LOG_OUT, bench.deadline)

    def look(evidence):
        repeated = (evidence.count("linux", "RC SEND ONLY")
                    > evidence.packets("linux", "RC SEND ONLY"))
        need(repeated or "not free" not in kernel_log,
             "memory was still registered, although the guest has repeated no SEND")

    return look
