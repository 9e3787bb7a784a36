#include "tests/bench/wires.h"

#include <rte_mbuf.h>

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/base/random.h"
#include "stack/engine/polling/clock.h"
#include "tests/bench/namespace_pair.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kAddressA = 0xC0000201;
constexpr uint32_t kAddressB = 0xC0000202;

// The namespaces live on with the sockets of the ports.
absl::StatusOr<engine::Device::Pair> OpenVeth(engine::DeviceOptions a, engine::DeviceOptions b) {
  static int count = 0;
  auto spaces = NamespacePair::Make();
  if (!spaces.ok()) return spaces.status();
  absl::StatusOr<std::unique_ptr<engine::Device>> first, second;
  a.port = absl::StrFormat("net_af_packet%d,iface=%s", count++, NamespacePair::kFirstEnd);
  absl::Status status = (*spaces)->InFirst([&] { first = engine::Device::Open(a); });
  status.Update(first.status());
  if (!status.ok()) return status;
  b.port = absl::StrFormat("net_af_packet%d,iface=%s", count++, NamespacePair::kSecondEnd);
  status = (*spaces)->InSecond([&] { second = engine::Device::Open(b); });
  status.Update(second.status());
  if (!status.ok()) return status;
  return engine::Device::Pair(*std::move(first), *std::move(second));
}

absl::StatusOr<engine::Device::Pair> OpenMemif(engine::DeviceOptions a, engine::DeviceOptions b) {
  static int count = 0;
  // Not named by the process: one with a process namespace of its own shares /tmp with others.
  const std::string socket =
      absl::StrFormat("/tmp/pollux-bench-%x.sock", Random(Random::SystemSeed()).Next64());
  a.port = absl::StrFormat("net_memif%d,role=server,id=0,socket=%s,socket-abstract=no", 2 * count,
                           socket);
  b.port = absl::StrFormat("net_memif%d,role=client,id=0,socket=%s,socket-abstract=no",
                           2 * count + 1, socket);
  ++count;
  auto first = engine::Device::Open(a);
  if (!first.ok()) return first.status();
  auto second = engine::Device::Open(b);
  if (!second.ok()) return second.status();
  return engine::Device::Pair(*std::move(first), *std::move(second));
}

absl::Status FindEachOther(engine::Device& a, engine::Device& b) {
  const engine::Clock clock;
  absl::Status status;
  int found = 0;
  const auto poll = [&] {
    a.worker().Poll(clock.NowNs());
    b.worker().Poll(clock.NowNs());
  };
  poll();
  for (const auto& [from, to] : {std::pair(&a, &b), {&b, &a}}) {
    transport::PollContext context = from->worker().poll_context();
    from->worker().interface().Resolve(to->gid(), context, [&](const absl::Status& answer) {
      status.Update(answer);
      ++found;
    });
  }
  while (found < 2) poll();
  return status;
}

}  // namespace

const char* WireName(Wire wire) {
  switch (wire) {
    case Wire::kRing:
      return "net_ring";
    case Wire::kMemif:
      return "net_memif";
    case Wire::kAfPacket:
      break;
  }
  return "net_af_packet";
}

absl::StatusOr<engine::Device::Pair> OpenWire(Wire wire, const io::ImpairmentOptions& impairment) {
  engine::DeviceOptions a, b;
  a.addresses = {InterfaceAddress::Ipv4(kAddressA)};
  a.impairment = impairment;
  b.addresses = {InterfaceAddress::Ipv4(kAddressB)};
  absl::StatusOr<engine::Device::Pair> opened = wire == Wire::kRing ? engine::Device::OpenPair(a, b)
                                                : wire == Wire::kMemif ? OpenMemif(a, b)
                                                                       : OpenVeth(a, b);
  if (!opened.ok()) return opened.status();
  if (absl::Status status = FindEachOther(*opened->first, *opened->second); !status.ok()) {
    return status;
  }
  return opened;
}

void CloseWire(engine::Device::Pair& pair) {
  pair.second->Close();
  pair.first->Close();
}

WireEnd BareEnd(engine::Device& device) {
  rte_mbuf* frames[32];
  for (int quiet = 0; quiet < 1000; ++quiet) {
    const uint16_t n = device.port().queue().Receive(frames, 32, 0);
    if (n == 0) continue;
    rte_pktmbuf_free_bulk(frames, n);
    quiet = 0;
  }
  return {.link = &device.port().queue(),
          .pool = device.worker().packet_pool(),
          .mac = device.port().mac(),
          .address = device.gid().Ipv4()};
}

}  // namespace pollux::bench
