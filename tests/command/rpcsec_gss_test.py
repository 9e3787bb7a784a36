"""Tests RPCSEC_GSS over RPC-over-RDMA: krb5, krb5i and krb5p, with a KDC of the test."""

import signal
import unittest

from tests.command.blocks import Blocks
from tests.command.harness import wait_for
from tests.command.realm import Realm

SERVICE = "store@server.test"


class RpcsecGssTest(Blocks):
    """The rpcgen example, whose server and client authenticate by Kerberos."""

    server_arguments = ("-p", SERVICE)

    def setUp(self):
        super().setUp()
        realm = Realm(self.directory / "realm", self.client_host, "store/server.test", "alice")
        self.addCleanup(realm.close)
        self.environment = realm.environment

    def secure(self, flavor):
        return ("-s", flavor, "-p", SERVICE)

    def captured(self, *arguments, flavor):
        """Returns a client's output, its decoded frames (one per line), and the capture's bytes."""
        capture = self.directory / "wire.pcapng"
        printed = self.ask(*arguments, options=self.secure(flavor),
                           port=f"--netdev wire --capture {capture}")
        run = self.finish(self.client_host, "decode", "--brief", capture)
        self.assertEqual(run.process.returncode, 0, run.stderr)
        return printed, run.stdout, capture.read_bytes()

    def test_each_gss_service_protects_calls(self):
        self.start_server()
        for flavor, service in (("krb5", "none"), ("krb5i", "integrity"), ("krb5p", "privacy")):
            with self.subTest(flavor):
                options = self.secure(flavor)
                self.assertEqual(self.ask("who", options=options),
                                 f"alice@BLOCKS.TEST by {service} from 10.0.0.2\n")
                self.assertEqual(self.ask("calls", "100", options=options), "100 calls\n")
                for size in (0, 5, 4000, 1 << 20):
                    self.ask("block", size, options=options)
                self.assertIn("name-3999\n", self.ask("names", "4000", options=options))
                # Each of the three connections has its own security context.
                self.assertEqual(self.ask("threads", 3, 5, options=options), "15 blocks\n")

    def test_protected_data_is_not_reduced(self):
        self.start_server()
        sentence = "to be read by nobody on the way"
        text = sentence * 1000
        for flavor, has_items, is_readable in (("krb5", True, True), ("krb5i", False, True),
                                               ("krb5p", False, False)):
            with self.subTest(flavor):
                _, put, seen = self.captured("put", "block", text, flavor=flavor)
                # A chunk holds either the data item alone or the whole call (RDMA_NOMSG).
                self.assertEqual("RDMA_NOMSG" in put, not has_items, put)
                self.assertEqual(sentence.encode() in seen, is_readable)
                got, get, seen = self.captured("get", "block", flavor=flavor)
                self.assertEqual("write chunks 1" in get, has_items, get)
                self.assertEqual("RDMA_NOMSG" in get, not has_items, get)
                self.assertEqual(sentence.encode() in seen, is_readable)
                self.assertEqual(got, text)

    def test_a_client_without_a_ticket_gets_no_context(self):
        self.start_server()
        self.assertIn("no security context",
                      self.ask("who", options=("-s", "krb5i", "-p", "other@server.test"), status=1))
        # A client with a ticket is still served.
        self.assertIn("alice", self.ask("who", options=self.secure("krb5i")))

    def test_a_restarted_server_gets_a_new_context(self):
        server = self.start_server()
        client = self.start_client("again", 30, 50, options=self.secure("krb5i"))

        def blocks():
            return len(client.stdout.splitlines())

        wait_for("blocks", lambda: client.process.poll() is not None or blocks() > 5)
        self.assertIsNone(client.process.poll(), client.stderr)
        server.interrupt(signal.SIGKILL)
        self.start_server()
        self.assertEqual(client.wait(), 0, client.stderr)
        self.assertEqual(blocks(), 30)


if __name__ == "__main__":
    unittest.main()
