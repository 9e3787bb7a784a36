#include "stack/wire/ext_headers.h"

#include "stack/base/byte_order.h"

namespace pollux::wire {

uint32_t RnrDelayUs(uint8_t code) {
  // IB specification table 45; code 0 is the longest.
  static constexpr uint32_t kDelayUs[32] = {
      655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
      480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
      20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
  return kDelayUs[code & 0x1F];
}

uint64_t TimeoutCodeNs(uint8_t code) {
  code &= 0x1F;
  return code == 0 ? 0 : uint64_t{4096} << code;
}

Reth ParseReth(const uint8_t* p) {
  return {.address = LoadBe64(p), .rkey = LoadBe32(p + 8), .length = LoadBe32(p + 12)};
}
void EmitReth(const Reth& reth, uint8_t* p) {
  StoreBe64(p, reth.address);
  StoreBe32(p + 8, reth.rkey);
  StoreBe32(p + 12, reth.length);
}

Aeth ParseAeth(const uint8_t* p) { return {.syndrome = p[0], .msn = LoadBe24(p + 1)}; }
void EmitAeth(const Aeth& aeth, uint8_t* p) {
  p[0] = aeth.syndrome;
  StoreBe24(p + 1, aeth.msn);
}

Deth ParseDeth(const uint8_t* p) {
  return {.qkey = LoadBe32(p), .source_qpn = Qpn{LoadBe24(p + 5)}};
}
void EmitDeth(const Deth& deth, uint8_t* p) {
  StoreBe32(p, deth.qkey);
  p[4] = 0;
  StoreBe24(p + 5, deth.source_qpn.value);
}

AtomicEth ParseAtomicEth(const uint8_t* p) {
  return {.address = LoadBe64(p),
          .rkey = LoadBe32(p + 8),
          .swap_or_add = LoadBe64(p + 12),
          .compare = LoadBe64(p + 20)};
}
void EmitAtomicEth(const AtomicEth& atomic, uint8_t* p) {
  StoreBe64(p, atomic.address);
  StoreBe32(p + 8, atomic.rkey);
  StoreBe64(p + 12, atomic.swap_or_add);
  StoreBe64(p + 20, atomic.compare);
}

uint64_t ParseAtomicAckEth(const uint8_t* p) { return LoadBe64(p); }
void EmitAtomicAckEth(uint64_t original, uint8_t* p) { StoreBe64(p, original); }

uint32_t ParseImmediate(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
void EmitImmediate(uint32_t immediate_be, uint8_t* p) {
  std::memcpy(p, &immediate_be, sizeof immediate_be);
}

uint32_t ParseIeth(const uint8_t* p) { return LoadBe32(p); }
void EmitIeth(uint32_t rkey, uint8_t* p) { StoreBe32(p, rkey); }

}  // namespace pollux::wire
