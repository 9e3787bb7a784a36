#include "stack/wire/bth.h"

#include <array>

#include "stack/base/byte_order.h"

namespace pollux::wire {
namespace {

// Field offsets in the BTH.
constexpr size_t kOpcode = 0;
constexpr size_t kFlags = 1;
constexpr size_t kPkey = 2;
constexpr size_t kCongestion = 4;
constexpr size_t kDestQpn = 5;
constexpr size_t kAckRequest = 8;
constexpr size_t kPsn = 9;
static_assert(kPsn + 3 == kBthBytes);

constexpr uint8_t kSolicitedBit = 0x80;
constexpr uint8_t kMigReqBit = 0x40;
constexpr int kPadShift = 4;
constexpr uint8_t kPadMask = 0x03;
constexpr uint8_t kVersionMask = 0x0F;
constexpr uint8_t kFecnBit = 0x80;
constexpr uint8_t kBecnBit = 0x40;
constexpr uint8_t kAckRequestBit = 0x80;

constexpr int kTableSize = 256;
constexpr uint16_t kAllHeaders =
    kHasDeth | kHasReth | kHasAtomicEth | kHasAeth | kHasAtomicAckEth | kHasImmediate | kHasIeth;

constexpr OpcodeInfo Entry(const char* name, Transport transport, Operation operation,
                           PositionBits position, uint16_t headers, bool has_payload) {
  const bool is_response = operation == Operation::kReadResponse || operation == Operation::kAck ||
                           operation == Operation::kAtomicAck;
  const uint8_t bytes = ExtHeaderOffset(headers, static_cast<HeaderBits>(kAllHeaders + 1));
  return {name, transport, operation, position, headers, has_payload, is_response, bytes};
}

constexpr std::array<OpcodeInfo, kTableSize> MakeTable() {
  using enum Opcode;
  using O = Operation;
  constexpr auto kRc = Transport::kRc;
  constexpr auto kUc = Transport::kUc;
  constexpr auto kUd = Transport::kUd;
  std::array<OpcodeInfo, kTableSize> table{};
  const auto set = [&table](Opcode opcode, const OpcodeInfo& info) {
    table[static_cast<uint8_t>(opcode)] = info;
  };
  constexpr uint16_t kImm = kHasImmediate;

  set(kRcSendFirst, Entry("RC SEND First", kRc, O::kSend, kFirst, 0, true));
  set(kRcSendMiddle, Entry("RC SEND Middle", kRc, O::kSend, kMiddle, 0, true));
  set(kRcSendLast, Entry("RC SEND Last", kRc, O::kSend, kLast, 0, true));
  set(kRcSendLastImm, Entry("RC SEND Last with Immediate", kRc, O::kSend, kLast, kImm, true));
  set(kRcSendOnly, Entry("RC SEND Only", kRc, O::kSend, kOnly, 0, true));
  set(kRcSendOnlyImm, Entry("RC SEND Only with Immediate", kRc, O::kSend, kOnly, kImm, true));
  set(kRcWriteFirst, Entry("RC RDMA WRITE First", kRc, O::kWrite, kFirst, kHasReth, true));
  set(kRcWriteMiddle, Entry("RC RDMA WRITE Middle", kRc, O::kWrite, kMiddle, 0, true));
  set(kRcWriteLast, Entry("RC RDMA WRITE Last", kRc, O::kWrite, kLast, 0, true));
  set(kRcWriteLastImm,
      Entry("RC RDMA WRITE Last with Immediate", kRc, O::kWrite, kLast, kImm, true));
  set(kRcWriteOnly, Entry("RC RDMA WRITE Only", kRc, O::kWrite, kOnly, kHasReth, true));
  set(kRcWriteOnlyImm,
      Entry("RC RDMA WRITE Only with Immediate", kRc, O::kWrite, kOnly, kHasReth | kImm, true));
  set(kRcReadRequest, Entry("RC RDMA READ Request", kRc, O::kReadRequest, kOnly, kHasReth, false));
  set(kRcReadResponseFirst,
      Entry("RC RDMA READ response First", kRc, O::kReadResponse, kFirst, kHasAeth, true));
  set(kRcReadResponseMiddle,
      Entry("RC RDMA READ response Middle", kRc, O::kReadResponse, kMiddle, 0, true));
  set(kRcReadResponseLast,
      Entry("RC RDMA READ response Last", kRc, O::kReadResponse, kLast, kHasAeth, true));
  set(kRcReadResponseOnly,
      Entry("RC RDMA READ response Only", kRc, O::kReadResponse, kOnly, kHasAeth, true));
  set(kRcAcknowledge, Entry("RC Acknowledge", kRc, O::kAck, kOnly, kHasAeth, false));
  set(kRcAtomicAcknowledge, Entry("RC ATOMIC Acknowledge", kRc, O::kAtomicAck, kOnly,
                                  kHasAeth | kHasAtomicAckEth, false));
  set(kRcCompareSwap, Entry("RC CmpSwap", kRc, O::kAtomic, kOnly, kHasAtomicEth, false));
  set(kRcFetchAdd, Entry("RC FetchAdd", kRc, O::kAtomic, kOnly, kHasAtomicEth, false));
  set(kRcSendLastInvalidate,
      Entry("RC SEND Last with Invalidate", kRc, O::kSend, kLast, kHasIeth, true));
  set(kRcSendOnlyInvalidate,
      Entry("RC SEND Only with Invalidate", kRc, O::kSend, kOnly, kHasIeth, true));

  set(kUcSendFirst, Entry("UC SEND First", kUc, O::kSend, kFirst, 0, true));
  set(kUcSendMiddle, Entry("UC SEND Middle", kUc, O::kSend, kMiddle, 0, true));
  set(kUcSendLast, Entry("UC SEND Last", kUc, O::kSend, kLast, 0, true));
  set(kUcSendLastImm, Entry("UC SEND Last with Immediate", kUc, O::kSend, kLast, kImm, true));
  set(kUcSendOnly, Entry("UC SEND Only", kUc, O::kSend, kOnly, 0, true));
  set(kUcSendOnlyImm, Entry("UC SEND Only with Immediate", kUc, O::kSend, kOnly, kImm, true));
  set(kUcWriteFirst, Entry("UC RDMA WRITE First", kUc, O::kWrite, kFirst, kHasReth, true));
  set(kUcWriteMiddle, Entry("UC RDMA WRITE Middle", kUc, O::kWrite, kMiddle, 0, true));
  set(kUcWriteLast, Entry("UC RDMA WRITE Last", kUc, O::kWrite, kLast, 0, true));
  set(kUcWriteLastImm,
      Entry("UC RDMA WRITE Last with Immediate", kUc, O::kWrite, kLast, kImm, true));
  set(kUcWriteOnly, Entry("UC RDMA WRITE Only", kUc, O::kWrite, kOnly, kHasReth, true));
  set(kUcWriteOnlyImm,
      Entry("UC RDMA WRITE Only with Immediate", kUc, O::kWrite, kOnly, kHasReth | kImm, true));

  set(kUdSendOnly, Entry("UD SEND Only", kUd, O::kSend, kOnly, kHasDeth, true));
  set(kUdSendOnlyImm,
      Entry("UD SEND Only with Immediate", kUd, O::kSend, kOnly, kHasDeth | kImm, true));
  // The 16 reserved bytes of a CNP count as its payload.
  set(kCnp, Entry("CNP", Transport::kCnp, O::kCnp, kOnly, 0, true));
  return table;
}

constexpr std::array<OpcodeInfo, kTableSize> kTable = MakeTable();

}  // namespace

const OpcodeInfo* FindOpcode(uint8_t opcode) {
  const OpcodeInfo& info = kTable[opcode];
  return info.name == nullptr ? nullptr : &info;
}

Bth ParseBth(const uint8_t* p) {
  Bth bth;
  bth.opcode = static_cast<Opcode>(p[kOpcode]);
  bth.solicited = (p[kFlags] & kSolicitedBit) != 0;
  bth.mig_req = (p[kFlags] & kMigReqBit) != 0;
  bth.pad = (p[kFlags] >> kPadShift) & kPadMask;
  bth.version = p[kFlags] & kVersionMask;
  bth.pkey = LoadBe16(p + kPkey);
  bth.fecn = (p[kCongestion] & kFecnBit) != 0;
  bth.becn = (p[kCongestion] & kBecnBit) != 0;
  bth.dest_qpn = Qpn{LoadBe24(p + kDestQpn)};
  bth.ack_request = (p[kAckRequest] & kAckRequestBit) != 0;
  bth.psn = Psn(LoadBe24(p + kPsn));
  return bth;
}

void EmitBth(const Bth& bth, uint8_t* p) {
  p[kOpcode] = static_cast<uint8_t>(bth.opcode);
  p[kFlags] =
      static_cast<uint8_t>((bth.solicited ? kSolicitedBit : 0) | (bth.mig_req ? kMigReqBit : 0) |
                           (bth.pad & kPadMask) << kPadShift | (bth.version & kVersionMask));
  StoreBe16(p + kPkey, bth.pkey);
  p[kCongestion] = static_cast<uint8_t>((bth.fecn ? kFecnBit : 0) | (bth.becn ? kBecnBit : 0));
  StoreBe24(p + kDestQpn, bth.dest_qpn.value);
  p[kAckRequest] = bth.ack_request ? kAckRequestBit : 0;
  StoreBe24(p + kPsn, bth.psn.value());
}

}  // namespace pollux::wire
