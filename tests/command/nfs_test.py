"""Tests the subcommands of pollux nfs, and its errors: usage, names, missing servers."""

import json
import socket
import struct
import threading

from tests.command.harness import CommandTest, Host

SUBCOMMANDS = ("ls", "get", "put", "stat", "rm")
PLACE = ("--port", "net_null0", "--address", "10.0.0.2/24")
URL = "nfs://10.0.0.1/srv/file"
# Longer than a DNS label may be, so that the resolver sends no query for it.
NOBODY = "x" * 64


def serve_exports(listener, name):
    """Answers one EXPORT call, and lists one directory."""
    with listener.accept()[0] as connection:
        call = connection.recv(65536)
        padded = name + bytes(-len(name) % 4)
        exports = struct.pack(">II", 1, len(name)) + padded + bytes(8)  # no groups, no more
        reply = call[4:8] + struct.pack(">IIIII", 1, 0, 0, 0, 0) + exports
        connection.sendall(struct.pack(">I", 1 << 31 | len(reply)) + reply)
        connection.recv(1)


class NfsTest(CommandTest):

    def fails(self, status, arguments, *words):
        with self.subTest(" ".join(arguments)):
            run = self.finish(Host(), "nfs", *arguments)
            self.assert_one_line(run, status, *words)
            self.assertEqual(run.stdout, "")

    def test_each_subcommand_has_help(self):
        run = self.finish(Host(), "nfs", "--help")
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))
        for subcommand in SUBCOMMANDS:
            self.assertIn(f"\n  {subcommand} ", run.stdout)
            of_it = self.finish(Host(), "nfs", subcommand, "--help")
            self.assertEqual((of_it.process.returncode, of_it.stderr), (0, ""))
            self.assertTrue(of_it.stdout.startswith(f"usage: pollux nfs {subcommand} "))
            for option in ("--mount", "--uid", "--gid", "--json", "--impair", "--capture"):
                self.assertIn(option, of_it.stdout)

    def test_a_missing_or_unknown_subcommand_shows_the_usage(self):
        for arguments in ((), ("frob",)):
            run = self.finish(Host(), "nfs", *arguments)
            self.assertEqual((run.process.returncode, run.stdout), (2, ""))
            self.assertIn("usage: pollux nfs COMMAND", run.stderr)

    def test_invalid_operands_are_usage_errors(self):
        self.fails(2, ["ls", *PLACE], "usage: pollux nfs ls")
        self.fails(2, ["ls", *PLACE, "10.0.0.1:/srv"], "nfs://HOST")
        self.fails(2, ["ls", *PLACE, "nfs://10.0.0/srv"], "'10.0.0'", "nfs://HOST")
        self.fails(2, ["ls", *PLACE, "nfs://10.0.0.1"], "no path")
        self.fails(2, ["stat", *PLACE, "nfs://10.0.0.1/srv/../etc"], "'..'")
        self.fails(2, ["stat", *PLACE, "nfs://10.0.0.1/srv/100%"], "%25")
        self.fails(2, ["rm", *PLACE, "--uid", "root", URL], "root", "ID")
        self.fails(2, ["rm", *PLACE, "--mount", "10.0.0.1:99999", URL], "99999", "port")
        self.fails(2, ["get", "--port", "net_null0", URL], "--address ADDR/LEN")

    def test_an_unknown_host_name_is_an_error(self):
        self.fails(1, ["ls", *PLACE, f"nfs://{NOBODY}/srv"], f"host '{NOBODY}'")

    def test_a_missing_local_file_is_an_error(self):
        self.fails(1, ["put", *PLACE, "/nosuch/file", URL], "/nosuch/file", "No such file")

    def test_a_missing_mount_service_is_an_error(self):
        # No program listens on port 1 of this host.
        arguments = ["stat", *PLACE, "--mount", "127.0.0.1:1"]
        self.fails(1, [*arguments, URL], "MOUNT service at 127.0.0.1, TCP port 1",
                   "Connection refused")
        run = self.finish(Host(), "nfs", *arguments, "--json", URL)
        answer = json.loads(run.stdout)
        self.assertEqual(run.process.returncode, 1)
        self.assertFalse(answer["ok"])
        self.assertIn("Connection refused", answer["error"])

    def test_control_characters_of_a_server_do_not_reach_the_terminal(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = threading.Thread(target=serve_exports, args=(listener, b"/\x1b[2J\n/srv"))
            server.start()
            self.fails(1, ["ls", *PLACE, "--mount", f"127.0.0.1:{listener.getsockname()[1]}", URL],
                       "only: /\\u001b[2J\\n/srv")
            # Ends accept() if the command has not connected.
            listener.shutdown(socket.SHUT_RDWR)
            server.join()
