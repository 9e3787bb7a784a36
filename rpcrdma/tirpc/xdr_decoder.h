// An XDR stream that decodes what came by RPC-over-RDMA: opaques that travelled in chunks are given
// to the structure where they were placed, without a copy. Source: RFC 8166 section 6.1.
#ifndef POLLUX_RPCRDMA_TIRPC_XDR_DECODER_H_
#define POLLUX_RPCRDMA_TIRPC_XDR_DECODER_H_

#include <rpc/rpc.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/tirpc/upper_layer.h"

namespace pollux::rpcrdma::tirpc {

// For one thread at a time.
class XdrDecoder {
 public:
  // A field that was null: what xdr_bytes() had allocated for it was freed, and it points to where
  // the item was placed. Whoever frees the structure must know.
  struct Adopted {
    char** field = nullptr;
    size_t item = 0;  // of those given to Watch()
  };

  XdrDecoder();
  XdrDecoder(const XdrDecoder&) = delete;
  XdrDecoder& operator=(const XdrDecoder&) = delete;

  // Begins with `bytes`, which outlive the decoding, and no items.
  void Reset(absl::Span<const uint8_t> bytes);
  // `items` were moved out of the stream. Arguments have positions (as CallView::items); results
  // stand in the order of `fields` (as Reply::items). An item of a field that points to memory of
  // the user's already is copied there. All outlive the decoding.
  void Watch(const ItemFields* fields, void* structure,
             absl::Span<const oncrpc::ReducedItem> items);
  // What XDR procedures are called with. An operation fails past the end, where an item is no
  // eligible one or not as long as the stream says, and for a move. A result that is in the stream
  // although it had a Write chunk is taken from there: it may be another arm's of a union.
  XDR* xdr() { return &xdr_; }

  // Every item with a position was taken.
  bool TookAll() const { return next_ == items_.size() || !items_[next_].position.has_value(); }
  absl::Span<const Adopted> adopted() const { return adopted_; }
  // Of items, into memory of the user's.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  static XdrDecoder& Of(XDR* xdr) { return *static_cast<XdrDecoder*>(xdr->x_private); }
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

  static constexpr size_t kNone = SIZE_MAX;
  const uint8_t* Take(size_t count);
  char** FieldAt(size_t field) const;
  // Of the field that `bytes`, which come now, are decoded for; kNone.
  size_t FieldOf(const char* bytes, u_int count) const;
  // Of the item that comes now; kNone when the bytes are in the stream.
  size_t ItemOf(size_t field) const;
  bool TakeItem(size_t item, size_t field, char* bytes, u_int count);

  XDR xdr_{};
  absl::Span<const uint8_t> bytes_;
  size_t at_ = 0;
  size_t moved_ = 0;  // bytes of the items taken, with their pads
  const ItemFields* fields_ = nullptr;
  char* structure_ = nullptr;
  absl::Span<const oncrpc::ReducedItem> items_;
  size_t next_ = 0;             // of items with positions
  std::vector<bool> was_null_;  // by field, before the decoding
  std::vector<Adopted> adopted_;
  uint64_t copied_bytes_ = 0;
  size_t pad_ = 0;
  bool after_word_ = false;
  uint32_t word_ = 0;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_XDR_DECODER_H_
