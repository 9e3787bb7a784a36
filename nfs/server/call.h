// One call on its way from the polled core through the threads of its export and back.
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

// Made once and used for one call after the other. Results lie in its memory: file data is read
// there and goes out from there.
class Call final : public Storage::Job {
 public:
  // On the core that the calls came by.
  class Owner {
   public:
    virtual ~Owner() = default;
    // From a storage thread or that of completions: the call is done. Must not wait.
    virtual void PostDone(Call* call) = 0;
    // From that of completions: more of what is to be read is there. Must not wait.
    virtual void PostPart(Call* call) = 0;
  };

  // All outlive it.
  Call(Owner* owner, ServedExport* served, WriteVerifier* verifier);

  // The owner's core: takes a call whose reply is due and gives it to the export's threads.
  void Start(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);

  // The owner's core, until it is done: what was read and has not gone to the client yet goes, and
  // `release` is to Release(). When too much is on its way it goes with what comes next.
  void WriteAhead(absl::AnyInvocable<void()> release);
  // The owner's core: once for the reply, and once for each part that went ahead, when its memory
  // is not needed any more. True when that was the last: another call may be taken.
  bool Release() { return --holds_ == 0; }

  // The owner's core, once it is done.
  struct Outcome {
    oncrpc::AuthStatus authenticated = oncrpc::AuthStatus::kOk;
    oncrpc::AcceptStatus accepted = oncrpc::AcceptStatus::kSuccess;
    Nfsstat3 status = Nfsstat3::kOk;
    uint64_t moved_bytes = 0;  // between memory and file
    absl::Span<const uint8_t> results;
    std::optional<oncrpc::EligibleItem> item;
  };
  Procedure procedure() const { return static_cast<Procedure>(view_.header.procedure); }
  const Outcome& outcome() const { return outcome_; }
  uint32_t ahead_bytes() const { return ahead_bytes_; }  // of the item
  const ServedExport* served() const { return served_; }
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
  // Of the call in hand.
  rpcrdma::CallView view_;
  std::optional<rpcrdma::ReplyHandle> reply_;
  uint64_t piece_room_ = 0;               // of the reply
  std::atomic<uint32_t> read_bytes_ = 0;  // so far, of the block
  uint32_t ahead_bytes_ = 0;              // of those, gone to the client
  uint32_t holds_ = 0;
  Nfsstat3 refused_ = Nfsstat3::kOk;  // whatever it asks
  Nfsstat3 begun_ = Nfsstat3::kOk;
  std::optional<DataCall> data_;
  Outcome outcome_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_CALL_H_
