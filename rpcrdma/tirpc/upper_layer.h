// Upper-layer bindings for programs whose arguments and results are C structures from rpcgen: they
// state which fields are DDP-eligible. Source: RFC 8166 section 6.
#ifndef POLLUX_RPCRDMA_TIRPC_UPPER_LAYER_H_
#define POLLUX_RPCRDMA_TIRPC_UPPER_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oncrpc/binding.h"

namespace pollux::rpcrdma::tirpc {

// Default maximum for arguments and for results, in bytes of XDR, of a program without a binding.
inline constexpr uint32_t kDefaultMaxBytes = 1u << 20;
// Bytes that RPCSEC_GSS adds to protected arguments or results: lengths, the sequence number, and a
// checksum or a cipher's padding and trailer. RFC 2203 section 5.3.2
inline constexpr uint32_t kMaxProtectionBytes = 1024;
// Maximum bytes of a GSS-API token, which is sent in calls of procedure 0. RFC 2203 section 5.2.2
inline constexpr uint32_t kMaxTokenBytes = 64 * 1024;

// The eligible items of one structure: fields of the form opaque NAME<>, which rpcgen turns into
// {u_int NAME_len; char *NAME_val}. Strings and data behind another pointer are not eligible.
struct ItemFields {
  // Offsets of the NAME_val pointers in the structure, in XDR order; at most kMaxItems.
  std::vector<size_t> offsets;
  uint32_t max_bytes = 0;  // per item

  bool operator==(const ItemFields&) const = default;
};

struct ProcedureItems {
  uint32_t procedure = 0;
  ItemFields arguments;
  ItemFields results;

  bool operator==(const ProcedureItems&) const = default;
};

struct UpperLayer {
  oncrpc::ProgramBinding binding;  // must have `others`
  std::vector<ProcedureItems> items;

  // For a program without a binding: no eligible items, kDefaultMaxBytes each for arguments and
  // results.
  static UpperLayer Default(uint32_t program, uint32_t version);

  // Return empty items for a procedure without any.
  const ItemFields& ArgumentsOf(uint32_t procedure) const;
  const ItemFields& ResultsOf(uint32_t procedure) const;
  // The binding with room for RPCSEC_GSS. Eligible items then stay in the stream and are protected
  // with it.
  oncrpc::ProgramBinding WithProtection() const;
  // The size of the largest protected arguments or long reply, in bytes. The server's bulk buffers
  // must be at least this large.
  uint32_t LargestMessage() const;

  bool operator==(const UpperLayer&) const = default;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_UPPER_LAYER_H_
