// One call, which is passed from the polled core to the threads of its export and back.
#ifndef POLLUX_NFS_SERVER_CALL_H_
#define POLLUX_NFS_SERVER_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "nfs/export/credential.h"
#include "nfs/procedures/call_context.h"
#include "nfs/procedures/data_calls.h"
#include "nfs/server/served_export.h"
#include "nfs/storage/storage.h"
#include "nfs/v3/binding.h"
#include "oncrpc/call.h"
#include "rpcrdma/responder/program.h"

namespace pollux::nfs {

// The object is reused for one call after the other. It holds the memory for results, into which
// file data is read and from which it is sent.
class Call final : public Storage::Job {
 public:
  // Implemented by the server, whose core receives the calls.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The call is done. Called on a storage thread or on the completion thread; must not block.
    virtual void PostDone(Call* call) = 0;
    // More of the data has been read. Called on the completion thread; must not block.
    virtual void PostPart(Call* call) = 0;
  };

  // The pointers are not owned and must outlive this object.
  Call(Owner* owner, ServedExport* served, WriteVerifier* verifier);

  // On the owner's core: starts a call on the export's threads. `tree` must exist until the call is
  // free again.
  void Start(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply, const ExportTree* tree);

  // On the owner's core, until the call is done: sends the data that was read and not sent yet.
  // `release` must call Release(). If too much is in flight, the data is sent later.
  void WriteAhead(absl::AnyInvocable<void()> release);
  // On the owner's core: called once for the reply and once for each part sent before it, when its
  // memory is not needed any more. Returns true for the last one: the object is then free for
  // another call.
  bool Release() { return --holds_ == 0; }

  // On the owner's core, after the call is done.
  struct Outcome {
    oncrpc::AuthStatus authenticated = oncrpc::AuthStatus::kOk;
    oncrpc::AcceptStatus accepted = oncrpc::AcceptStatus::kSuccess;
    Nfsstat3 status = Nfsstat3::kOk;
    uint64_t moved_bytes = 0;  // transferred between memory and file
    absl::Span<const uint8_t> results;
    std::optional<oncrpc::EligibleItem> item;
  };
  Procedure procedure() const { return static_cast<Procedure>(view_.header.procedure); }
  const Outcome& outcome() const { return outcome_; }
  // bytes of the item that were sent before the reply
  uint32_t ahead_bytes() const { return ahead_bytes_; }
  const ServedExport* served() const { return served_; }
  const ExportTree* tree() const { return context_.tree; }
  rpcrdma::ReplyHandle TakeReply();

  void Run(Storage& storage, Identity& identity) override;
  void Transferred(int result) override;
  void PartTransferred(int bytes) override;

 private:
  void Dispatch(Storage& storage);
  template <class Args, class Res>
  void Reply(Res (*serve)(const CallContext&, const Args&));
  template <class Args>
  void Begin(Storage& storage);
  template <class Res>
  void Finish(const Res& result);
  void Fail(oncrpc::AcceptStatus status);
  void Done();

  Owner* owner_;
  ServedExport* served_;
  std::unique_ptr<uint8_t[]> block_;
  std::unique_ptr<uint8_t[]> results_;
  CallContext context_;
  // The current call.
  rpcrdma::CallView view_;
  std::optional<rpcrdma::ReplyHandle> reply_;
  uint64_t piece_room_ = 0;               // ReplyHandle::PieceRoom()
  std::atomic<uint32_t> read_bytes_ = 0;  // bytes of the block read so far
  uint32_t ahead_bytes_ = 0;              // of these, sent to the client
  uint32_t holds_ = 0;
  Nfsstat3 refused_ = Nfsstat3::kOk;  // not kOk: the client is refused, whatever the call
  Nfsstat3 begun_ = Nfsstat3::kOk;
  std::optional<DataCall> data_;
  Outcome outcome_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_CALL_H_
