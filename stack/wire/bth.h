// The base transport header and the table of opcodes. Source: IB specification 9.2. Captures of
// Linux rxe in tests/conformance confirm the layout.
#ifndef POLLUX_STACK_WIRE_BTH_H_
#define POLLUX_STACK_WIRE_BTH_H_

#include <cstddef>
#include <cstdint>

#include "stack/base/byte_order.h"
#include "stack/base/types.h"

namespace pollux::wire {

inline constexpr size_t kBthBytes = 12;
inline constexpr uint16_t kDefaultPkey = 0xFFFF;

enum class Opcode : uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0A,
  kRcWriteOnlyImm = 0x0B,
  kRcReadRequest = 0x0C,
  kRcReadResponseFirst = 0x0D,
  kRcReadResponseMiddle = 0x0E,
  kRcReadResponseLast = 0x0F,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInvalidate = 0x16,
  kRcSendOnlyInvalidate = 0x17,
  kRcFlush = 0x1C,
  kRcAtomicWrite = 0x1D,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastImm = 0x29,
  kUcWriteOnly = 0x2A,
  kUcWriteOnlyImm = 0x2B,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
};

// The extended headers of an opcode. They follow the BTH in the order of these bits. No opcode has
// an AETH and a RETH: the AETH is before it, so that its offset is found sooner.
enum HeaderBits : uint16_t {
  kHasDeth = 1 << 0,
  kHasAeth = 1 << 1,
  kHasFeth = 1 << 2,
  kHasReth = 1 << 3,
  kHasAtomicEth = 1 << 4,
  kHasAtomicAckEth = 1 << 5,
  kHasImmediate = 1 << 6,
  kHasIeth = 1 << 7,
};

enum class Operation : uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAck,
  kAtomic,
  kAtomicAck,
  // Both are answered by a READ response without payload.
  kAtomicWrite,
  kFlush,
  kCnp
};
enum class Transport : uint8_t { kRc, kUc, kUd, kCnp };
enum PositionBits : uint8_t { kFirst = 1, kMiddle = 2, kLast = 4, kOnly = 8 };

struct OpcodeInfo {
  const char* name;  // tshark's name; never null for a known opcode
  Transport transport;
  Operation operation;
  uint8_t position;      // exactly one PositionBits value
  uint16_t headers;      // HeaderBits
  bool has_payload;      // whether payload may follow the headers
  bool is_response;      // sent to the requester
  uint8_t header_bytes;  // bytes of all extended headers together
};

// Returns null for an opcode that is not in the table.
const OpcodeInfo* FindOpcode(uint8_t opcode);

// The offset of header `bit` from the first byte after the BTH; `headers` is the opcode's set.
constexpr uint8_t ExtHeaderOffset(uint16_t headers, HeaderBits bit) {
  constexpr uint8_t kBytes[] = {8, 4, 4, 16, 28, 8, 4, 4};
  uint8_t offset = 0;
  for (int i = 0; (1 << i) < bit; ++i) {
    if (headers & (1 << i)) offset += kBytes[i];
  }
  return offset;
}

namespace bth_fields {
// Offsets, and masks of bytes that hold several fields.
inline constexpr size_t kOpcode = 0;
inline constexpr size_t kFlags = 1;
inline constexpr size_t kPkey = 2;
inline constexpr size_t kCongestion = 4;
inline constexpr size_t kDestQpn = 5;
inline constexpr size_t kAckRequest = 8;
inline constexpr size_t kPsn = 9;
static_assert(kPsn + 3 == kBthBytes);

inline constexpr uint8_t kSolicitedBit = 0x80;
inline constexpr uint8_t kMigReqBit = 0x40;
inline constexpr int kPadShift = 4;
inline constexpr uint8_t kPadMask = 0x03;
inline constexpr uint8_t kVersionMask = 0x0F;
inline constexpr uint8_t kFecnBit = 0x80;
inline constexpr uint8_t kBecnBit = 0x40;
inline constexpr uint8_t kAckRequestBit = 0x80;
}  // namespace bth_fields

struct Bth {
  Opcode opcode = Opcode::kRcSendOnly;
  bool solicited = false;
  bool mig_req = false;
  uint8_t pad = 0;      // 0..3
  uint8_t version = 0;  // TVer
  uint16_t pkey = kDefaultPkey;
  bool fecn = false;
  bool becn = false;
  Qpn dest_qpn;
  bool ack_request = false;
  Psn psn;
};

// Reads kBthBytes at `p`. Checks nothing.
inline Bth ParseBth(const uint8_t* p) {
  namespace at = bth_fields;
  const uint8_t flags = p[at::kFlags];
  // Each 24-bit number is loaded together with the byte before it.
  const uint32_t qpn_word = LoadBe32(p + at::kDestQpn - 1);
  const uint32_t psn_word = LoadBe32(p + at::kPsn - 1);
  return {.opcode = static_cast<Opcode>(p[at::kOpcode]),
          .solicited = (flags & at::kSolicitedBit) != 0,
          .mig_req = (flags & at::kMigReqBit) != 0,
          .pad = static_cast<uint8_t>(flags >> at::kPadShift & at::kPadMask),
          .version = static_cast<uint8_t>(flags & at::kVersionMask),
          .pkey = LoadBe16(p + at::kPkey),
          .fecn = (p[at::kCongestion] & at::kFecnBit) != 0,
          .becn = (p[at::kCongestion] & at::kBecnBit) != 0,
          .dest_qpn = Qpn{qpn_word & 0xFFFFFF},
          .ack_request = (p[at::kAckRequest] & at::kAckRequestBit) != 0,
          .psn = Psn(psn_word)};
}
// Writes kBthBytes at `p`, with reserved bits zero.
void EmitBth(const Bth& bth, uint8_t* p);

// Two P_Keys match if their low 15 bits are equal and not zero and at least one is a full member.
// Source: IB specification 10.9.3.
constexpr bool PkeysMatch(uint16_t a, uint16_t b) {
  return (a & 0x7FFF) == (b & 0x7FFF) && (a & 0x7FFF) != 0 && ((a | b) & 0x8000) != 0;
}

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_BTH_H_
