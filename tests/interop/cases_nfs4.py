"""The case of NFS version 4.1: the kernel's server calls its client back on the client's
connection."""

import rpc_judge
from case import TO_LINUX, case, need
from cases_nfs import EXPORT, PORT, STOP, WANTS

# The root of version 4 must be an export of its own, since the file system above it cannot be
# exported. The server gives no delegation in a grace period, which locks of version 3 would begin.
START = f"""{EXPORT}
exportfs -i -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 '*:/srv'
{STOP}; rpc.nfsd -N 3 --rdma={PORT} 4; grep -q 'rdma {PORT}' /proc/fs/nfsd/portlist
echo Y >/proc/fs/nfsd/v4_end_grace
"""


@case("nfs4-callback", directions=(TO_LINUX,), deadline_s=300,
      wants=WANTS + [("passive", "RC SEND ONLY")])
def nfs4_callback(bench):
    """A callback in the reverse direction (RFC 8167) recalls a delegation, and it is returned."""
    bench.guest.run(START + "echo before >/srv/file", bench.deadline)
    client = bench.program("nfs4_callback", bench.tools["nfs4_callback"], *bench.port.arguments(),
                           "--json", bench.guest_address, "file")
    try:
        client.wait_for_line("^holding a delegation", bench.deadline)
        # This write waits until the delegation is returned.
        bench.guest.run("echo after >>/srv/file", bench.deadline)
        answer = bench.pollux_json(client)
    finally:
        # Other cases expect a server of version 3, or none.
        bench.guest.run(STOP, bench.deadline)
    need(answer["callbacks"] >= 1 and answer["refused_callbacks"] == 0, f"{answer}")

    def look(evidence):
        rpc_judge.judge_recall(evidence, bench.guest_address, bench.port.address)

    return look
