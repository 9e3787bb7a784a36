#include "tests/bench/device_load.h"

#include <rte_mbuf.h>
#include <rte_pause.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "stack/base/byte_order.h"
#include "stack/engine/polling/clock.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "tests/bench/core_pair.h"
#include "tests/bench/least_rpc.h"

namespace pollux::bench {
namespace {

constexpr uint16_t kBurst = 32;
constexpr uint32_t kHeaderBytes = 14 + 20 + 8 + 12;
constexpr uint32_t kIcrcBytes = 4;
constexpr uint32_t kMaxPayload = 4096;

// What the sides exchange, where that is nothing but bytes.
struct Bytes {
  void Write(uint8_t*) {}
  void TakeBack(uint32_t) {}
  void Read(const uint8_t*) {}
};

// One side's application buffers and header template. `Messages` writes what is sent to the
// application's buffer and reads what arrived there.
template <class Messages>
class Side {
 public:
  Side(WireEnd end, WireEnd peer, Work work, uint32_t sends, uint32_t receives)
      : end_(end),
        work_(work),
        sends_(sends),
        receives_(receives),
        out_(kMaxPayload, 1),
        in_(kMaxPayload) {
    const uint16_t ip_bytes = static_cast<uint16_t>(20 + 8 + 12 + sends + kIcrcBytes);
    std::copy(peer.mac.begin(), peer.mac.end(), template_);
    std::copy(end.mac.begin(), end.mac.end(), template_ + 6);
    template_[12] = 0x08;
    template_[14] = 0x45;
    StoreBe16(template_ + 16, ip_bytes);
    template_[22] = 64;
    template_[23] = 17;
    StoreBe32(template_ + 26, end.address);
    StoreBe32(template_ + 30, peer.address);
    wire::UpdateIpv4Checksum(template_ + wire::kEthernetBytes);
    StoreBe16(template_ + 36, wire::kRocePort);
    StoreBe16(template_ + 38, ip_bytes - 20);
    template_[42] = 0x04;
  }

  // Builds up to `count` frames and sends what fits; returns how many went.
  uint16_t Send(uint16_t count) {
    rte_mbuf* frames[kBurst];
    if (rte_pktmbuf_alloc_bulk(end_.pool, frames, count) != 0) return 0;
    for (uint16_t i = 0; i < count; ++i) Build(frames[i]);
    const uint16_t sent = end_.link->Send(frames, count, 0);
    if (sent < count) {
      psn_ -= count - sent;
      messages_.TakeBack(count - sent);
      rte_pktmbuf_free_bulk(frames + sent, count - sent);
    }
    return sent;
  }
  uint16_t Receive() {
    rte_mbuf* frames[kBurst];
    const uint16_t count = end_.link->Receive(frames, kBurst, 0);
    if (work_ == Work::kPacket) {
      for (uint16_t i = 0; i < count; ++i) Take(frames[i]);
    }
    if (count > 0) rte_pktmbuf_free_bulk(frames, count);
    return count;
  }

 private:
  void Build(rte_mbuf* frame) {
    auto* p = reinterpret_cast<uint8_t*>(
        rte_pktmbuf_append(frame, static_cast<uint16_t>(kHeaderBytes + sends_ + kIcrcBytes)));
    std::memcpy(p, template_, kHeaderBytes);
    if (work_ == Work::kRaw) return;
    StoreBe32(p + 50, psn_++ & 0xFFFFFF);
    messages_.Write(out_.data());
    std::memcpy(p + kHeaderBytes, out_.data(), sends_);
    wire::EmitIcrc(Icrc(p, sends_), p + kHeaderBytes + sends_);
  }
  void Take(rte_mbuf* frame) {
    const uint8_t* p = rte_pktmbuf_mtod(frame, const uint8_t*);
    uint8_t expected[kIcrcBytes];
    wire::EmitIcrc(Icrc(p, receives_), expected);
    if (std::memcmp(expected, p + kHeaderBytes + receives_, kIcrcBytes) != 0) {
      std::fprintf(stderr, "bench: a frame arrived damaged\n");
      std::abort();
    }
    std::memcpy(in_.data(), p + kHeaderBytes, receives_);
    messages_.Read(in_.data());
  }
  static uint32_t Icrc(const uint8_t* frame, uint32_t payload) {
    return wire::Icrc(frame + wire::kEthernetBytes, 4,
                      kHeaderBytes - wire::kEthernetBytes + payload);
  }

  WireEnd end_;
  Work work_;
  uint32_t sends_, receives_;  // bytes of payload
  uint32_t psn_ = 0;
  Messages messages_;
  std::vector<uint8_t> out_, in_;
  uint8_t template_[kHeaderBytes] = {};
};

// Time of all rounds. `each_ns` may be null; else the window is 1.
template <class Near, class Far>
uint64_t EchoNs(Near& near, Far& far, uint64_t rounds, uint32_t window,
                tools::Histogram* each_ns = nullptr) {
  const engine::Clock clock;
  uint64_t elapsed_ns = 0;
  RunOnTwoCores(
      [&] {
        const uint64_t start_ns = clock.NowNs();
        uint64_t last_ns = start_ns;
        uint64_t sent = 0, received = 0;
        while (received < rounds) {
          const uint64_t may = std::min<uint64_t>(window - (sent - received), rounds - sent);
          if (may > 0) sent += near.Send(static_cast<uint16_t>(std::min<uint64_t>(may, kBurst)));
          const uint16_t came = near.Receive();
          received += came;
          if (came > 0 && each_ns != nullptr) {
            const uint64_t now_ns = clock.NowNs();
            each_ns->Record(now_ns - last_ns);
            last_ns = now_ns;
          }
        }
        elapsed_ns = clock.NowNs() - start_ns;
      },
      [&] {
        uint64_t owed = 0, answered = 0;
        while (answered < rounds) {
          owed += far.Receive();
          if (owed > 0) {
            const uint16_t sent = far.Send(static_cast<uint16_t>(std::min<uint64_t>(owed, kBurst)));
            owed -= sent;
            answered += sent;
          }
        }
      });
  return elapsed_ns;
}

}  // namespace

double EchoPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds,
                     uint32_t window) {
  Side<Bytes> near(a, b, work, payload, payload), far(b, a, work, payload, payload);
  const uint64_t elapsed_ns = EchoNs(near, far, rounds, window);
  return static_cast<double>(rounds) * 1e9 / static_cast<double>(elapsed_ns);
}

double RoundTripNs(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t rounds,
                   tools::Histogram* each_ns) {
  Side<Bytes> near(a, b, work, payload, payload), far(b, a, work, payload, payload);
  const uint64_t elapsed_ns = EchoNs(near, far, rounds, 1, each_ns);
  return static_cast<double>(elapsed_ns) / static_cast<double>(rounds);
}

double LeastCallNs(WireEnd client, WireEnd server, uint64_t calls, uint32_t window) {
  using Client = LeastClient;
  Side<Client> near(client, server, Work::kPacket, Client::kSends, Client::kReceives);
  Side<LeastServer> far(server, client, Work::kPacket, Client::kReceives, Client::kSends);
  const uint64_t elapsed_ns = EchoNs(near, far, calls, std::min(window, kLeastSlots));
  return static_cast<double>(elapsed_ns) / static_cast<double>(calls);
}

double StreamPerSecond(WireEnd a, WireEnd b, Work work, uint32_t payload, uint64_t frames) {
  Side<Bytes> near(a, b, work, payload, payload), far(b, a, work, payload, payload);
  const engine::Clock clock;
  std::atomic<uint64_t> start_ns{0};
  uint64_t end_ns = 0;
  RunOnTwoCores(
      [&] {
        start_ns = clock.NowNs();
        for (uint64_t sent = 0; sent < frames;) {
          sent += near.Send(static_cast<uint16_t>(std::min<uint64_t>(frames - sent, kBurst)));
        }
      },
      [&] {
        for (uint64_t received = 0; received < frames;) received += far.Receive();
        end_ns = clock.NowNs();
      });
  return static_cast<double>(frames) * 1e9 / static_cast<double>(end_ns - start_ns.load());
}

}  // namespace pollux::bench
