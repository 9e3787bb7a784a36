#include "stack/wire/ext_headers.h"

#include <array>

#include "stack/base/byte_order.h"

namespace pollux::wire {
namespace {

// Field offsets, one group a header.
namespace reth {
constexpr size_t kAddress = 0;
constexpr size_t kRkey = 8;
constexpr size_t kLength = 12;
static_assert(kLength + 4 == kRethBytes);
}  // namespace reth
namespace feth {
// All of it is in the last byte.
constexpr size_t kFlags = 3;
constexpr uint8_t kPlacementMask = 0x0F;
constexpr int kSelectivityShift = 4;
constexpr uint8_t kSelectivityMask = 0x03;
static_assert(kFlags + 1 == kFethBytes);
}  // namespace feth
namespace aeth {
constexpr size_t kSyndrome = 0;
constexpr size_t kMsn = 1;
static_assert(kMsn + 3 == kAethBytes);
}  // namespace aeth
namespace deth {
constexpr size_t kQkey = 0;
constexpr size_t kReserved = 4;
constexpr size_t kSourceQpn = 5;
static_assert(kSourceQpn + 3 == kDethBytes);
}  // namespace deth
namespace atomic_eth {
constexpr size_t kAddress = 0;
constexpr size_t kRkey = 8;
constexpr size_t kSwapOrAdd = 12;
constexpr size_t kCompare = 20;
static_assert(kCompare + 8 == kAtomicEthBytes);
}  // namespace atomic_eth

constexpr size_t kRnrCodes = 32;
constexpr std::array<uint32_t, kRnrCodes> kRnrDelaysUs = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,    320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

constexpr uint8_t kFiveBits = 0x1F;

}  // namespace

uint32_t RnrDelayUs(uint8_t code) { return kRnrDelaysUs[code & kFiveBits]; }

Feth ParseFeth(const uint8_t* p) {
  const uint8_t flags = p[feth::kFlags];
  return {.placement = static_cast<uint8_t>(flags & feth::kPlacementMask),
          .selectivity =
              static_cast<uint8_t>(flags >> feth::kSelectivityShift & feth::kSelectivityMask)};
}

void EmitFeth(const Feth& feth, uint8_t* p) {
  StoreBe32(p, static_cast<uint32_t>(feth.selectivity & feth::kSelectivityMask)
                       << feth::kSelectivityShift |
                   (feth.placement & feth::kPlacementMask));
}

Reth ParseReth(const uint8_t* p) {
  return {LoadBe64(p + reth::kAddress), LoadBe32(p + reth::kRkey), LoadBe32(p + reth::kLength)};
}

void EmitReth(const Reth& reth, uint8_t* p) {
  StoreBe64(p + reth::kAddress, reth.address);
  StoreBe32(p + reth::kRkey, reth.rkey);
  StoreBe32(p + reth::kLength, reth.length);
}

Aeth ParseAeth(const uint8_t* p) { return {p[aeth::kSyndrome], LoadBe24(p + aeth::kMsn)}; }

void EmitAeth(const Aeth& aeth, uint8_t* p) {
  p[aeth::kSyndrome] = aeth.syndrome;
  StoreBe24(p + aeth::kMsn, aeth.msn);
}

Deth ParseDeth(const uint8_t* p) {
  return {LoadBe32(p + deth::kQkey), Qpn{LoadBe24(p + deth::kSourceQpn)}};
}

void EmitDeth(const Deth& deth, uint8_t* p) {
  StoreBe32(p + deth::kQkey, deth.qkey);
  p[deth::kReserved] = 0;
  StoreBe24(p + deth::kSourceQpn, deth.source_qpn.value);
}

AtomicEth ParseAtomicEth(const uint8_t* p) {
  AtomicEth atomic;
  atomic.address = LoadBe64(p + atomic_eth::kAddress);
  atomic.rkey = LoadBe32(p + atomic_eth::kRkey);
  atomic.swap_or_add = LoadBe64(p + atomic_eth::kSwapOrAdd);
  atomic.compare = LoadBe64(p + atomic_eth::kCompare);
  return atomic;
}

void EmitAtomicEth(const AtomicEth& atomic, uint8_t* p) {
  StoreBe64(p + atomic_eth::kAddress, atomic.address);
  StoreBe32(p + atomic_eth::kRkey, atomic.rkey);
  StoreBe64(p + atomic_eth::kSwapOrAdd, atomic.swap_or_add);
  StoreBe64(p + atomic_eth::kCompare, atomic.compare);
}

uint64_t ParseAtomicAckEth(const uint8_t* p) { return LoadBe64(p); }
void EmitAtomicAckEth(uint64_t original, uint8_t* p) { StoreBe64(p, original); }

uint32_t ParseImmediate(const uint8_t* p) {
  uint32_t immediate_be;
  std::memcpy(&immediate_be, p, sizeof immediate_be);
  return immediate_be;
}

void EmitImmediate(uint32_t immediate_be, uint8_t* p) {
  std::memcpy(p, &immediate_be, sizeof immediate_be);
}

uint32_t ParseIeth(const uint8_t* p) { return LoadBe32(p); }
void EmitIeth(uint32_t rkey, uint8_t* p) { StoreBe32(p, rkey); }

const char* SyndromeName(uint8_t syndrome) {
  if (IsAck(syndrome)) return "ACK";
  if (IsRnrNak(syndrome)) return "RNR NAK";
  switch (syndrome) {
    case kNakPsnSequence:
      return "NAK PSN sequence error";
    case kNakInvalidRequest:
      return "NAK invalid request";
    case kNakRemoteAccess:
      return "NAK remote access error";
    case kNakRemoteOperational:
      return "NAK remote operational error";
    default:
      return "reserved";
  }
}

}  // namespace pollux::wire
