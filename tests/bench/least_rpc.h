// The least RPC layer possible, for NULL calls over "+work": headers, and a slot for each call.
#ifndef POLLUX_TESTS_BENCH_LEAST_RPC_H_
#define POLLUX_TESTS_BENCH_LEAST_RPC_H_

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "stack/base/byte_order.h"

namespace pollux::bench {

// The words of an RPC-over-RDMA header without chunks (RFC 8166 section 4.2: XID, version, credits,
// RDMA_MSG, three empty lists), and of the RPC message behind it (RFC 5531 section 9).
inline constexpr uint32_t kRdmaWords = 7, kXidWord = 0, kRpcXidWord = kRdmaWords;
inline constexpr std::array<uint32_t, kRdmaWords + 10> kNullCall = {
    0, 1, 128, 0, 0, 0, 0, 0, 0 /* CALL */, 2, 0x20000000, 1, 0 /* NULL */, 0, 0, 0, 0};
inline constexpr std::array<uint32_t, kRdmaWords + 6> kNullReply = {
    0, 1, 128, 0, 0, 0, 0, 0, 1 /* REPLY */, 0 /* MSG_ACCEPTED */, 0, 0, 0 /* SUCCESS */};

template <size_t kWords>
class MessageTemplate {
 public:
  static constexpr uint32_t kBytes = 4 * kWords;
  explicit MessageTemplate(const std::array<uint32_t, kWords>& words) {
    for (size_t i = 0; i < kWords; ++i) StoreBe32(bytes_ + 4 * i, words[i]);
  }
  void Write(uint32_t xid, uint8_t* to) const {
    std::memcpy(to, bytes_, kBytes);
    StoreBe32(to + 4 * kXidWord, xid);
    StoreBe32(to + 4 * kRpcXidWord, xid);
  }
  // Ends the process if the message is another one. Returns its XID.
  uint32_t Read(const uint8_t* from) const {
    const uint32_t xid = LoadBe32(from);
    constexpr size_t kAfter = 4 * (kRpcXidWord + 1);
    const bool same = LoadBe32(from + 4 * kRpcXidWord) == xid &&
                      std::memcmp(from + 4, bytes_ + 4, 4 * (kRdmaWords - 1)) == 0 &&
                      std::memcmp(from + kAfter, bytes_ + kAfter, kBytes - kAfter) == 0;
    if (!same) Abort("an RPC message is another one than was sent");
    return xid;
  }
  [[noreturn]] static void Abort(const char* why) {
    std::fprintf(stderr, "bench: %s\n", why);
    std::abort();
  }

 private:
  uint8_t bytes_[kBytes];
};

// Both ends have at most this many calls under way.
inline constexpr uint32_t kLeastSlots = 128;

// Sends calls and receives replies. A call's XID is its slot and, above it, how often that was
// used.
class LeastClient {
 public:
  static constexpr uint32_t kSends = MessageTemplate<kNullCall.size()>::kBytes;
  static constexpr uint32_t kReceives = MessageTemplate<kNullReply.size()>::kBytes;
  LeastClient() {
    std::iota(free_.begin(), free_.end(), 0);
    std::iota(xids_.begin(), xids_.end(), 0);
  }
  void Write(uint8_t* to) { call_.Write(xids_[free_[--free_count_]] += kLeastSlots, to); }
  // The last `count` messages written were not sent.
  void TakeBack(uint32_t count) { free_count_ += count; }
  void Read(const uint8_t* from) {
    const uint32_t xid = reply_.Read(from), slot = xid % kLeastSlots;
    if (xids_[slot] != xid) decltype(reply_)::Abort("a reply to no call");
    free_[free_count_++] = slot;
  }

 private:
  const MessageTemplate<kNullCall.size()> call_{kNullCall};
  const MessageTemplate<kNullReply.size()> reply_{kNullReply};
  std::array<uint32_t, kLeastSlots> free_, xids_;
  uint32_t free_count_ = kLeastSlots;
};

// Receives calls and sends a reply for each.
class LeastServer {
 public:
  static constexpr uint32_t kSends = LeastClient::kReceives;
  static constexpr uint32_t kReceives = LeastClient::kSends;
  void Write(uint8_t* to) { reply_.Write(xids_[written_++ % kLeastSlots], to); }
  void TakeBack(uint32_t count) { written_ -= count; }
  void Read(const uint8_t* from) { xids_[read_++ % kLeastSlots] = call_.Read(from); }

 private:
  const MessageTemplate<kNullCall.size()> call_{kNullCall};
  const MessageTemplate<kNullReply.size()> reply_{kNullReply};
  std::array<uint32_t, kLeastSlots> xids_;
  uint32_t written_ = 0, read_ = 0;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_LEAST_RPC_H_
