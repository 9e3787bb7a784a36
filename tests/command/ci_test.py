"""Runs the commands of docs/ci.md as containers do: as another user, with their capabilities."""

import json
import pathlib
import re

from tests.command.harness import CLIENT, SERVER, Host, wait_for
from tests.command.install_test import InstalledTest
from tests.command.networks import TwoHosts

PAGE = pathlib.Path("docs/ci.md")
COMMAND = re.compile(r'\["pollux".*\]|pollux run .*?(?= &$|;|$)', re.MULTILINE)


def read_section(title):
    """Returns the commands in the YAML blocks of a section, and the capabilities named there."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"^## {title}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)[1]
    blocks = "\n".join(re.findall(r"^```yaml\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
    commands = [json.loads(found) if found.startswith("[") else found.split()
                for found in COMMAND.findall(blocks)]
    return commands, sorted(set(re.findall(r"NET_\w+", blocks)))


class CiTest(InstalledTest, TwoHosts):
    def make_wire(self, server, client):
        super().make_wire(server, client)
        for host, address in ((server, SERVER), (client, CLIENT)):
            self.assertTrue(host.shell("ip link set wire down; ip link set wire mtu 1500 name eth0;"
                                       f"ip addr add {address}/24 dev eth0; ip link set eth0 up"))

    def setUp(self):
        self.skip_with_sanitizers()
        super().setUp()
        self.install()

    def start_in_container(self, host, capabilities, command):
        program, *arguments = (re.sub("socket=/.*", f"socket={self.directory}/m", argument)
                               for argument in command)
        self.assertEqual(program, "pollux")
        return self.start_by_other(host, capabilities, *(
            SERVER if argument == "server" else argument for argument in arguments))

    def check(self, hosts, capabilities, server, client):
        """Starts the server, and the client again until it succeeds, as the page does."""
        server = self.start_in_container(hosts[0], capabilities, server)

        def connects():
            self.assertIsNone(server.process.poll(), server.stderr)
            run = self.start_in_container(hosts[1], capabilities, client)
            return run.wait() == 0

        wait_for("a client that succeeds", connects)

    def test_containers_on_github(self):
        commands, capabilities = read_section("GitHub Actions")
        self.assertEqual(capabilities, ["NET_ADMIN", "NET_RAW"])
        self.check((self.server_host, self.client_host), capabilities, *commands)

    def test_one_container_on_gitlab(self):
        commands, capabilities = read_section("GitLab CI")
        self.assertEqual(capabilities, [])
        self.directory.chmod(0o777)
        self.check((Host(), Host()), (), *commands)

    def test_sidecar_and_pods_in_kubernetes(self):
        commands, capabilities = read_section("Kubernetes and Kind")
        self.assertEqual(capabilities, ["NET_ADMIN", "NET_RAW"])
        self.directory.chmod(0o777)
        self.check((Host(), Host()), (), *commands[:2])
        self.check((self.server_host, self.client_host), capabilities, *commands[2:])

    def test_neither_capability_suffices_alone(self):
        for capability in ("NET_ADMIN", "NET_RAW"):
            run = self.start_by_other(self.server_host, (capability,), "run", "--netdev", "eth0",
                                      "--", "ibv_devinfo")
            self.assertNotEqual(run.wait(), 0)
            self.assertIn("CAP_NET_RAW and CAP_NET_ADMIN", run.stderr)
