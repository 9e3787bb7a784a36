"""Runs the rpcgen example, examples/rpcgen; block_driver.c is another client of its server."""

import os

from tests.command.harness import SERVER
from tests.command.networks import SharedInterface

BLOCK_SERVER = os.path.abspath("examples/rpcgen/block_server")
BLOCK_CLIENT = os.path.abspath("examples/rpcgen/block_client")
BLOCK_DRIVER = os.path.abspath("tests/command/block_driver")
PORT = "--netdev wire --idle sleep"


class Blocks(SharedInterface):
    """A server and its clients, each on an interface shared with its kernel."""

    environment = {}  # further variables for both sides
    server_arguments = ()

    def start_server(self, port=PORT):
        run = self.start(self.server_host, *self.server_arguments, program=BLOCK_SERVER,
                         environment={**self.environment, "POLLUX_PORT": port})
        run.wait_for_line("^serving blocks")
        return run

    def start_client(self, *arguments, options=(), server=SERVER, port=PORT,
                     program=BLOCK_DRIVER):
        return self.start(self.client_host, *options, server, *arguments, program=program,
                          environment={**self.environment, "POLLUX_PORT": port})

    def ask(self, *arguments, status=0, **keywords):
        """Returns the output of a client (its errors if it fails), which must end with `status`."""
        run = self.start_client(*arguments, **keywords)
        self.assertEqual(run.wait(), status, run.stdout + run.stderr)
        return run.stdout if status == 0 else run.stderr

    def ask_client(self, *arguments, **keywords):
        """Does the same as ask() with the example's own client."""
        return self.ask(*arguments, program=BLOCK_CLIENT, **keywords)

    def put_and_get(self, size, **keywords):
        sent = self.file(f"sent{size}", size)
        got = self.directory / "got"
        self.ask_client("put", f"block{size}", sent, **keywords)
        self.ask_client("get", f"block{size}", got, **keywords)
        self.assertEqual(got.read_bytes(), sent.read_bytes())
