// Builds the frames of short messages of one flow, one after the other, in the place from which
// they are sent.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_SHORT_FRAMES_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_SHORT_FRAMES_H_

#include <smmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/base/byte_order.h"
#include "stack/io/link/mbuf_cache.h"
#include "stack/transport/message/egress.h"
#include "stack/transport/message/packet_builder.h"
#include "stack/verbs/queue_pair.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {

inline constexpr uint32_t kMaxShortFrameBytes =
    wire::kEthernetBytes + wire::kIpv4Bytes + wire::kUdpBytes + wire::kBthBytes + wire::kRethBytes +
    PacketBuilder::kLongPayload + wire::kIcrcBytes;

// SENDs and RDMA WRITEs of one packet (SendWqe::is_single_packet) with fewer than
// PacketBuilder::kLongPayload bytes. Reads the common header fields once. Until Finish() is
// called nothing else may be sent on the port. Adds the packets to the flight recorder; the caller
// counts them. kOne: at most one message will be added; `most` is then 1.
template <bool kOne>
class ShortFrames {
 public:
  // `builder` is the flow's; CanUseShortFrames() must be true. The egress must have room, and
  // its frame_room() be at least kMaxShortFrameBytes. At most `most` messages will be added.
  ShortFrames(PacketBuilder& builder, Egress& egress, uint32_t most)
      : builder_(builder),
        egress_(egress),
        room_(kOne ? 1 : std::min<uint32_t>(most, egress.burst_room())),
        mbufs_(egress.Mbufs(room_)),
        places_(egress.places()),
        turn_bytes_(kOne ? 0 : egress.turn_bytes()) {
    room_ = std::min(room_, mbufs_.size());
    for (size_t i = 0; i < kBlocks; ++i) headers_[i] = Load(builder.template_ + BlockOffset(i));
    headers_[0] =
        _mm_or_si128(headers_[0], _mm_slli_si128(_mm_cvtsi32_si128(builder.data_ecn_), kTosOffset));
    checksum_base_ = builder.ip_checksum_base_ + builder.data_ecn_;
  }

  // How many messages can be added. 0 if there are no buffers, or if this thread has no cache of
  // them: PacketBuilder::Send() then allocates from the pool.
  uint32_t room() const { return room_; }
  // Whether the queue pair's turn to send is over.
  bool TurnIsOver() const { return kOne ? egress_.TurnIsOver() : bytes_ >= turn_bytes_; }

  // Adds the message of `wqe`, whose payload is at `payload`; at most room() times.
  [[gnu::always_inline]] void Add(const verbs::SendWqe& wqe, Psn psn, bool ack_request,
                                  const uint8_t* payload) {
    const bool is_write = wqe.opcode == IBV_WR_RDMA_WRITE;
    const uint32_t payload_bytes = wqe.length;
    const uint32_t pad = -payload_bytes & 3;
    const uint32_t ip_bytes = kMinIpBytes + (is_write ? wire::kRethBytes : 0) + payload_bytes + pad;
    const uint32_t frame_bytes = wire::kEthernetBytes + ip_bytes;
    rte_mbuf* const frame = mbufs_.Next();
    egress_.FetchToWrite(mbufs_.upcoming(Egress::kFetchAhead));
    Egress::Reset(frame, frame_bytes);
    places_[count_] = frame;
    uint8_t* const to = static_cast<uint8_t*>(frame->buf_addr) + RTE_PKTMBUF_HEADROOM;
    const uint32_t identification = builder_.identification_++;
    const wire::Opcode opcode = is_write ? wire::Opcode::kRcWriteOnly : wire::Opcode::kRcSendOnly;
    const bool solicited = !is_write && (wqe.send_flags & IBV_SEND_SOLICITED) != 0;
    EmitHeaders(ip_bytes, identification,
                static_cast<uint32_t>(opcode) | pad << 12 | uint32_t{solicited} << 15,
                psn.value() | uint32_t{ack_request} << 31, to);
    uint8_t* end = to + kHeaderBytes;
    if (is_write) {
      wire::EmitReth({.address = wqe.remote_address, .rkey = wqe.rkey, .length = payload_bytes},
                     end);
      end += wire::kRethBytes;
    }
    std::memcpy(end, payload, payload_bytes);
    end += payload_bytes;
    // The pad: its place is written whole, and the ICRC comes over what lies beyond.
    StoreBe32(end, 0);
    end += pad;
    const uint8_t* const ip = to + wire::kEthernetBytes;
    wire::EmitIcrc(wire::Icrc(ip, 4, ip_bytes - wire::kIcrcBytes), end);
    Record(opcode, psn, payload_bytes);
    bytes_ += frame_bytes;
    ++count_;
  }
  // Passes the frames to the egress.
  [[gnu::always_inline]] void Finish(uint64_t now_ns) {
    if (count_ == 0) return;
    RecordRun();
    mbufs_.Take(count_);
    egress_.Append(static_cast<uint16_t>(count_), bytes_, now_ns);
  }

 private:
  static constexpr size_t kUdpOffset = wire::kEthernetBytes + wire::kIpv4Bytes;
  static constexpr size_t kBthOffset = kUdpOffset + wire::kUdpBytes;
  static constexpr size_t kHeaderBytes = kBthOffset + wire::kBthBytes;
  static constexpr size_t kTosOffset = wire::kEthernetBytes + wire::ipv4::kTos;
  static constexpr uint32_t kMinIpBytes = kHeaderBytes - wire::kEthernetBytes + wire::kIcrcBytes;
  // The headers are written in four blocks, of which the last begins with the UDP length.
  static constexpr size_t kBlock = sizeof(__m128i);
  static constexpr size_t kBlocks = 4;
  static constexpr size_t BlockOffset(size_t i) {
    return i + 1 < kBlocks ? i * kBlock : kHeaderBytes - kBlock;
  }
  static_assert(kTosOffset < kBlock);
  static_assert(kHeaderBytes - kBlock == kUdpOffset + wire::udp::kLength);

  static __m128i Load(const uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static void Store(uint8_t* to, __m128i block) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), block);
  }
  static int Be16(uint32_t value) { return __builtin_bswap16(static_cast<uint16_t>(value)); }

  // `bth_begin`: the first two bytes of the BTH, in memory order; `bth_end`: its last four, as a
  // number.
  [[gnu::always_inline]] void EmitHeaders(uint32_t ip_bytes, uint32_t identification,
                                          uint32_t bth_begin, uint32_t bth_end, uint8_t* to) const {
    static_assert(wire::kEthernetBytes + wire::ipv4::kTotalLength == BlockOffset(1));
    static_assert(wire::ipv4::kIdentification == wire::ipv4::kTotalLength + 2);
    constexpr int kChecksumWord =
        (wire::kEthernetBytes + wire::ipv4::kChecksum - BlockOffset(1)) / 2;
    __m128i ip = headers_[1];
    ip = _mm_insert_epi16(ip, Be16(ip_bytes), 0);
    ip = _mm_insert_epi16(ip, Be16(identification), 1);
    ip = _mm_insert_epi16(
        ip, Be16(wire::ChecksumFold(checksum_base_ + ip_bytes + (identification & 0xFFFF))),
        kChecksumWord);
    __m128i bth = headers_[3];
    bth = _mm_insert_epi16(bth, Be16(ip_bytes - wire::kIpv4Bytes), 0);
    bth = _mm_insert_epi16(bth, static_cast<int>(bth_begin), 2);
    bth = _mm_insert_epi32(bth, static_cast<int>(__builtin_bswap32(bth_end)), 3);
    Store(to, headers_[0]);
    Store(to + BlockOffset(1), ip);
    Store(to + BlockOffset(2), headers_[2]);
    Store(to + BlockOffset(3), bth);
  }

  // Packets of one kind with consecutive PSNs are recorded together.
  [[gnu::always_inline]] void Record(wire::Opcode opcode, Psn psn, uint32_t payload_bytes) {
    if constexpr (kOne) {
      builder_.diagnostics_->RecordSent(opcode, psn, payload_bytes, 1);
      return;
    }
    const uint32_t kind = payload_bytes << 8 | static_cast<uint8_t>(opcode);
    if (kind != run_kind_ || psn.value() == 0) [[unlikely]] {
      RecordRun();
      run_first_ = psn;
      run_kind_ = kind;
      run_count_ = 0;
    }
    ++run_count_;
  }
  [[gnu::always_inline]] void RecordRun() {
    if (kOne || run_count_ == 0) return;
    builder_.diagnostics_->RecordSent(static_cast<wire::Opcode>(run_kind_ & 0xFF), run_first_,
                                      run_kind_ >> 8, run_count_);
  }

  PacketBuilder& builder_;
  Egress& egress_;
  uint32_t room_;
  io::CachedMbufs mbufs_;
  rte_mbuf** places_;
  uint32_t count_ = 0;
  uint32_t checksum_base_;
  uint64_t turn_bytes_;
  uint64_t bytes_ = 0;
  __m128i headers_[kBlocks];
  Psn run_first_;
  uint32_t run_kind_ = UINT32_MAX;  // length of the payload and, in the lowest byte, opcode
  uint32_t run_count_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_SHORT_FRAMES_H_
