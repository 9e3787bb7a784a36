// Upper-layer bindings of programs whose arguments and results are rpcgen's C structures: which
// fields of them are DDP-eligible. Source: RFC 8166 section 6.
#ifndef POLLUX_RPCRDMA_TIRPC_UPPER_LAYER_H_
#define POLLUX_RPCRDMA_TIRPC_UPPER_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oncrpc/binding.h"

namespace pollux::rpcrdma::tirpc {

// The arguments or the results of a program without a binding of its own; bytes of XDR.
inline constexpr uint32_t kDefaultMaxBytes = 1u << 20;
// What RPCSEC_GSS adds to arguments or results that it protects: lengths, sequence number, a
// checksum or the padding and trailer of a cipher. RFC 2203 section 5.3.2
inline constexpr uint32_t kMaxProtectionBytes = 1024;
// A token of GSS-API, which travels in calls of procedure 0. RFC 2203 section 5.2.2
inline constexpr uint32_t kMaxTokenBytes = 64 * 1024;

// The eligible items of one structure: opaque NAME<>, which rpcgen makes {u_int NAME_len; char
// *NAME_val}. Strings, and what is reached through another pointer, cannot be one.
struct ItemFields {
  // Of the NAME_val pointers in the structure, in the order of XDR; at most kMaxItems.
  std::vector<size_t> offsets;
  uint32_t max_bytes = 0;  // of each
};

struct ProcedureItems {
  uint32_t procedure = 0;
  ItemFields arguments;
  ItemFields results;
};

struct UpperLayer {
  oncrpc::ProgramBinding binding;  // has `others`
  std::vector<ProcedureItems> items;

  // Of a program of which nothing is known: no eligible items, kDefaultMaxBytes each way.
  static UpperLayer Default(uint32_t program, uint32_t version);

  // Empty ones for a procedure that has none.
  const ItemFields& ArgumentsOf(uint32_t procedure) const;
  const ItemFields& ResultsOf(uint32_t procedure) const;
  // With the room that RPCSEC_GSS needs, for who checks calls by it: eligible items are then in the
  // stream, protected with the rest.
  oncrpc::ProgramBinding WithProtection() const;
  // The largest arguments, or long reply, that there can be, protected: what one bulk buffer of a
  // server has to hold.
  uint32_t LargestMessage() const;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_UPPER_LAYER_H_
