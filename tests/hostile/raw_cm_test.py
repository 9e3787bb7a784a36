"""Tests connection management against a peer that breaks all of its rules, beside a client that
follows them."""

from tests.command.harness import wait_for
from tests.hostile import wire
from tests.hostile.victim import InVlan, OnTwoCores, OverIpv6, Victim, invented, only

BURST = 50


class HostileCmTest(Victim):
    # REQs of a flood: more than the number of half-open connections that the server allows.
    flood_size = 3000

    def flood(self, sources):
        """Returns a function that sends the next burst of a flood of REQs, each for another queue
        pair, and sends nothing after the last one."""
        number = iter(range(self.flood_size))

        def burst():
            for _, index in zip(range(BURST), number):
                path = self.hostile.path(sources[index % len(sources)])
                self.to_server.send(path.datagram(
                    0x10, index, wire.request(path, self.service_port, 1 + index, 0x100 + index)))
            # Discards an answer of the server.
            self.to_server.receive()

        return burst

    def run_flood(self, sources):
        burst = self.flood(sources)
        self.check_service_during(burst)
        for _ in range(self.flood_size // BURST):
            burst()
        self.assertGreaterEqual(self.to_server.sent, self.flood_size)
        self.check_service()

    def test_service_survives_requests_without_rtu(self):
        self.run_flood([self.hostile.address])

    def test_service_survives_requests_without_rtu_from_spoofed_addresses(self):
        self.run_flood(invented(self.hostile_address, 180))

    def test_a_replayed_request_makes_no_second_connection(self):
        path = self.hostile.path()
        body = wire.request(path, self.service_port, 77, 0x1077)
        frame = path.datagram(0x10, 5, body)
        # After the first REP all REPs must be of the same connection, with the same numbers.
        numbers = set()

        def replay():
            self.to_server.send(frame)
            while (packet := self.hostile.receive(lambda one: one.mad() is not None, 0.1)):
                name, _, fields = packet.mad()
                if name == "REP":
                    numbers.add((fields["local_comm_id"], fields["local_qpn"]))
            return numbers

        wait_for("REP", replay)
        for _ in range(20):
            replay()
        self.assertEqual(len(numbers), 1)
        self.check_service_during(lambda: self.to_server.send(frame))

    def test_a_replayed_request_ends_no_connection(self):
        connection = self.hostile.connect(self.service_port)
        path = self.hostile.path()
        body = wire.request(path, self.service_port, connection.comm_id, connection.qpn)
        for _ in range(50):
            self.to_server.send(path.datagram(0x10, 6, body))
        self.check_connection(connection)
        connection.disconnect()

    def guesses(self):
        """Returns a function that sends messages about guessed connections, from the client's
        address and from the hostile host's own."""
        client = wire.ipaddress.ip_address(self.client_address)

        def burst():
            for _ in range(BURST):
                path = self.hostile.path(self.hostile.random.choice([self.hostile.address, client]))
                guess = self.hostile.random.getrandbits
                ids = {"local_comm_id": guess(32), "remote_comm_id": guess(32)}
                name, more = self.hostile.random.choice([
                    ("DREQ", {"remote_qpn": guess(24)}), ("DREP", {}), ("RTU", {}),
                    ("REJ", {"reason": guess(5), "message": guess(2)}),
                    ("MRA", {"message": guess(2), "service_timeout": 31}),
                    ("REP", {"local_qpn": guess(24), "starting_psn": guess(24)}),
                    ("LAP", {"remote_qpn": guess(24)}),
                ])
                self.hostile.say(name, path, **ids, **more)
            self.to_server.receive()

        return burst

    def test_guessed_connection_ids_end_no_connection(self):
        self.check_calls_during(self.guesses())

    def test_a_dreq_from_another_address_ends_no_connection(self):
        """Sends DREQs with the numbers of a live connection from addresses that are not its
        peer's."""
        connection = self.hostile.connect(self.service_port)
        for source in invented(self.hostile_address, 5):
            for qpn in (connection.remote_qpn, connection.remote_qpn ^ 1):
                self.hostile.say("DREQ", self.hostile.path(source),
                                 local_comm_id=connection.comm_id,
                                 remote_comm_id=connection.remote_comm_id, remote_qpn=qpn)
        self.check_connection(connection)
        connection.disconnect()

    def test_service_survives_malformed_requests(self):
        """Sends REQs with the least, the greatest and a random value in each field, and REQs with
        random bytes."""
        path = self.hostile.path()
        number = 0
        for field, bits in wire.LAYOUTS["REQ"][1]:
            for value in (0, (1 << bits) - 1, self.hostile.random.getrandbits(bits)):
                if not field:
                    continue
                number += 1
                changed = {"local_comm_id": 5000 + number, "local_qpn": 0x5000 + number,
                           field: value}
                comm_id, qpn = changed.pop("local_comm_id"), changed.pop("local_qpn")
                body = wire.request(path, self.service_port, comm_id, qpn, **changed)
                self.to_server.send(path.datagram(0x10, number, body))
        for _ in range(300):
            body = bytearray(wire.request(path, self.service_port, 9000 + number, 0x9000 + number))
            number += 1
            for _ in range(self.hostile.random.randrange(1, 12)):
                body[self.hostile.random.randrange(len(body))] = self.hostile.random.getrandbits(8)
            self.to_server.send(path.datagram(0x10, number, bytes(body)))

    def test_service_survives_truncated_datagrams_and_other_classes(self):
        path = self.hostile.path()
        body = wire.request(path, self.service_port, 1, 0x4444)
        for length in [*range(0, 256, 7), 252, 257, 260, 1024]:
            self.to_server.send(path.datagram(0x10, length, body, mad_bytes=length))
        self.to_server.send(path.datagram(0x10, 1, body, qkey=0x80010001))
        whole = path.datagram(0x10, 1, body)
        at = whole.index(b"\x01\x07\x02\x03")
        for offset in range(24):
            for value in (0, 0x7F, 0xFF):
                transport = bytearray(whole[at - 20:-4])
                transport[20 + offset] = value
                self.to_server.send(path.roce(bytes(transport)))
        for attribute in range(0x30):
            self.to_server.send(path.datagram(attribute, attribute,
                                              self.hostile.random.randbytes(232)))

    def test_service_survives_abandoned_connections(self):
        for _ in range(15):
            self.hostile.connect(self.service_port)

    def test_service_survives_short_lived_connections(self):
        for _ in range(30):
            self.hostile.connect(self.service_port).disconnect()


@only("service_survives_requests_without_rtu_from_spoofed_addresses",
      "guessed_connection_ids_end_no_connection", "service_survives_malformed_requests")
class HostileCmOverIpv6Test(OverIpv6, HostileCmTest):
    pass


@only("service_survives_short_lived_connections", "a_replayed_request_makes_no_second_connection")
class HostileCmInVlanTest(InVlan, HostileCmTest):
    pass


@only("service_survives_requests_without_rtu_from_spoofed_addresses",
      "service_survives_short_lived_connections")
class HostileCmOnTwoCoresTest(OnTwoCores, HostileCmTest):
    # Each core has a server with its own half-open connections.
    MAX_GROWTH_MIB = 2 * Victim.MAX_GROWTH_MIB
