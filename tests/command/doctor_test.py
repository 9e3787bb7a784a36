"""Tests pollux doctor on a real host, with an interface that is ready and one that is not."""

import json
import sys

from tests.command.harness import POLLUX, CommandTest, Host
from tests.command.networks import SharedInterface


HOLDS_ROCE_PORT = """
import socket, sys, time
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
made.bind(("", 4791))
print("bound", file=sys.stderr, flush=True)
time.sleep(3600)
"""


class DoctorTest(SharedInterface):
    def findings(self, status, *arguments, run=None):
        """Returns the findings by name of a run with --json, which must end with `status`."""
        run = run or self.finish(self.client_host, "doctor", "--json", *arguments)
        self.assertEqual(run.process.returncode, status, run.stdout + run.stderr)
        answer = json.loads(run.stdout)
        self.assertIs(answer["ok"], status == 0)
        return {one["name"]: one for one in answer["findings"]}

    def lacking(self, findings):
        return [name for name, one in findings.items() if one["state"] == "lacking"]

    def test_nothing_is_missing_on_a_prepared_host(self):
        found = self.findings(0, "--netdev", "wire")
        self.assertEqual(self.lacking(found), [])
        self.assertEqual(found["MTU"]["found"], "4400: path MTU 4096")
        self.assertEqual(found["link"]["found"], "up, with carrier")
        self.assertEqual(found["UDP port 4791"]["found"], "free")
        self.assertTrue(found["DPDK"]["found"].startswith("DPDK "))
        text = self.finish(self.client_host, "doctor", "--netdev", "wire")
        self.assertEqual((text.process.returncode, text.stderr), (0, ""))
        title, *lines = text.stdout.splitlines()
        self.assertEqual(title.split(), ["state", "what", "found", "wanted", "command"])
        self.assertEqual(len(lines), len(found))

    def test_labels_and_alternative_names_are_understood(self):
        self.assertTrue(self.client_host.shell(
            "ip addr flush dev wire; ip addr add 10.0.0.2/24 label wire:1 dev wire; "
            "ip link property add dev wire altname other"))
        for name in ("wire", "other"):
            self.assertEqual(self.findings(0, "--netdev", name)["address"]["found"],
                             "1 in the kernel")

    def test_each_missing_finding_has_a_command(self):
        self.assertTrue(self.client_host.shell("ip link set wire mtu 300; ip addr flush dev wire"))
        run = self.finish(self.client_host, "doctor", "--netdev", "wire")
        self.assert_one_line(run, 1, "wire: not ready: MTU, address")
        self.assertIn("ip link set wire mtu 4192", run.stdout)
        self.assertIn("ip address add ADDR/LEN dev wire", run.stdout)
        self.assertTrue(self.client_host.shell("ip link set wire down"))
        found = self.findings(1, "--netdev", "wire")
        self.assertEqual(found["link"]["command"], "ip link set wire up")
        for name in ("nosuch", "lo"):
            self.assertEqual(self.lacking(self.findings(1, "--netdev", name)), ["interface"])

    def test_a_process_that_holds_the_port_is_named(self):
        """Checks that the finding has the process's name and id, and the command that ends it."""
        other = self.start(self.server_host, "-c", HOLDS_ROCE_PORT, program=sys.executable)
        pid = other.process.pid
        other.wait_for_line("bound")
        run = self.finish(self.server_host, "doctor", "--json", "--netdev", "wire")
        port = self.findings(1, run=run)["UDP port 4791"]
        self.assertRegex(port["found"], rf"taken by python3\S* \(process {pid}\)")
        self.assertEqual(port["command"], f"kill {pid}")
        other.close()
        server = self.serve()  # programs of Pollux share it
        run = self.finish(self.server_host, "doctor", "--json", "--netdev", "wire")
        used = f"used by pollux (process {server.process.pid})"
        self.assertEqual(self.findings(0, run=run)["UDP port 4791"]["found"],
                         f"free for Pollux; {used}")
        run = self.finish(self.server_host, "doctor", "--json")
        self.assertEqual(self.findings(0, run=run)["UDP port 4791"]["found"],
                         f"shared by programs of Pollux; {used}")
        self.stop(server)

    def test_a_loopback_interface_that_is_down_is_reported(self):
        self.assertTrue(self.client_host.shell("ip link set lo down"))
        found = self.findings(0, "--netdev", "wire")["loopback interface"]
        self.assertEqual((found["state"], found["command"]), ("advice", "ip link set lo up"))

    def test_missing_capabilities_are_reported(self):
        """Checks that Pollux fails without the reported capabilities, and works with them."""
        def run_with(kept, *arguments):
            drop = f"-all{''.join(f',+{name}' for name in kept)}"
            return self.finish(self.client_host, "--bounding-set", drop, "--inh-caps", drop, "--",
                               POLLUX, *arguments, program="setpriv")

        none = self.findings(1, run=run_with((), "doctor", "--json", "--netdev", "wire"))
        self.assertEqual(self.lacking(none), ["CAP_NET_RAW", "CAP_NET_ADMIN"])
        self.assertIn("--cap-add=NET_RAW", none["CAP_NET_RAW"]["command"])
        one = self.findings(1, run=run_with(("net_raw",), "doctor", "--json", "--netdev", "wire"))
        self.assertEqual(self.lacking(one), ["CAP_NET_ADMIN"])
        self.findings(0, run=run_with(("net_raw", "net_admin"), "doctor", "--json", "--netdev",
                                      "wire"))
        self.findings(0, run=run_with((), "doctor", "--json", "--port", "net_memif0"))
        tap = self.findings(1, run=run_with((), "doctor", "--json", "--port", "net_tap0"))
        self.assertIn("CAP_NET_ADMIN", self.lacking(tap))
        server = self.serve()
        refused = run_with((), "ping", "--netdev", "wire", "10.0.0.1")
        self.assertEqual(refused.process.returncode, 1)
        works = run_with(("net_raw", "net_admin"), "ping", "--netdev", "wire", "10.0.0.1")
        self.assertEqual(works.process.returncode, 0, works.stderr)
        self.stop(server)

    def test_a_pci_address_without_a_device_is_reported(self):
        found = self.findings(1, "--port", "ffff:1f:1f.7")
        self.assertIn("PCI device", self.lacking(found))


class DoctorUsageTest(CommandTest):
    def test_without_a_port_every_finding_is_advice(self):
        run = self.finish(Host(), "doctor", "--json")
        self.assertEqual(run.process.returncode, 0, run.stderr)
        for one in json.loads(run.stdout)["findings"]:
            self.assertIn(one["state"], ("ok", "advice"))
            self.assertEqual(one["command"] == "", one["state"] == "ok", one)

    def test_wrong_options_are_refused(self):
        for arguments, words in (
                (("--netdev", "a", "--port", "net_tap0"), ("either --netdev or --port",)),
                (("--port", "net_frob0"), ("net_frob0", "PCI address")),
                (("--port", "net_af_packet0"), ("iface=IFACE",)),
                (("--memory", "1"), ("--memory", "64")),
                (("eth0",), ("eth0", "usage: pollux doctor"))):
            self.assert_one_line(self.finish(Host(), "doctor", *arguments), 2, *words)
