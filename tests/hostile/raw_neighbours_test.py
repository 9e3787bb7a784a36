"""Tests ARP and neighbour discovery against a host that claims the addresses of others."""

import ipaddress
import struct

from tests.hostile import wire
from tests.hostile.peer import Packet
from tests.hostile.victim import OverIpv6, Victim, invented, only

MAX_NEIGHBOURS = 4096  # of the server's table
ALL_NODES = ipaddress.ip_address("ff02::1")


class HostileNeighboursTest(Victim):
    """Tests of unsolicited claims. A host that replies to a broadcast or multicast request is
    believed, as on any Ethernet."""

    def setUp(self):
        super().setUp()
        self.hostile.find_server()
        self.led_away = 0

    def claims(self, tap, frames):
        """Returns a function that sends the frames and counts the packets that are diverted to the
        hostile host."""
        def burst():
            for frame in frames:
                tap.send(frame)
            for _ in range(200):
                frame = tap.receive()
                if frame is None:
                    break
                self.led_away += frame[:6] == self.hostile.mac and Packet.of(frame) is not None

        return burst

    def announcements(self, address):
        """Returns claims of `address` that are addressed to everyone."""
        mac, vlan = self.hostile.mac, self.vlan
        if address.version == 4:
            return [wire.arp(1, mac, address, bytes(6), address, vlan=vlan),
                    wire.arp(2, mac, address, mac, address, vlan=vlan)]
        return [wire.advertisement(mac, address, ALL_NODES, wire.multicast_mac(ALL_NODES), flags,
                                   vlan) for flags in (0, 0x20, 0xA0)]

    def claims_to_one(self, address, listener, listener_mac):
        """Returns claims of `address` that are addressed to one host, as questions and as
        answers."""
        mac, vlan = self.hostile.mac, self.vlan
        if address.version == 4:
            return [wire.arp(1, mac, address, bytes(6), listener, vlan=vlan),
                    wire.arp(1, mac, address, bytes(6), listener, listener_mac, vlan),
                    wire.arp(2, mac, address, listener_mac, listener, listener_mac, vlan)]
        return [wire.solicitation(mac, address, listener, vlan),
                *(wire.advertisement(mac, address, listener, listener_mac, flags, vlan)
                  for flags in (0, 0x20, 0x40, 0x60))]

    def addresses(self):
        return ipaddress.ip_address(self.server_address), ipaddress.ip_address(self.client_address)

    def test_claims_of_the_clients_address_divert_no_traffic(self):
        server, client = self.addresses()
        burst = self.claims(self.to_server, self.announcements(client) + self.claims_to_one(
            client, server, self.hostile.server_mac))
        self.check_calls_during(burst)
        self.assertEqual(self.led_away, 0)

    def test_claims_of_the_servers_address_divert_no_traffic(self):
        """Sends claims before the client has resolved the server's address, and afterwards."""
        server, _ = self.addresses()
        burst = self.claims(self.to_client, self.announcements(server))
        for _ in range(5):
            self.check_service_during(burst)
        self.check_calls_during(burst)
        self.assertEqual(self.led_away, 0)

    def conflicts(self):
        (process,) = self.told("stat", "--pid", self.server.process.pid)
        return process["workers"][0]["ports"][0]["arp_conflicts"]

    def test_address_conflicts_are_counted_and_do_not_flood_the_log(self):
        server, client = self.addresses()
        burst = self.claims(self.to_server, self.announcements(server) + self.claims_to_one(
            server, client, self.hostile.server_mac))
        lines = len(self.server.stderr.splitlines())
        self.check_calls_during(burst)
        for _ in range(100):
            burst()
        self.assertGreaterEqual(self.conflicts(), 1)
        self.assertLess(len(self.server.stderr.splitlines()) - lines, 100)

    def test_service_survives_more_neighbours_than_the_table_holds(self):
        """Resolves the server's address from each invented host, as if to talk to it."""
        server = ipaddress.ip_address(self.server_address)
        hosts = invented(self.hostile_address, 6000)
        if server.version == 6:  # of IPv4 a subnet of this size has too few
            self.assertGreater(len(set(hosts)), MAX_NEIGHBOURS)
        asking = iter(hosts)

        def burst():
            for _, address in zip(range(100), asking):
                mac = b"\2\x77" + address.packed[-4:]
                self.to_server.send(
                    wire.arp(1, mac, address, bytes(6), server, vlan=self.vlan)
                    if address.version == 4 else
                    wire.solicitation(mac, address, server, self.vlan))
            self.to_server.receive()

        self.check_service_during(burst)
        for _ in range(60):
            burst()

    def test_service_survives_malformed_arp_and_neighbour_discovery(self):
        server, client = self.addresses()
        group_mac = b"\3\0\0\0\0\1"
        for source in (server, client, ipaddress.ip_address(self.hostile_address)):
            for mac in (self.hostile.mac, bytes(6), wire.BROADCAST, group_mac):
                if server.version == 4:
                    for operation in (0, 1, 2, 3, 8, 9, 0xFFFF):
                        for target in (server, client, ipaddress.ip_address("0.0.0.0"),
                                       ipaddress.ip_address("255.255.255.255")):
                            self.to_server.send(wire.arp(operation, mac, source, mac, target,
                                                         vlan=self.vlan))
                    for header in ((2, 0x0800, 6, 4), (1, 0x86DD, 6, 16), (1, 0x0800, 255, 255),
                                   (1, 0x0800, 0, 0)):
                        self.to_server.send(self.hostile.path().ethernet(
                            wire.ETHER_ARP, struct.pack("!HHBBH", *header, 1) + bytes(20)))
                else:
                    self.to_server.send(wire.solicitation(mac, source, server, self.vlan))
                    self.to_server.send(wire.advertisement(mac, source, server,
                                                           self.hostile.server_mac, 0xE0,
                                                           self.vlan))
        self.check_service()


@only("claims_of_the_servers_address_divert_no_traffic",
      "service_survives_malformed_arp_and_neighbour_discovery",
      "service_survives_more_neighbours_than_the_table_holds")
class HostileNeighboursOverIpv6Test(OverIpv6, HostileNeighboursTest):
    pass
