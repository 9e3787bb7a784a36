// An XDR stream that encodes for RPC-over-RDMA: an opaque that the binding calls DDP-eligible is
// not copied into the stream but noted, with its place. Source: RFC 8166 section 3.4.2.
#ifndef POLLUX_RPCRDMA_TIRPC_XDR_ENCODER_H_
#define POLLUX_RPCRDMA_TIRPC_XDR_ENCODER_H_

#include <rpc/rpc.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rpcrdma/tirpc/upper_layer.h"

namespace pollux::rpcrdma::tirpc {

// For one thread at a time. Keeps its memory from one message to the next.
class XdrEncoder {
 public:
  struct Item {
    absl::Span<const uint8_t> bytes;  // the user's; empty: this one has none
    size_t position = 0;              // in bytes(), right after its length word
  };

  XdrEncoder();
  XdrEncoder(const XdrEncoder&) = delete;
  XdrEncoder& operator=(const XdrEncoder&) = delete;

  // Begins a message of at most `max_bytes`, without items.
  void Reset(size_t max_bytes);
  // From now on the opaques that `structure`'s `fields` point to are items. Both outlive the
  // message.
  void Watch(const ItemFields* fields, const void* structure);
  // What XDR procedures are called with. An operation fails past max_bytes, for an item larger than
  // the binding allows, and for a move within a stream that an item was taken out of.
  XDR* xdr() { return &xdr_; }

  absl::Span<const uint8_t> bytes() const { return {buffer_.data(), at_}; }
  // In the order of the fields, up to the last that was met.
  absl::Span<const Item> items() const { return items_; }

 private:
  static XdrEncoder& Of(XDR* xdr) { return *static_cast<XdrEncoder*>(xdr->x_private); }
  static bool_t GetLong(XDR* xdr, long* value);
  static bool_t PutLong(XDR* xdr, const long* value);
  static bool_t GetBytes(XDR* xdr, char* bytes, u_int count);
  static bool_t PutBytes(XDR* xdr, const char* bytes, u_int count);
  static u_int GetPosition(XDR* xdr);
  static bool_t SetPosition(XDR* xdr, u_int position);
  static int32_t* Inline(XDR* xdr, u_int count);
  static void Destroy(XDR* xdr);
  static bool_t Control(XDR* xdr, int request, void* info);
  static const XDR::xdr_ops kOperations;

  // Room for `count` more bytes, or null.
  uint8_t* Take(size_t count);
  bool IsItem(const char* bytes, u_int count);
  bool TakeItem(const char* bytes, u_int count);

  XDR xdr_{};
  std::vector<uint8_t> buffer_;
  size_t at_ = 0;
  size_t max_bytes_ = 0;
  const ItemFields* fields_ = nullptr;
  const char* structure_ = nullptr;
  std::vector<Item> items_;
  size_t pad_ = 0;           // of the item that was just taken: what comes next, if anything
  bool after_word_ = false;  // the last operation put a word, `word_`
  uint32_t word_ = 0;
  size_t field_ = 0;  // the one that IsItem() found
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_XDR_ENCODER_H_
