"""Tests rping written with the native API over shared memory: ports, loss, and how ends exit."""

import json

from tests.command.harness import CLIENT, RPING, SERVER, CommandTest, Host

FIRST_LETTER, LAST_LETTER = ord("A"), ord("z")


def expected_text(ping, size):
    """Returns the text of the original rping: its number, then letters, shifted by one per ping."""
    text = f"rdma-ping-{ping}: "
    span = LAST_LETTER - FIRST_LETTER + 1
    text += "".join(chr(FIRST_LETTER + (ping + i) % span) for i in range(size))
    return text[:size - 1]


class RpingTest(CommandTest):
    def port(self, role):
        return ("--port", f"net_memif0,role={role},socket={self.directory}/m", "--address",
                f"{SERVER if role == 'server' else CLIENT}/24")

    def serve(self, *arguments):
        run = self.start(Host(), "-s", *self.port("server"), *arguments, program=RPING)
        run.wait_for_line("^listening ")
        return run

    def client(self, *arguments):
        return self.finish(Host(), "-c", "-a", SERVER, *self.port("client"), *arguments,
                           program=RPING)

    def test_pings_of_every_size_print_their_text(self):
        for size, count in ((16, 3), (64, 60), (4096, 3), (65535, 2), (65536, 2)):
            with self.subTest(size):
                server = self.serve("-v")
                client = self.client("-v", "-C", str(count), "-S", str(size))
                self.assertEqual(client.process.returncode, 0, client.stderr)
                self.assertEqual(server.wait(), 0, server.stderr)
                texts = [expected_text(ping, size) for ping in range(count)]
                self.assertEqual(client.stdout.splitlines(),
                                 [f"ping data: {text}" for text in texts])
                self.assertEqual(server.stdout.splitlines(),
                                 [f"server ping data: {text}" for text in texts])

    def test_pings_survive_a_lossy_wire(self):
        server = self.serve("--json", "--impair", "loss=0.02,dup=0.02,reorder=0.02,corrupt=0.02")
        client = self.client("--json", "-C", "50", "-S", "65536")
        self.assertEqual(client.process.returncode, 0, client.stderr)
        self.assertEqual(server.wait(), 0, server.stderr)
        answers = [json.loads(run.stdout) for run in (client, server)]
        for answer in answers:
            self.assertEqual((answer["ok"], answer["pings"]), (True, 50))
        # Each way has some 1,600 data packets, and the server issues the READs and WRITEs.
        self.assertGreater(answers[1]["retransmitted_packets"], 0)
        for way in ("sent", "received"):
            for kind, count in answers[1]["impaired"][way].items():
                self.assertGreater(count, 0, kind)

    def test_congestion_control_marks_packets_as_ect(self):
        capture = f"{self.directory}/dcqcn.pcapng"
        server = self.serve("--json", "--dcqcn-parameters", "rpg_ai_rate=50,rpg_min_rate=100")
        client = self.client("--json", "-C", "5", "-S", "4096", "--dcqcn", "--capture", capture)
        self.assertEqual(client.process.returncode, 0, client.stderr)
        self.assertEqual(server.wait(), 0, server.stderr)
        for run in (client, server):
            answer = json.loads(run.stdout)
            self.assertEqual((answer["rp_cnp_handled"], answer["np_cnp_sent"]), (0, 0))
        with open(capture, "rb") as file:
            # EtherType, then version and header length, then type of service with ECT(0).
            self.assertIn(b"\x08\x00\x45\x02", file.read())

    def test_a_failed_write_of_the_result_is_an_error(self):
        for options in (("-v",), ("--json",)):
            server = self.serve()
            client = self.finish(
                Host(), "-c", 'exec "$@" >/dev/full', "sh", RPING, "-c", "-a", SERVER,
                *self.port("client"), "-C", "1", *options, program="sh")
            self.assert_one_line(client, 1, "writing the result", "No space")
            self.assertEqual(server.wait(), 0, server.stderr)

    def test_another_service_port_is_used(self):
        server = self.serve("-p", "12345")
        self.assert_one_line(self.client("-C", "1"), 1, "REJ reason 8", "nothing listens")
        self.assertEqual(self.client("-C", "1", "-p", "12345").process.returncode, 0)
        self.assertEqual(server.wait(), 0, server.stderr)

    def test_the_server_binds_to_an_address(self):
        for address, words in (("203.0.113.9", "not at an address of this device"),
                               ("nobody", "nobody")):
            run = self.finish(Host(), "-s", "-a", address, *self.port("server"), program=RPING)
            self.assert_one_line(run, run.process.returncode, words)
            self.assertNotEqual(run.process.returncode, 0)
        for address in (SERVER, "0.0.0.0"):
            server = self.serve("-a", address)
            self.assertEqual(self.client("-C", "1").process.returncode, 0)
            self.assertEqual(server.wait(), 0, server.stderr)

    def test_interrupted_client_disconnects(self):
        server = self.serve()
        client = self.start(Host(), "-c", "-a", SERVER, "-d", *self.port("client"),
                            program=RPING)
        client.wait_for_line("^ping 100: ")
        self.assertEqual(client.interrupt(), 1)
        self.assertIn("interrupted", client.stderr.splitlines()[-1])
        # The DREQ may arrive in the midst of a ping, which is an error, or between two pings.
        self.assertIn(server.wait(), (0, 1))
        if server.process.returncode == 1:
            self.assertIn("disconnected in the midst of ping", server.stderr.splitlines()[-1])

    def test_killed_client_is_noticed(self):
        server = self.serve()
        client = self.start(Host(), "-c", "-a", SERVER, "-d", *self.port("client"),
                            program=RPING)
        client.wait_for_line("^ping 100: ")
        client.process.kill()
        self.assertEqual(server.wait(), 1)
        self.assertIn("retry counter exceeded", server.stderr.splitlines()[-1])
