// An XDR stream that decodes messages received by RPC-over-RDMA. For an opaque that was transferred
// in a chunk, the structure points to the chunk's data, without a copy. Source: RFC 8166 section
// 6.1.
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

// Not thread-safe.
class XdrDecoder {
 public:
  // A field that was null before the decoding. It now points to the item in its chunk, and the
  // memory that xdr_bytes() had allocated for it was freed. Code that frees the structure must not
  // free the item.
  struct Adopted {
    char** field = nullptr;
    size_t item = 0;  // index in the items of Watch()
  };

  XdrDecoder();
  XdrDecoder(const XdrDecoder&) = delete;
  XdrDecoder& operator=(const XdrDecoder&) = delete;

  // Starts to decode `bytes`, which must remain valid, without items.
  void Reset(absl::Span<const uint8_t> bytes);
  // Sets the items that were moved out of the stream. Items of arguments have positions (as in
  // CallView::items); items of results are in the order of `fields` (as in Reply::items). If a
  // field already points to memory of the user, the item is copied there. All must remain valid
  // during the decoding.
  void Watch(const ItemFields* fields, void* structure,
             absl::Span<const oncrpc::ReducedItem> items);
  // The stream for XDR procedures. An operation fails beyond the end, for an item that is not
  // eligible or whose length differs from the one in the stream, and for a change of position once
  // an item was read. A result in the stream is refused if its Write chunk was offered and was not
  // returned empty. Other results in the stream, such as those of another arm of a union, are read
  // from it.
  XDR* xdr() { return &xdr_; }

  // Whether every item with a position was read.
  bool TookAll() const { return next_ == items_.size() || !items_[next_].position.has_value(); }
  absl::Span<const Adopted> adopted() const { return adopted_; }
  // Bytes of items that were copied to the user's memory.
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
  // The field into which `bytes`, the next bytes of the stream, are decoded; kNone if there is
  // none.
  size_t FieldOf(const char* bytes, u_int count) const;
  // The item that is decoded next; kNone if its bytes are in the stream.
  size_t ItemOf(size_t field) const;
  bool TakeItem(size_t item, size_t field, char* bytes, u_int count);

  XDR xdr_{};
  absl::Span<const uint8_t> bytes_;
  size_t at_ = 0;
  size_t moved_ = 0;  // bytes of the items read, with their pads
  const ItemFields* fields_ = nullptr;
  char* structure_ = nullptr;
  absl::Span<const oncrpc::ReducedItem> items_;
  size_t next_ = 0;             // the next item with a position
  std::vector<bool> was_null_;  // by field, before the decoding
  std::vector<Adopted> adopted_;
  uint64_t copied_bytes_ = 0;
  size_t pad_ = 0;
  bool after_word_ = false;
  uint32_t word_ = 0;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_XDR_DECODER_H_
