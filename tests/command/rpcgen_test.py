"""Tests the rpcgen example over RPC-over-RDMA: calls, chunks, errors, clients, restarts."""

import os
import signal
import unittest

from tests.command.blocks import Blocks
from tests.command.harness import wait_for

BLOCK_MAX_BYTES = 1 << 20


class RpcgenTest(Blocks):
    """The rpcgen example, tested by the output of its programs."""

    def test_blocks_of_every_size_round_trip(self):
        server = self.start_server()
        for size in (0, 1, 3, 1024, 1025, 4000, 65_537, BLOCK_MAX_BYTES):
            self.put_and_get(size)
        self.assertEqual(self.ask("changes"), "8 changes\n")
        self.assertIsNone(server.process.poll())

    def test_long_messages_arrive(self):
        self.start_server()
        names = [f"name-{i}" for i in range(4000)]
        self.assertEqual(self.ask("names", "4000").split(), names)
        self.assertEqual(self.ask_client("list").split(), names)

    def test_the_server_sees_credential_and_address(self):
        self.start_server()
        self.assertEqual(self.ask("who"), "nobody from 10.0.0.2\n")
        self.assertEqual(self.ask("who", options=("-s", "sys")),
                         f"uid {os.getuid()} gid {os.getgid()} from 10.0.0.2\n")
        self.assertEqual(self.ask("who", server="fd00::1"), "nobody from fd00::2\n")

    def test_rpc_errors_reach_the_client(self):
        self.start_server()
        self.assertEqual(self.ask("unknown").splitlines(), [
            "procedure 99: RPC: Procedure unavailable",
            "version 9: RPC: Program/version mismatch (1 to 1)",
            "another program: RPC: Program unavailable"])
        self.assertEqual(self.ask("garbage"), "garbage: RPC: Server can't decode arguments\n")
        self.assertIn("there is no block", self.ask_client("get", "none", "file", status=1))
        self.assertIn("Timed out", self.ask("wait", "5000", options=("-t", "200"), status=1))
        # The server still works afterwards.
        self.put_and_get(BLOCK_MAX_BYTES)

    def test_calls_with_a_zero_timeout_do_not_wait(self):
        self.start_server()
        self.assertIn("Timed out", self.ask("who", options=("-t", "0"), status=1))
        # The procedure takes longer than any test waits.
        self.assertIn("Timed out", self.ask("wait", "600000", options=("-t", "0"), status=1))

    def test_client_says_how_it_is_used(self):
        for arguments in (("put", "name"), ("list", "all"), ("frob",)):
            self.assertIn("usage:", self.ask_client(*arguments, status=2))

    def test_a_missing_server_is_an_error(self):
        self.assertIn("no such host", self.ask_client("list", server="10.0.0.77", status=1))
        self.start_server(port="--netdev wire --service-port 4000")
        self.assertIn("nothing listens there", self.ask("who", status=1))
        self.assertIn("nobody", self.ask("who", port="--netdev wire --service-port 4000"))

    def test_invalid_port_options_are_errors(self):
        for port, words in (("--netdev none", "none"), ("--prot x", "--prot"),
                            ("", "which port?"), ("--service-port 0 --netdev wire", "0")):
            self.assertIn(words, self.ask("who", port=port, status=1))

    def test_a_thousand_calls_succeed(self):
        self.start_server()
        self.assertEqual(self.ask("calls", "1000"), "1000 calls\n")

    def test_a_forked_child_cannot_call(self):
        self.start_server()
        # Memory that only another thread of the parent referred to has no reference in the child.
        self.environment = {**self.environment, "ASAN_OPTIONS": "detect_leaks=0"}
        self.assertRegex(self.ask("fork"), "^child: RPC: Unable to send\n"
                                           "child: .* forked .*\n"
                                           "1 calls\n$")

    def test_clients_in_several_threads_are_served(self):
        server = self.start_server()
        # Each thread has its own CLIENT, and so its own connection.
        self.assertEqual(self.ask("threads", 4, 20), "80 blocks\n")
        self.assertEqual(self.ask("changes"), "80 changes\n")
        self.assertIsNone(server.process.poll())

    def test_calls_survive_a_killed_and_restarted_server(self):
        server = self.start_server()
        client = self.start_client("again", 60, 50)

        def blocks():
            return len(client.stdout.splitlines())

        for _ in range(2):
            done = blocks()
            wait_for("blocks", lambda: client.process.poll() is not None or blocks() > done + 3)
            self.assertIsNone(client.process.poll(), client.stderr)
            server.interrupt(signal.SIGKILL)
            server = self.start_server()
        self.assertEqual(client.wait(), 0, client.stderr)
        self.assertEqual(blocks(), 60)

    def test_a_killed_client_does_not_harm_the_server(self):
        server = self.start_server()
        for _ in range(3):
            client = self.start_client("again", 10_000, 0)
            wait_for("blocks", lambda: len(client.stdout.splitlines()) > 3)
            client.interrupt(signal.SIGKILL)
        self.put_and_get(100_000)
        self.assertIsNone(server.process.poll())


class RpcgenCaptureTest(Blocks):
    """The rpcgen example, tested by captures of its frames."""

    def decoded(self, *arguments):
        """Runs a client and returns its decoded frames, one per line."""
        capture = self.directory / "wire.pcapng"
        self.ask_client(*arguments, port=f"--netdev wire --capture {capture}")
        run = self.finish(self.client_host, "decode", "--brief", capture)
        self.assertEqual(run.process.returncode, 0, run.stderr)
        return run.stdout

    def test_blocks_travel_in_chunks(self):
        self.start_server()
        block = self.file("block", 100_000)
        put = self.decoded("put", "block", block)
        self.assertRegex(put, r"RDMA_MSG XID .*, reads 1 \(100000 bytes\)\n")
        self.assertIn("RDMA READ response", put)
        get = self.decoded("get", "block", self.directory / "got")
        self.assertRegex(get, r"RDMA_MSG XID .*, write chunks 1 \(100000 bytes\)\n")
        self.assertIn("RDMA WRITE First", get)
        self.assertNotIn("RDMA READ", get)


if __name__ == "__main__":
    unittest.main()
