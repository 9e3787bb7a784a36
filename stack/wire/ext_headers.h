// The extended transport headers that may follow a BTH. Source: IB specification 9.3.
#ifndef POLLUX_STACK_WIRE_EXT_HEADERS_H_
#define POLLUX_STACK_WIRE_EXT_HEADERS_H_

#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"

namespace pollux::wire {

inline constexpr size_t kFethBytes = 4;
inline constexpr size_t kRethBytes = 16;
inline constexpr size_t kAethBytes = 4;
inline constexpr size_t kImmediateBytes = 4;
inline constexpr size_t kIethBytes = 4;
inline constexpr size_t kAtomicEthBytes = 28;
inline constexpr size_t kAtomicAckEthBytes = 8;
inline constexpr size_t kDethBytes = 8;

// All fields are in host byte order unless noted.
struct Reth {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;  // DMA length, bytes
  friend bool operator==(const Reth&, const Reth&) = default;
};

// What a FLUSH does, and to what: the values of rdma-core's ibv_placement_type and
// ibv_selectivity_level. Source: IB specification volume 1, annex A19.
inline constexpr uint8_t kFlushGlobal = 1 << 0;      // makes earlier writes visible to all readers
inline constexpr uint8_t kFlushPersistent = 1 << 1;  // and keeps them when the power fails
inline constexpr uint8_t kFlushRange = 0;            // the bytes that the RETH names
inline constexpr uint8_t kFlushRegion = 1;           // the whole region of its key
struct Feth {
  uint8_t placement = 0;    // 4 bits: kFlushGlobal, kFlushPersistent
  uint8_t selectivity = 0;  // 2 bits: kFlushRange or kFlushRegion
  friend bool operator==(const Feth&, const Feth&) = default;
};

struct Aeth {
  uint8_t syndrome = 0;
  uint32_t msn = 0;  // 24 bits
  friend bool operator==(const Aeth&, const Aeth&) = default;
};

struct Deth {
  uint32_t qkey = 0;
  Qpn source_qpn;
  friend bool operator==(const Deth&, const Deth&) = default;
};

struct AtomicEth {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;
  friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

// AETH syndromes.
inline constexpr uint8_t kAckNoCredits = 0x1F;  // ACK without credit information
inline constexpr uint8_t kRnrNak = 0x20;        // | RNR timer code, 5 bits
inline constexpr uint8_t kNakPsnSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperational = 0x63;
constexpr bool IsAck(uint8_t syndrome) { return (syndrome & 0xE0) == 0x00; }
constexpr bool IsRnrNak(uint8_t syndrome) { return (syndrome & 0xE0) == 0x20; }
constexpr bool IsNak(uint8_t syndrome) { return (syndrome & 0xE0) == 0x60; }
// Returns "ACK", "RNR NAK", "NAK PSN sequence error" and so on, or "reserved".
const char* SyndromeName(uint8_t syndrome);

// The delay for an RNR timer code (5 bits). Source: IB specification table 45.
uint32_t RnrDelayUs(uint8_t code);
// Returns 4.096 us * 2^code for codes 1 to 31, and 0 (never) for code 0. Used for the local ACK
// timeout and CM timeouts.
constexpr uint64_t TimeoutCodeNs(uint8_t code) {
  constexpr uint64_t kUnitNs = 4096;
  code &= 0x1F;
  return code == 0 ? 0 : kUnitNs << code;
}

// Each function reads or writes exactly the bytes of its header (kRethBytes and so on) at `p`.
Feth ParseFeth(const uint8_t* p);
void EmitFeth(const Feth& feth, uint8_t* p);
Reth ParseReth(const uint8_t* p);
void EmitReth(const Reth& reth, uint8_t* p);
Aeth ParseAeth(const uint8_t* p);
void EmitAeth(const Aeth& aeth, uint8_t* p);
Deth ParseDeth(const uint8_t* p);
void EmitDeth(const Deth& deth, uint8_t* p);
AtomicEth ParseAtomicEth(const uint8_t* p);
void EmitAtomicEth(const AtomicEth& atomic, uint8_t* p);
uint64_t ParseAtomicAckEth(const uint8_t* p);
void EmitAtomicAckEth(uint64_t original, uint8_t* p);
// Immediate data is opaque and stays in network byte order.
uint32_t ParseImmediate(const uint8_t* p);
void EmitImmediate(uint32_t immediate_be, uint8_t* p);
uint32_t ParseIeth(const uint8_t* p);
void EmitIeth(uint32_t rkey, uint8_t* p);

}  // namespace pollux::wire

#endif  // POLLUX_STACK_WIRE_EXT_HEADERS_H_
