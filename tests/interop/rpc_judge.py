"""Checks a capture of NFS version 3 over RPC-over-RDMA, as tshark reads it: RFC 8797 private data
both ways, chunks as RFC 8267 has them, and no call above the grant."""

import dataclasses
import subprocess

from process import CaseFailure

TIME_LIMIT_S = 300
FIELDS = ("frame.number", "ip.src", "infiniband.bth.destqp", "rpcordma.xid",
          "rpcordma.flow_control", "rpcordma.reads_count", "rpcordma.writes_count",
          "rpcordma.reply_count", "rpc.msgtyp", "rpc.program", "rpc.procedure")
NFS_PROGRAM = 100003
READLINK, READ, WRITE, SYMLINK = 5, 6, 7, 10
# RFC 8267 section 4: procedures whose arguments, and whose results, may travel in chunks.
READ_CHUNKS, WRITE_CHUNKS = (WRITE, SYMLINK), (READLINK, READ)
PRIVATE_DATA = bytes.fromhex("f6ab0e1801")  # RFC 8797: the magic number, version 1
# Offsets of the consumer's private data in a UD SEND's payload: after the DETH, the MAD header and
# the fields before the private data, and in a REQ also after the 36 bytes of the CMA header.
REQ_DATA_AT, REP_DATA_AT = 8 + 200, 8 + 60


@dataclasses.dataclass
class Message:
    """An RPC-over-RDMA message, as it was first seen."""
    number: int
    sender: str
    qpn: str  # of the receiver
    xid: str
    credits: int
    reads: int
    writes: int
    reply: int
    procedure: int  # of NFS; -1 if tshark does not show it

    @property
    def chunks(self):
        return self.reads or self.writes or self.reply


CB_PROGRAM, CB_COMPOUND = 0x40000000, 1
CB_FIELDS = ("ip.src", "rpcordma.xid", "rpcordma.flow_control", "rpcordma.reads_count",
             "rpcordma.writes_count", "rpcordma.reply_count", "rpc.msgtyp", "rpc.program",
             "rpc.procedure", "nfs.cb.operation")
CALL, REPLY = 0, 1
CB_SEQUENCE, CB_RECALL = 11, 4


def number(text):
    return int(text, 0) if text else 0


def rows(path, fields, occurrence="f", which="rpcordma.xid"):
    """Returns rows for every RPC-over-RDMA message, or for the frames that tshark's filter `which`
    selects: the first value of each field, or with "a" all values, separated by commas."""
    command = ["tshark", "-n", "-r", path, "-Y", which, "-T", "fields", "-E",
               "separator=;", "-E", f"occurrence={occurrence}"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIME_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"tshark: {done.stderr.strip()}")
    return [line.split(";") for line in done.stdout.splitlines()]


def messages(path):
    """Returns the messages in order; one that was repeated on its connection appears once."""
    seen, found = set(), []
    for row in rows(path, FIELDS):
        frame, sender, qpn, xid, grant, reads, writes, reply, _, program, procedure = row
        if (sender, qpn, xid) in seen:
            continue
        seen.add((sender, qpn, xid))
        is_nfs = procedure != "" and number(program) == NFS_PROGRAM
        found.append(Message(int(frame), sender, qpn, xid, number(grant), number(reads),
                             number(writes), number(reply), number(procedure) if is_nfs else -1))
    return found


def private_data(evidence):
    """Returns the requirements of RFC 8797 that the capture does not meet."""
    found = []
    for name, at in (("REQ", REQ_DATA_AT), ("REP", REP_DATA_AT)):
        frames = [frame for frame in evidence.frames if name in frame.names]
        if not frames:
            found.append(f"there is no {name}")
        if any(frame.payload[at:at + len(PRIVATE_DATA)] != PRIVATE_DATA for frame in frames):
            found.append(f"a {name} without RFC 8797 private data")
    return found


def above_grant(calls_and_replies, client):
    """Returns the calls that were sent while as many as were granted had no reply: one until the
    first grant (RFC 8166 section 3.3.1)."""
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


def receives_missing(frames, client):
    """Returns the RNR NAKs to the client, which mean that there was no receive: Linux's client does
    not retry (rnr_retry 0)."""
    return [f"RNR NAK to {client} in frame {frame.number}" for frame in frames
            if "RNR NAK" in frame.names and frame.destination == client]


def wrong_chunks(calls, procedures):
    """Returns the calls with chunks that the binding does not allow."""
    found = []
    for call in calls:
        procedure = procedures.get(call.xid, -1)
        if call.reads and procedure not in READ_CHUNKS + (-1,):
            found.append(f"Read chunks in frame {call.number}, procedure {procedure}")
        if call.writes and procedure not in WRITE_CHUNKS + (-1,):
            found.append(f"Write chunks in frame {call.number}, procedure {procedure}")
    return found


def judge_nfs(evidence, client, wants=()):
    """Checks a capture in which `client`, an IP address, calls an NFS server; raises CaseFailure if
    it finds an error. There must be calls with chunks of the procedures `wants`."""
    found = private_data(evidence)
    all_messages = messages(evidence.path)
    calls = [message for message in all_messages if message.sender == client]
    if not calls:
        raise CaseFailure("tshark sees no RPC-over-RDMA calls")
    # The procedure of a call with a Read chunk is known only from its reply.
    procedures = {message.xid: message.procedure for message in all_messages
                  if message.procedure >= 0}
    found += above_grant(all_messages, client) + wrong_chunks(calls, procedures)
    found += receives_missing(
        [frame for frame in evidence.frames if evidence.sender(frame) == "pollux"], client)
    chunked = {procedures.get(call.xid, -1) for call in calls if call.chunks}
    found += [f"no call of procedure {want} with chunks" for want in wants if want not in chunked]
    if found:
        raise CaseFailure(f"{len(found)} findings in the RPCs: {'; '.join(found[:3])}")


def wrong_recall(all_rows, server, client):
    """Returns the missing parts of a CB_RECALL by the server on the client's connection, and of its
    reply. `all_rows` have CB_FIELDS."""
    calls, found = {}, []
    for sender, xid, grant, reads, writes, reply, kind, program, procedure, operations in all_rows:
        named = kind != "" and program != "" and \
            (number(program), number(procedure)) == (CB_PROGRAM, CB_COMPOUND)
        if not named:
            continue
        if any(number(count) for count in (reads, writes, reply)):
            found.append(f"{sender} sends chunks in the reverse direction")
        done = tuple(number(word) for word in operations.split(",") if word)
        if sender == server and number(kind) == CALL:
            calls[xid] = done
        elif sender == client and number(kind) == REPLY and calls.pop(xid, None) == done:
            if done == (CB_SEQUENCE, CB_RECALL) and number(grant) > 0:
                return found
    return found + ["no CB_RECALL that was answered"]


NSM_PROGRAM, SM_NOTIFY = 100024, 6
NSM_FIELDS = ("ip.src", "rpc.xid", "rpc.msgtyp", "rpc.procedure")


def unanswered_notification(all_rows, client):
    """Returns the missing parts of an SM_NOTIFY by the client, and of its reply. `all_rows` have
    NSM_FIELDS."""
    calls = {xid for sender, xid, kind, procedure in all_rows
             if sender == client and number(kind) == CALL and number(procedure) == SM_NOTIFY}
    replies = {xid for sender, xid, kind, _ in all_rows
               if sender != client and number(kind) == REPLY}
    return [] if calls & replies else [f"no SM_NOTIFY that was answered, among {len(calls)}"]


def judge_notification(evidence, client):
    """Raises CaseFailure unless the client, an IP address, has notified by UDP that it has
    restarted (the Open Group's Network Status Monitor), and was answered."""
    found = unanswered_notification(
        rows(evidence.path, NSM_FIELDS, which=f"udp && rpc.program == {NSM_PROGRAM}"), client)
    if found:
        raise CaseFailure(found[0])


def judge_recall(evidence, server, client):
    """Raises CaseFailure unless the server at this address has called the client back, and the
    client has answered, in Short Messages (RFC 8167)."""
    found = private_data(evidence)
    found += wrong_recall(rows(evidence.path, CB_FIELDS, "a"), server, client)
    if found:
        raise CaseFailure(f"{len(found)} findings in the RPCs: {'; '.join(found[:3])}")
