// Checks the frames of one capture in order: decoding, ICRC, and re-encoding of the packet and of
// the CM MAD or RPC-over-RDMA header in it. Also counts the kinds of frames.
#ifndef POLLUX_TESTS_CONFORMANCE_CHECKER_H_
#define POLLUX_TESTS_CONFORMANCE_CHECKER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "cm/wire/mad.h"
#include "stack/wire/roce_packet.h"
#include "tools/decode/rpc_connections.h"

namespace pollux::conformance {

struct Counts {
  uint64_t frames = 0;
  uint64_t roce = 0;    // UDP port 4791, well-formed or not
  uint64_t rocev1 = 0;  // EtherType 0x8915: ICRC verified only
  uint64_t failed = 0;
  std::map<uint8_t, uint64_t> opcodes;
  std::map<uint8_t, uint64_t> syndromes;  // of AETHs
  std::map<uint16_t, uint64_t> mads;      // by attribute
  std::map<uint32_t, uint64_t> rpcs;      // by RPC-over-RDMA procedure

  void Add(const Counts& other);
};

class Checker {
 public:
  // Returns why the frame fails; empty if it passes or is not RoCE.
  std::string Check(std::span<const uint8_t> frame);
  // Checks that the RPC-over-RDMA header at the start of a Send's payload can be decoded and
  // re-encoded to the same bytes. Called by Check() for connections whose CM exchange is in the
  // capture.
  std::string CheckRpcHeader(std::span<const uint8_t> message);

  const Counts& counts() const { return counts_; }

 private:
  std::string CheckRoceV1(std::span<const uint8_t> frame);
  std::string CheckRoce(std::span<const uint8_t> frame, const wire::RocePacket& packet);
  std::string CheckMad(const wire::RocePacket& packet);

  Counts counts_;
  decode::RpcConnections rpc_;
};

}  // namespace pollux::conformance

#endif  // POLLUX_TESTS_CONFORMANCE_CHECKER_H_
