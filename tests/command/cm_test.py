"""pollux cm with another of its kind, over shared memory: what ucmatose and udaddy do."""

import json

from tests.command.harness import CLIENT, SERVER, CommandTest, Host


class CmTest(CommandTest):
    def port(self, role):
        return ("--port", f"net_memif0,role={role},socket={self.directory}/m", "--address",
                f"{SERVER if role == 'server' else CLIENT}/24")

    def serve(self, *arguments):
        run = self.start(Host(), "cm", *self.port("server"), *arguments)
        run.wait_for_line("^listening ")
        return run

    def client(self, *arguments):
        return self.finish(Host(), "cm", "-s", SERVER, *self.port("client"), *arguments)

    def both(self, *arguments):
        """The JSON objects of a server and a client that must succeed."""
        server = self.serve("--json", *arguments)
        client = self.client("--json", *arguments)
        self.assertEqual(client.process.returncode, 0, client.stderr)
        self.assertEqual(server.wait(), 0, server.stderr)
        return json.loads(server.stdout), json.loads(client.stdout)

    def test_connections_as_ucmatose_makes_them(self):
        for space, connections, count, size in (("tcp", 1, 10, 100), ("ib", 7, 33, 5000),
                                                ("tcp", 2, 0, 100)):
            with self.subTest(space=space, connections=connections):
                server, client = self.both("-P", space, "-c", str(connections), "-C", str(count),
                                           "-S", str(size))
                for answer in (server, client):
                    self.assertIs(answer["ok"], True)
                    self.assertEqual(answer["connected"], connections)
                    self.assertEqual(answer["disconnected"], connections)
                    self.assertEqual(answer["messages_received"], connections * count)
                # The server ends what the client began.
                self.assertGreaterEqual(client["cm"]["cm_tx_msgs/req"], connections)
                self.assertGreaterEqual(server["cm"]["cm_tx_msgs/dreq"], connections)
                self.assertGreaterEqual(client["cm"]["cm_tx_msgs/drep"], connections)

    def test_lost_goodbyes_are_no_failure(self):
        # Whose DREP is lost asks again, and the client is gone by then.
        server = self.serve("--json", "-c", "20", "-C", "5")
        client = self.client("--json", "-c", "20", "-C", "5", "--impair", "loss=0.2")
        self.assertEqual(client.process.returncode, 0, client.stderr)
        self.assertEqual(server.wait(), 0, server.stderr)
        self.assertEqual(json.loads(server.stdout)["messages_received"], 100)

    def test_datagrams_as_udaddy_sends_them(self):
        server, client = self.both("--ps", "udp", "-c", "3", "-C", "12", "-S", "700")
        for answer in (server, client):
            self.assertEqual(answer["connected"], 3)
            self.assertEqual(answer["messages_sent"], 36)
            self.assertEqual(answer["messages_received"], 36)
        self.assertGreaterEqual(client["cm"]["cm_tx_msgs/sidr_req"], 3)
        self.assertGreaterEqual(server["cm"]["cm_tx_msgs/sidr_rep"], 3)
        self.assertNotIn("cm_tx_msgs/req", client["cm"])

    def test_what_is_printed(self):
        server = self.serve("-t", "0x20")
        client = self.client("-t", "0x20")
        self.assertEqual(server.wait(), 0, server.stderr)
        self.assertEqual(server.stdout.splitlines(), [
            "cm: initiating data transfers", "cm: data transfers complete", "cm: disconnecting",
            "cm: disconnected", "test complete: 1 of 1 connections, 10 messages sent, 10 received"])
        self.assertEqual(client.stdout.splitlines()[:4], [
            "cm: connecting", "cm: receiving data transfers", "cm: sending replies",
            "cm: data transfers complete"])

    def test_nobody_listens(self):
        server = self.serve("-p", "12345")
        for space, *words in (("tcp", "invalid service ID", "REJ reason 8"),
                              ("udp", "service ID not supported", "SIDR_REP status 1")):
            with self.subTest(space):
                run = self.client("-P", space, "--json")
                self.assert_one_line(run, 1, *words)
                self.assertIs(json.loads(run.stdout)["ok"], False)
        self.assertEqual(server.interrupt(), 1)

    def test_usage(self):
        self.assert_one_line(self.client("--ps", "sctp"), 2, "sctp", "tcp, ib or udp")
        self.assert_one_line(self.client("-t", "256"), 2, "256")
        server = self.finish(Host(), "cm", *self.port("server"), "-P", "udp", "-S", "100000")
        self.assert_one_line(server, 2, "100000", "datagrams")
