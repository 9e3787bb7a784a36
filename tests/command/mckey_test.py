"""pollux mckey with another of its kind, over shared memory: what rdma-core's mckey does."""

import json

from tests.command.harness import CLIENT, PATIENCE_S, SERVER, CommandTest, Host

GROUP, GROUP6 = "239.1.2.3", "ff0e::7"


class MckeyTest(CommandTest):
    def port(self, role):
        address, last = (SERVER, 1) if role == "server" else (CLIENT, 2)
        return ("--port", f"net_memif0,role={role},socket={self.directory}/m", "--address",
                f"{address}/24", "--address", f"2001:db8::{last}/64")

    def receive(self, *arguments):
        run = self.start(Host(), "mckey", *self.port("server"), *arguments)
        run.wait_for_line("^listening")
        return run

    def send(self, *arguments):
        return self.finish(Host(), "mckey", "-s", *self.port("client"), *arguments)

    def test_what_is_sent_to_the_group_comes(self):
        for group in (GROUP, GROUP6):
            with self.subTest(group):
                options = ("-m", group, "-C", "20", "-S", "777", "--json", "--timeout-ms",
                           PATIENCE_S * 1000)
                receiver = self.receive(*options)
                sender = self.send(*options)
                self.assertEqual(sender.process.returncode, 0, sender.stderr)
                self.assertEqual(receiver.wait(), 0, receiver.stderr)
                self.assertEqual(json.loads(sender.stdout),
                                 {"ok": True, "messages_sent": 20, "messages_received": 0})
                self.assertEqual(json.loads(receiver.stdout),
                                 {"ok": True, "messages_sent": 0, "messages_received": 20})

    def test_another_group_is_not_heard(self):
        receiver = self.receive("-m", GROUP, "--timeout-ms", "2000")
        sender = self.send("-m", "239.1.2.4")
        self.assertEqual(sender.process.returncode, 0, sender.stderr)
        self.assertEqual(receiver.wait(), 1)
        self.assertIn("nothing came for 2000 ms: 0 of 10 received", receiver.stderr)

    def test_usage(self):
        self.assert_one_line(self.send("-m", SERVER), 2, SERVER, "multicast address")
        self.assert_one_line(self.send(), 2, "which group")
