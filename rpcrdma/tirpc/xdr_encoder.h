// An XDR stream that encodes messages for RPC-over-RDMA. An opaque that the binding declares
// DDP-eligible is not copied to the stream; its address and position are recorded instead. Source:
// RFC 8166 section 3.4.2.
#ifndef POLLUX_RPCRDMA_TIRPC_XDR_ENCODER_H_
#define POLLUX_RPCRDMA_TIRPC_XDR_ENCODER_H_

#include <rpc/rpc.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rpcrdma/tirpc/upper_layer.h"

namespace pollux::rpcrdma::tirpc {

// Not thread-safe. Reuses its memory for the next message.
class XdrEncoder {
 public:
  struct Item {
    absl::Span<const uint8_t> bytes;  // the user's memory; empty if the field is not set
    size_t position = 0;              // in bytes(), directly after its length word
  };

  XdrEncoder();
  XdrEncoder(const XdrEncoder&) = delete;
  XdrEncoder& operator=(const XdrEncoder&) = delete;

  // Begins a message of at most `max_bytes`, without items.
  void Reset(size_t max_bytes);
  // Treats the opaques to which `fields` of `structure` point as items. Both must outlive the
  // message.
  void Watch(const ItemFields* fields, const void* structure);
  // The stream for XDR procedures. An operation fails beyond max_bytes, for an item larger than the
  // binding allows, and for a change of position in a stream from which an item was left out.
  XDR* xdr() { return &xdr_; }

  absl::Span<const uint8_t> bytes() const { return {buffer_.data(), at_}; }
  // In the order of the fields, up to the last one that was encoded.
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

  // Reserves `count` more bytes; null if they do not fit.
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
  size_t pad_ = 0;           // the pad of the last item, which the next operation encodes
  bool after_word_ = false;  // the last operation encoded a word, `word_`
  uint32_t word_ = 0;
  size_t field_ = 0;  // the field that IsItem() found
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_XDR_ENCODER_H_
