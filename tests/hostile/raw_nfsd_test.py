"""Tests malformed RPC-over-RDMA messages to `pollux nfsd`, beside `pollux nfs`."""

from tests.command.nfs_transfer_test import NfsOnNfsd
from tests.command.nfsd_test import MNT, handle_of, mount_call, xdr_string
from tests.hostile import raw_rpc_test
from tests.hostile.raw_rpc_test import GIB4, header, opaque, words

GETATTR, LOOKUP, READ, WRITE, READDIRPLUS = 1, 3, 6, 7, 17
PROCEDURES = range(1, 22)
UNSTABLE = 0
REPLY_AT = 28 + 24  # the results are after the headers of RPC-over-RDMA and RPC


class HostileNfsTest(raw_rpc_test.HostileRpcTest, NfsOnNfsd):
    program, version = 100003, 3
    credential = words(1, 20) + bytes(20)  # AUTH_SYS, root

    def setUp(self):
        super().setUp()
        self.top = opaque(handle_of(mount_call(self.client_host, MNT,
                                               xdr_string(str(self.export)))))
        self.there, self.new = self.look_up(b"there"), self.look_up(b"new")

    def look_up(self, name):
        """Returns a file's handle in XDR."""
        connection = self.hostile.connect(self.service_port)
        _, reply = connection.ask(header(1) + self.call(1, LOOKUP, self.top + opaque(name)))
        connection.disconnect()
        self.assertEqual(reply[REPLY_AT:REPLY_AT + 4], words(0))
        return opaque(handle_of(reply[REPLY_AT:]))

    def start_victim(self):
        (self.export / "there").write_bytes(self.content.read_bytes())
        (self.export / "new").write_bytes(b"")
        (self.export / "new").chmod(0o666)
        return self.nfsd("--json")

    def start_client(self):
        return self.start(self.client_host,
                          *self.nfs_argv("get", self.directory / "got", path="there"))

    def stat(self, xid):
        return self.call(xid, GETATTR, self.there)

    def read(self, xid, size):
        return self.call(xid, READ, self.there + words(0, 0, size))

    def write(self, xid, size):
        return self.call(xid, WRITE, self.new + words(0, 0, size, UNSTABLE, size))

    def list(self, xid):
        return self.call(xid, READDIRPLUS, self.top + words(0, 0, 0, 0, 4096, 4096))

    def invalid_arguments(self):
        for procedure in PROCEDURES:
            for arguments in (b"", words(GIB4), words(65) + bytes(68), opaque(bytes(64)),
                              self.top[:-4], self.top + words(GIB4), self.there + words(GIB4) * 6,
                              self.top + opaque(b"../../etc/passwd"), self.top + opaque(b"a\0b"),
                              self.top + opaque(b"/etc/passwd") + words(0, 0, 1 << 31),
                              self.top + opaque(b"x" * 800)):
                yield procedure, arguments
