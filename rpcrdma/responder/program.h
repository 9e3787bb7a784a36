// What a server's user writes: programs, their procedures' handlers, and the replies they give.
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

// A call as it arrived. Everything stays where it was placed until the reply is given.
struct CallView {
  oncrpc::CallHeader header;
  Gid client_address;
  uint16_t client_port = 0;  // of RDMA CM
  uint64_t connection = 0;   // that it came by; for Server::OpenReverse() and CallReverse()
  absl::Span<const uint8_t> arguments;  // in the receive buffer, or pulled (long calls)
  // Pulled from Read chunks, by position.
  absl::Span<const oncrpc::ReducedItem> items;
  oncrpc::XdrReader reader() const { return oncrpc::XdrReader(arguments, items); }
};

// An eligible result: goes out by RDMA WRITE from where it lies when the client offers a Write
// chunk for it, else in the stream.
struct ResultItem {
  // Of a result of which pieces went ahead what follows them, if anything.
  absl::Span<const uint8_t> bytes;
  size_t position = 0;  // in the results without items, right after its length word
  // Called once, when `bytes` is not needed any more. Until then `bytes` must stay untouched; it
  // may lie in the call's pulled item, but not in its receive buffer.
  absl::AnyInvocable<void()> release;
};

// The next bytes of an eligible result, which go out ahead of the reply.
struct ResultPiece {
  absl::Span<const uint8_t> bytes;
  // As that of a ResultItem; also from within ReplyHandle::Write(), when nothing is to go out.
  absl::AnyInvocable<void()> release;
};

// The one reply to one call; may be kept and answered later, on the same core, but not longer than
// the server lives. Dropped unanswered it answers with a system error.
class ReplyHandle {
 public:
  ReplyHandle(Responder* responder, uint32_t slot) : responder_(responder), slot_(slot) {}
  ReplyHandle(ReplyHandle&& other) noexcept
      : responder_(std::exchange(other.responder_, nullptr)), slot_(other.slot_) {}
  ReplyHandle& operator=(ReplyHandle&&) = delete;
  ~ReplyHandle();

  // Success. `results` is XDR, without the items' bytes, and is copied before this returns. At most
  // kMaxItems items, by position; they are moved from. More, or out of order, is a system error.
  void Send(absl::Span<const uint8_t> results, absl::Span<ResultItem> items = {});
  void Send(absl::Span<const uint8_t> results, ResultItem item) {
    Send(results, absl::Span<ResultItem>(&item, 1));
  }
  // A reply of which the handler states everything but the XID: for upper layers that authenticate
  // by themselves, with a verifier of at most kMaxAuthBytes or a denial (without results). `reply`
  // is copied too.
  void Send(const oncrpc::ReplyHeader& reply, absl::Span<const uint8_t> results,
            absl::Span<ResultItem> items);
  // A large result may go out in pieces while the rest of it is still being made: whoever reads it
  // from a file works at the same time as the network and the client, with memory that stays in the
  // cache. It is the first eligible one; Send() brings what is left of it, with the length of all
  // of it in `results`. A reply without items says that there is no such result: what was written
  // is nothing's then. RFC 8166 section 4.3.2.2

  // The most bytes that the first eligible result may have to go out in pieces: the length of its
  // Write chunk. 0: it can only be given whole, since none is offered, or the reply is remembered.
  uint64_t PieceRoom();
  // Whether one Write() may be called now. Else pieces are on their way that the client has not
  // taken, as many as may be for all calls of its connection, or replies wait for what they hold of
  // the send queue.
  bool CanWrite() const;
  // The connection has ended or is about to: nothing reaches the client any more, and Write() drops
  // what it is given. Who makes a result for it may stop.
  bool client_is_gone() const;
  // Not with more than PieceRoom() in all, and not without CanWrite(): neither that nor the rest is
  // written, and a reply with items is ERR_CHUNK then. RFC 8166 section 4.5.3
  void Write(ResultPiece piece);

  // Bytes of pulled items, or of results' items, that the handler has copied: for
  // Counters::bytes_copied. Before the reply.
  void CountCopied(uint64_t bytes);
  // kGarbageArguments (RFC 8166 section 4.5.2: what the handler cannot decode) or kSystemError.
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

// `binding` states every procedure that has a handler.
struct Program {
  oncrpc::ProgramBinding binding;
  std::vector<Procedure> procedures;
  // Of every procedure that is not listed; none: there is no such procedure. `binding` says what
  // holds for the others too.
  Handler others;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_PROGRAM_H_
