// For tests: an interface, a link that records what it sends, and frames that it may receive.
#ifndef POLLUX_STACK_IP_INTERFACE_FIXTURE_H_
#define POLLUX_STACK_IP_INTERFACE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "stack/io/eal_for_test.h"
#include "stack/ip/interface.h"
#include "stack/wire/icmp.h"

namespace pollux::ip {

constexpr uint32_t Ip(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}
inline constexpr uint32_t kOurs = Ip(10, 0, 0, 1);
inline constexpr uint32_t kPeer = Ip(10, 0, 0, 2);
inline constexpr MacAddress kOurMac{2, 0, 0, 0, 0, 1};
inline constexpr MacAddress kPeerMac{2, 0, 0, 0, 0, 2};
inline constexpr MacAddress kOtherMac{2, 0, 0, 0, 0, 3};
inline constexpr uint64_t kSecond = 1'000'000'000;

class RecordingLink : public io::Link {
 public:
  uint16_t Receive(rte_mbuf**, uint16_t, uint64_t) override { return 0; }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    for (uint16_t i = 0; i < count; ++i) {
      sent.push_back(io::BytesOf(frames[i]));
      rte_pktmbuf_free(frames[i]);
    }
    return count;
  }
  std::deque<std::vector<uint8_t>> sent;
};

class InterfaceHost : public ::testing::Test {
 protected:
  InterfaceHost()
      : InterfaceHost({.mac = kOurMac,
                       .addresses = {InterfaceAddress::Ipv4(kOurs)},
                       .gateways = {Gid::FromIpv4(Ip(10, 0, 0, 254))},
                       .mtu = 1500}) {}
  explicit InterfaceHost(const InterfaceConfig& config, HostInterface* kernel = nullptr)
      : egress_(&link_, io::PoolForTest(), &counters_), interface_(config, kernel) {}

  transport::PollContext Context() {
    return {.now_ns = now_ns_,
            .egress = egress_,
            .counters = counters_,
            .random = random_,
            .resolver = &interface_};
  }
  void Arrive(const std::vector<uint8_t>& bytes) {
    transport::PollContext context = Context();
    interface_.OnFrame(io::FrameForTest(bytes), context);
    egress_.Flush(now_ns_);
  }
  // Advances time, calling OnDeadline() at every deadline, as a worker does.
  void Pass(uint64_t duration_ns) {
    const uint64_t end = now_ns_ + duration_ns;
    while (interface_.deadline_ns() <= end) {
      now_ns_ = std::max(now_ns_, interface_.deadline_ns());
      transport::PollContext context = Context();
      interface_.OnDeadline(context);
      egress_.Flush(now_ns_);
    }
    now_ns_ = end;
  }
  // Lets the interface finish probing and announcing its addresses.
  void Settle() {
    Pass(kSecond);
    link_.sent.clear();
  }

  static std::vector<uint8_t> Arp(uint16_t operation, uint32_t sender, const MacAddress& sender_mac,
                                  uint32_t target, const MacAddress& to = kOurMac) {
    std::vector<uint8_t> bytes(60);  // with padding to Ethernet's minimum
    wire::EmitEthernet({.destination = to,
                        .source = sender_mac,
                        .vlan_tci = std::nullopt,
                        .ether_type = wire::kEtherTypeArp},
                       bytes.data());
    wire::EmitArp({.operation = operation,
                   .sender_mac = sender_mac,
                   .sender_address = sender,
                   .target_mac = {},
                   .target_address = target},
                  bytes.data() + wire::kEthernetBytes);
    return bytes;
  }
  static std::vector<uint8_t> Echo(size_t data_bytes, uint32_t source = kPeer,
                                   uint32_t destination = kOurs) {
    const size_t icmp_bytes = wire::kIcmpEchoBytes + data_bytes;
    std::vector<uint8_t> bytes(wire::kEthernetBytes + wire::kIpv4Bytes + icmp_bytes, 0x77);
    wire::EmitEthernet({.destination = kOurMac,
                        .source = kPeerMac,
                        .vlan_tci = std::nullopt,
                        .ether_type = wire::kEtherTypeIpv4},
                       bytes.data());
    wire::EmitIpv4({.total_length = static_cast<uint16_t>(wire::kIpv4Bytes + icmp_bytes),
                    .protocol = wire::kIpProtocolIcmp,
                    .source = source,
                    .destination = destination},
                   bytes.data() + wire::kEthernetBytes);
    wire::EmitIcmpEcho({.identifier = 7, .sequence = 9},
                       bytes.data() + wire::kEthernetBytes + wire::kIpv4Bytes, icmp_bytes);
    return bytes;
  }
  wire::ArpPacket TakeArp() {
    if (link_.sent.empty()) {
      ADD_FAILURE() << "nothing was sent";
      return {};
    }
    const std::vector<uint8_t> bytes = link_.sent.front();
    link_.sent.pop_front();
    last_ = *wire::ParseEthernet(bytes.data(), bytes.size());
    EXPECT_EQ(last_.ether_type, wire::kEtherTypeArp);
    return *wire::ParseArp(bytes.data() + wire::kEthernetBytes,
                           bytes.size() - wire::kEthernetBytes);
  }
  absl::StatusOr<verbs::AddressHandle> Handle(uint32_t destination) {
    return Handle(Gid::FromIpv4(destination), {});
  }
  // Makes an address handle to `gid`; the other attributes are those of `attr`.
  absl::StatusOr<verbs::AddressHandle> Handle(const Gid& gid, ibv_ah_attr attr) {
    attr.is_global = 1;
    std::memcpy(attr.grh.dgid.raw, gid.raw.data(), gid.raw.size());
    transport::PollContext context = Context();
    auto handle = interface_.MakeAddressHandle(attr, context);
    egress_.Flush(now_ns_);
    return handle;
  }
  void SendWaiting(const verbs::LinkAddress* link, uint8_t mark) {
    std::vector<uint8_t> bytes(64);
    bytes[20] = mark;
    transport::PollContext context = Context();
    interface_.SendWhenResolved(link, io::FrameForTest(bytes), context);
    egress_.Flush(now_ns_);
  }
  std::optional<absl::Status> Resolve(uint32_t destination) {
    return Resolve(Gid::FromIpv4(destination));
  }
  std::optional<absl::Status> Resolve(const Gid& destination) {
    auto result = std::make_shared<std::optional<absl::Status>>();
    results_.push_back(result);
    transport::PollContext context = Context();
    interface_.Resolve(destination, context, [result](absl::Status status) {
      EXPECT_FALSE(result->has_value()) << "called twice";
      *result = status;
    });
    egress_.Flush(now_ns_);
    return *result;
  }
  NeighbourState StateOf(uint32_t address) {
    return interface_.neighbours().state({Gid::FromIpv4(address)});
  }

  RecordingLink link_;
  transport::Counters counters_;
  transport::Egress egress_;
  Random random_{uint64_t{5}};
  uint64_t now_ns_ = 1000;
  Interface interface_;
  wire::EthernetHeader last_;
  std::vector<std::shared_ptr<std::optional<absl::Status>>> results_;
};

}  // namespace pollux::ip

#endif  // POLLUX_STACK_IP_INTERFACE_FIXTURE_H_
