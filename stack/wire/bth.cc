#include "stack/wire/bth.h"

#include <array>

#include "stack/base/byte_order.h"

namespace pollux::wire {

namespace {

constexpr int kTableSize = 256;
constexpr uint16_t kAllHeaders = kHasDeth | kHasAeth | kHasFeth | kHasReth | kHasAtomicEth |
                                 kHasAtomicAckEth | kHasImmediate | kHasIeth;

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
  set(kRcFlush, Entry("RC FLUSH", kRc, O::kFlush, kOnly, kHasFeth | kHasReth, false));
  set(kRcAtomicWrite, Entry("RC ATOMIC WRITE", kRc, O::kAtomicWrite, kOnly, kHasReth, true));
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

void EmitBth(const Bth& bth, uint8_t* p) {
  namespace at = bth_fields;
  p[at::kOpcode] = static_cast<uint8_t>(bth.opcode);
  p[at::kFlags] = static_cast<uint8_t>(
      (bth.solicited ? at::kSolicitedBit : 0) | (bth.mig_req ? at::kMigReqBit : 0) |
      (bth.pad & at::kPadMask) << at::kPadShift | (bth.version & at::kVersionMask));
  StoreBe16(p + at::kPkey, bth.pkey);
  p[at::kCongestion] =
      static_cast<uint8_t>((bth.fecn ? at::kFecnBit : 0) | (bth.becn ? at::kBecnBit : 0));
  StoreBe24(p + at::kDestQpn, bth.dest_qpn.value);
  p[at::kAckRequest] = bth.ack_request ? at::kAckRequestBit : 0;
  StoreBe24(p + at::kPsn, bth.psn.value());
}

}  // namespace pollux::wire
