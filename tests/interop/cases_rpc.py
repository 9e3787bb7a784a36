"""The case of RPC-over-RDMA with the kernel's NFS server."""

from case import TO_LINUX, case, need

NFS_PORT = 20049
NFS_PROGRAM, NFS_VERSION = 100003, 3
# NULL calls need neither the server's other daemons nor an export.
START_NFS = f"""
modprobe -a nfsd rpcrdma
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
if ! grep -q rdma /proc/fs/nfsd/portlist; then
  mkdir -p /run/rpcbind
  pgrep rpcbind >/dev/null || rpcbind -w
  rpc.nfsd -V 3 --rdma={NFS_PORT} 2
fi
cat /proc/fs/nfsd/portlist
grep -q 'rdma {NFS_PORT}' /proc/fs/nfsd/portlist
"""


@case("nfs-null", directions=(TO_LINUX,), deadline_s=180,
      wants=[("active", "REQ"), ("passive", "REP"), ("active", "RTU"), ("active", "DREQ"),
             ("passive", "DREP"), ("active", "RC SEND ONLY"), ("passive", "RC SEND ONLY"),
             ("passive", "RC ACK")])
def nfs_null(bench):
    """RFC 8797 private data both ways, and NULL calls."""
    bench.guest.run(START_NFS, bench.deadline)
    ping = bench.pollux("ping", "--program", NFS_PROGRAM, "--version", NFS_VERSION, "--count", 20,
                        "--service-port", NFS_PORT, "--timeout-ms", 60000, "--json",
                        bench.guest_address)
    answer = bench.pollux_json(ping)
    need(answer["ok"] and answer["calls"] == 20, f"{answer}")
    need(answer["peer_private_data"] is True, "the server sent no private data")
    need(answer["client_to_server_inline"] == 4096, f"{answer}")
