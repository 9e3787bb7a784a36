"""NFS version 4.1: the kernel's server calls its client back by the connection that it came on."""

import rpc_judge
from case import TO_LINUX, case, need
from cases_nfs import EXPORT, PORT, STOP, WANTS

# The root of what version 4 sees must be an export of its own: above it is no file system that
# could be exported. No delegation is given in a time of grace: version 3's locks would begin one.
START = f"""{EXPORT}
exportfs -i -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 '*:/srv'
{STOP}; rpc.nfsd -N 3 --rdma={PORT} 4; grep -q 'rdma {PORT}' /proc/fs/nfsd/portlist
echo Y >/proc/fs/nfsd/v4_end_grace
"""


@case("nfs4-callback", directions=(TO_LINUX,), deadline_s=300,
      wants=WANTS + [("passive", "RC SEND ONLY")])
def nfs4_callback(bench):
    """A delegation is recalled by a callback in the reverse direction (RFC 8167), and returned."""
    bench.guest.run(START + "echo before >/srv/file", bench.deadline)
    client = bench.program("nfs4_callback", bench.tools["nfs4_callback"], *bench.port.arguments(),
                           "--json", bench.guest_address, "file")
    try:
        client.wait_for_line("^holding a delegation", bench.deadline)
        # Waits for the delegation to come back.
        bench.guest.run("echo after >>/srv/file", bench.deadline)
        answer = bench.pollux_json(client)
    finally:
        # Other cases find a server of version 3, or none.
        bench.guest.run(STOP, bench.deadline)
    need(answer["callbacks"] >= 1 and answer["refused_callbacks"] == 0, f"{answer}")

    def look(evidence):
        rpc_judge.judge_recall(evidence, bench.guest_address, bench.port.address)

    return look
