// Programs, the handlers of their procedures, and replies: the interface for users of a server.
#ifndef POLLUX_RPCRDMA_RESPONDER_PROGRAM_H_
#define POLLUX_RPCRDMA_RESPONDER_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "oncrpc/binding.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"
#include "stack/base/types.h"

namespace pollux::rpcrdma {

class Responder;

// A call. All memory stays valid until the reply is sent.
struct CallView {
  oncrpc::CallHeader header;
  Gid client_address;
  uint16_t client_port = 0;  // of RDMA CM
  uint64_t connection = 0;   // the connection's number; for Server::OpenReverse() and CallReverse()
  // They are in the receive buffer, or in a buffer read from the client (long calls).
  absl::Span<const uint8_t> arguments;
  // Items read from Read chunks, ordered by position.
  absl::Span<const oncrpc::ReducedItem> items;
  oncrpc::XdrReader reader() const { return oncrpc::XdrReader(arguments, items); }
};

// An eligible result. It is sent by RDMA WRITE from its own memory if the client offers a Write
// chunk for it, otherwise in the stream.
struct ResultItem {
  // If pieces of the result were written before (ReplyHandle::Write()): the rest, which may be
  // empty.
  absl::Span<const uint8_t> bytes;
  size_t position = 0;  // in the results without items, right after its length word
  // Called once when `bytes` is no longer needed. Until then `bytes` must stay untouched. It may be
  // part of the call's items, but not of its receive buffer.
  absl::AnyInvocable<void()> release;
};

// The next bytes of an eligible result, sent ahead of the reply.
struct ResultPiece {
  absl::Span<const uint8_t> bytes;
  // As ResultItem::release; may be called during ReplyHandle::Write() if nothing is sent.
  absl::AnyInvocable<void()> release;
};

// The reply to one call. It may be kept and sent later, on the same core, while the server exists.
// If it is destroyed without a reply, the call gets a system error.
class ReplyHandle {
 public:
  ReplyHandle(Responder* responder, uint32_t slot) : responder_(responder), slot_(slot) {}
  ReplyHandle(ReplyHandle&& other) noexcept
      : responder_(std::exchange(other.responder_, nullptr)), slot_(other.slot_) {}
  ReplyHandle& operator=(ReplyHandle&&) = delete;
  ~ReplyHandle() {
    if (responder_ != nullptr) [[unlikely]]
      Fail(oncrpc::AcceptStatus::kSystemError);
  }

  // Sends a successful reply. `results` is XDR without the bytes of items and is copied during this
  // call. `items` holds at most kMaxItems, ordered by position, and is moved from. More items, or a
  // wrong order, result in a system error.
  void Send(absl::Span<const uint8_t> results, absl::Span<ResultItem> items = {});
  void Send(absl::Span<const uint8_t> results, ResultItem item) {
    Send(results, absl::Span<ResultItem>(&item, 1));
  }
  // Sends a reply whose header, except the XID, the handler provides: for upper layers that
  // authenticate by themselves, with a verifier of at most kMaxAuthBytes, or a denial without
  // results. `reply` is copied.
  void Send(const oncrpc::ReplyHeader& reply, absl::Span<const uint8_t> results,
            absl::Span<ResultItem> items);
  // A large result may be sent in pieces while the rest is still being produced. For a result read
  // from a file, reading, sending and receiving then overlap, in memory that stays in the cache.
  // Only the first eligible result can be sent this way. Send() adds the rest of it, and `results`
  // has its whole length. A reply without items means that there is no such result; bytes already
  // written are then meaningless. RFC 8166 section 4.3.2.2

  // The maximum bytes of pieces: the length of the first result's Write chunk. 0: the result can
  // only be sent whole, since the client offers no chunk, or the reply will be cached.
  uint64_t PieceRoom();
  // Whether Write() may be called once now. False if the connection's calls have the maximum of
  // pieces unacknowledged, or if replies wait for that room in the send queue.
  bool CanWrite() const;
  // The connection has ended or is about to: Write() drops its data, and the handler may stop
  // producing it.
  bool client_is_gone() const;
  // Sends the next piece. Requires CanWrite(), and at most PieceRoom() bytes in all; otherwise
  // neither this piece nor the rest is written, and a reply with items becomes ERR_CHUNK. RFC 8166
  // section 4.5.3
  void Write(ResultPiece piece);

  // Counts bytes of items, received or sent, that the handler has copied, in
  // Counters::bytes_copied. Call it before the reply.
  void CountCopied(uint64_t bytes);
  // Replies with kGarbageArguments (RFC 8166 section 4.5.2: the handler cannot decode them) or
  // kSystemError.
  void Fail(oncrpc::AcceptStatus status);

 private:
  Responder* responder_;
  uint32_t slot_;
};

using Handler = absl::AnyInvocable<void(const CallView&, ReplyHandle)>;

struct Procedure {
  uint32_t number = 0;
  Handler handler;
};

// A program with its handlers. `binding` must cover every procedure that has a handler.
struct Program {
  oncrpc::ProgramBinding binding;
  std::vector<Procedure> procedures;
  // Handles every procedure that is not listed, for which `binding` must have `others`. If empty,
  // such procedures do not exist.
  Handler others;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_PROGRAM_H_
