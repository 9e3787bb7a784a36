"""What a capture of NFS version 3 over RPC-over-RDMA must show, by tshark's reading of it: RFC 8797
private data both ways, chunks as RFC 8267 has them, and no call above the grant."""

import dataclasses
import subprocess

from process import CaseFailure

TIME_LIMIT_S = 300
FIELDS = ("frame.number", "ip.src", "infiniband.bth.destqp", "rpcordma.xid",
          "rpcordma.flow_control", "rpcordma.reads_count", "rpcordma.writes_count",
          "rpcordma.reply_count", "rpc.msgtyp", "rpc.program", "rpc.procedure")
NFS_PROGRAM = 100003
READLINK, READ, WRITE, SYMLINK = 5, 6, 7, 10
# RFC 8267 section 4: whose arguments, and whose results, may travel in chunks.
READ_CHUNKS, WRITE_CHUNKS = (WRITE, SYMLINK), (READLINK, READ)
PRIVATE_DATA = bytes.fromhex("f6ab0e1801")  # RFC 8797: the magic number, version 1
# In a UD SEND's payload: the DETH, the MAD's header, and what comes before private data that is
# the consumer's (of a REQ, the 36 bytes of the CMA header too).
REQ_DATA_AT, REP_DATA_AT = 8 + 200, 8 + 60


@dataclasses.dataclass
class Message:
    """One RPC-over-RDMA message, as it was seen first."""
    number: int
    sender: str
    qpn: str  # of the receiver
    xid: str
    credits: int
    reads: int
    writes: int
    reply: int
    procedure: int  # of NFS; -1 when tshark does not tell it

    @property
    def chunks(self):
        return self.reads or self.writes or self.reply


def number(text):
    return int(text, 0) if text else 0


def messages(path):
    """In order; one that was sent again on its connection, once."""
    command = ["tshark", "-n", "-r", path, "-Y", "rpcordma.xid", "-T", "fields", "-E",
               "separator=;", "-E", "occurrence=f"]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIME_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"tshark: {done.stderr.strip()}")
    seen, found = set(), []
    for line in done.stdout.splitlines():
        frame, sender, qpn, xid, grant, reads, writes, reply, _, program, procedure = \
            line.split(";")
        if (sender, qpn, xid) in seen:
            continue
        seen.add((sender, qpn, xid))
        is_nfs = procedure != "" and number(program) == NFS_PROGRAM
        found.append(Message(int(frame), sender, qpn, xid, number(grant), number(reads),
                             number(writes), number(reply), number(procedure) if is_nfs else -1))
    return found


def private_data(evidence):
    """What is missing of RFC 8797."""
    found = []
    for name, at in (("REQ", REQ_DATA_AT), ("REP", REP_DATA_AT)):
        frames = [frame for frame in evidence.frames if name in frame.names]
        if not frames:
            found.append(f"there is no {name}")
        if any(frame.payload[at:at + len(PRIVATE_DATA)] != PRIVATE_DATA for frame in frames):
            found.append(f"a {name} without RFC 8797 private data")
    return found


def above_grant(calls_and_replies, client):
    """Calls that were sent although as many as were granted had no reply. RFC 8166 section 3.3.1:
    one until the first grant."""
    grants, waiting, found = {}, {}, []
    connections = {}  # by the QPN of either end
    for message in calls_and_replies:
        if message.sender == client:
            key = message.qpn
            waiting.setdefault(key, set()).add(message.xid)
            connections[message.xid] = key
            if len(waiting[key]) > grants.get(key, 1):
                found.append(f"the call in frame {message.number} is above the grant of "
                             f"{grants.get(key, 1)}")
        elif message.xid in connections:
            key = connections[message.xid]
            waiting[key].discard(message.xid)
            grants[key] = message.credits
    return found


def wrong_chunks(calls, procedures):
    """Calls with chunks that the binding does not allow them."""
    found = []
    for call in calls:
        procedure = procedures.get(call.xid, -1)
        if call.reads and procedure not in READ_CHUNKS + (-1,):
            found.append(f"Read chunks in frame {call.number}, procedure {procedure}")
        if call.writes and procedure not in WRITE_CHUNKS + (-1,):
            found.append(f"Write chunks in frame {call.number}, procedure {procedure}")
    return found


def judge_nfs(evidence, client, wants=()):
    """Raises CaseFailure for what is wrong in a capture in which `client`, an IP address, called an
    NFS server. `wants` are procedures of which a call with chunks must be there."""
    found = private_data(evidence)
    all_messages = messages(evidence.path)
    calls = [message for message in all_messages if message.sender == client]
    if not calls:
        raise CaseFailure("tshark sees no RPC-over-RDMA calls")
    # A call with a Read chunk names its procedure only in the reply.
    procedures = {message.xid: message.procedure for message in all_messages
                  if message.procedure >= 0}
    found += above_grant(all_messages, client) + wrong_chunks(calls, procedures)
    chunked = {procedures.get(call.xid, -1) for call in calls if call.chunks}
    found += [f"no call of procedure {want} with chunks" for want in wants if want not in chunked]
    if found:
        raise CaseFailure(f"{len(found)} findings in the RPCs: {'; '.join(found[:3])}")
