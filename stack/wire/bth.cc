#include "stack/wire/bth.h"

#include <array>

#include "stack/base/byte_order.h"

namespace pollux::wire {
namespace {

constexpr OpcodeInfo Info(const char* name, Transport transport, Operation operation,
                          PositionBits position, uint16_t headers, bool payload) {
  const bool response = operation == Operation::kReadResponse || operation == Operation::kAck ||
                        operation == Operation::kAtomicAck;
  uint8_t bytes = 0;
  constexpr uint8_t kBytes[] = {8, 16, 28, 4, 8, 4, 4};
  for (int i = 0; i < 7; ++i) {
    if (headers & (1 << i)) bytes += kBytes[i];
  }
  return {name, transport, operation, position, headers, payload, response, bytes};
}

constexpr std::array<OpcodeInfo, 256> MakeTable() {
  std::array<OpcodeInfo, 256> t{};
  constexpr auto kRc = Transport::kRc;
  constexpr auto kUc = Transport::kUc;
  t[0x00] = Info("RC SEND First", kRc, Operation::kSend, kFirst, 0, true);
  t[0x01] = Info("RC SEND Middle", kRc, Operation::kSend, kMiddle, 0, true);
  t[0x02] = Info("RC SEND Last", kRc, Operation::kSend, kLast, 0, true);
  t[0x03] = Info("RC SEND Last Immediate", kRc, Operation::kSend, kLast, kHasImmediate, true);
  t[0x04] = Info("RC SEND Only", kRc, Operation::kSend, kOnly, 0, true);
  t[0x05] = Info("RC SEND Only Immediate", kRc, Operation::kSend, kOnly, kHasImmediate, true);
  t[0x06] = Info("RC RDMA WRITE First", kRc, Operation::kWrite, kFirst, kHasReth, true);
  t[0x07] = Info("RC RDMA WRITE Middle", kRc, Operation::kWrite, kMiddle, 0, true);
  t[0x08] = Info("RC RDMA WRITE Last", kRc, Operation::kWrite, kLast, 0, true);
  t[0x09] =
      Info("RC RDMA WRITE Last Immediate", kRc, Operation::kWrite, kLast, kHasImmediate, true);
  t[0x0A] = Info("RC RDMA WRITE Only", kRc, Operation::kWrite, kOnly, kHasReth, true);
  t[0x0B] = Info("RC RDMA WRITE Only Immediate", kRc, Operation::kWrite, kOnly,
                 kHasReth | kHasImmediate, true);
  t[0x0C] = Info("RC RDMA READ Request", kRc, Operation::kReadRequest, kOnly, kHasReth, false);
  t[0x0D] =
      Info("RC RDMA READ response First", kRc, Operation::kReadResponse, kFirst, kHasAeth, true);
  t[0x0E] = Info("RC RDMA READ response Middle", kRc, Operation::kReadResponse, kMiddle, 0, true);
  t[0x0F] =
      Info("RC RDMA READ response Last", kRc, Operation::kReadResponse, kLast, kHasAeth, true);
  t[0x10] =
      Info("RC RDMA READ response Only", kRc, Operation::kReadResponse, kOnly, kHasAeth, true);
  t[0x11] = Info("RC Acknowledge", kRc, Operation::kAck, kOnly, kHasAeth, false);
  t[0x12] = Info("RC ATOMIC Acknowledge", kRc, Operation::kAtomicAck, kOnly,
                 kHasAeth | kHasAtomicAckEth, false);
  t[0x13] = Info("RC CmpSwap", kRc, Operation::kAtomic, kOnly, kHasAtomicEth, false);
  t[0x14] = Info("RC FetchAdd", kRc, Operation::kAtomic, kOnly, kHasAtomicEth, false);
  t[0x16] = Info("RC SEND Last Invalidate", kRc, Operation::kSend, kLast, kHasIeth, true);
  t[0x17] = Info("RC SEND Only Invalidate", kRc, Operation::kSend, kOnly, kHasIeth, true);
  t[0x20] = Info("UC SEND First", kUc, Operation::kSend, kFirst, 0, true);
  t[0x21] = Info("UC SEND Middle", kUc, Operation::kSend, kMiddle, 0, true);
  t[0x22] = Info("UC SEND Last", kUc, Operation::kSend, kLast, 0, true);
  t[0x23] = Info("UC SEND Last Immediate", kUc, Operation::kSend, kLast, kHasImmediate, true);
  t[0x24] = Info("UC SEND Only", kUc, Operation::kSend, kOnly, 0, true);
  t[0x25] = Info("UC SEND Only Immediate", kUc, Operation::kSend, kOnly, kHasImmediate, true);
  t[0x26] = Info("UC RDMA WRITE First", kUc, Operation::kWrite, kFirst, kHasReth, true);
  t[0x27] = Info("UC RDMA WRITE Middle", kUc, Operation::kWrite, kMiddle, 0, true);
  t[0x28] = Info("UC RDMA WRITE Last", kUc, Operation::kWrite, kLast, 0, true);
  t[0x29] =
      Info("UC RDMA WRITE Last Immediate", kUc, Operation::kWrite, kLast, kHasImmediate, true);
  t[0x2A] = Info("UC RDMA WRITE Only", kUc, Operation::kWrite, kOnly, kHasReth, true);
  t[0x2B] = Info("UC RDMA WRITE Only Immediate", kUc, Operation::kWrite, kOnly,
                 kHasReth | kHasImmediate, true);
  t[0x64] = Info("UD SEND Only", Transport::kUd, Operation::kSend, kOnly, kHasDeth, true);
  t[0x65] = Info("UD SEND Only Immediate", Transport::kUd, Operation::kSend, kOnly,
                 kHasDeth | kHasImmediate, true);
  t[0x81] = Info("CNP", Transport::kCnp, Operation::kCnp, kOnly, 0, true);
  return t;
}

constexpr std::array<OpcodeInfo, 256> kOpcodes = MakeTable();

constexpr uint8_t kSolicitedBit = 0x80;
constexpr uint8_t kMigReqBit = 0x40;
constexpr uint8_t kFecnBit = 0x80;
constexpr uint8_t kBecnBit = 0x40;
constexpr uint8_t kAckRequestBit = 0x80;

}  // namespace

const OpcodeInfo* FindOpcode(uint8_t opcode) {
  const OpcodeInfo& info = kOpcodes[opcode];
  return info.name != nullptr ? &info : nullptr;
}

Bth ParseBth(const uint8_t* p) {
  Bth bth;
  bth.opcode = static_cast<Opcode>(p[0]);
  bth.solicited = (p[1] & kSolicitedBit) != 0;
  bth.mig_req = (p[1] & kMigReqBit) != 0;
  bth.pad = (p[1] >> 4) & 3;
  bth.version = p[1] & 0x0F;
  bth.pkey = LoadBe16(p + 2);
  bth.fecn = (p[4] & kFecnBit) != 0;
  bth.becn = (p[4] & kBecnBit) != 0;
  bth.dest_qpn = Qpn{LoadBe24(p + 5)};
  bth.ack_request = (p[8] & kAckRequestBit) != 0;
  bth.psn = Psn(LoadBe24(p + 9));
  return bth;
}

void EmitBth(const Bth& bth, uint8_t* p) {
  p[0] = static_cast<uint8_t>(bth.opcode);
  p[1] = static_cast<uint8_t>((bth.solicited ? kSolicitedBit : 0) | (bth.mig_req ? kMigReqBit : 0) |
                              (bth.pad & 3) << 4 | (bth.version & 0x0F));
  StoreBe16(p + 2, bth.pkey);
  p[4] = static_cast<uint8_t>((bth.fecn ? kFecnBit : 0) | (bth.becn ? kBecnBit : 0));
  StoreBe24(p + 5, bth.dest_qpn.value);
  p[8] = bth.ack_request ? kAckRequestBit : 0;
  StoreBe24(p + 9, bth.psn.value());
}

}  // namespace pollux::wire
