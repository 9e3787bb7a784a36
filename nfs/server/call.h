// One call on its way from the polled core through the threads of its export and back.
#ifndef POLLUX_NFS_SERVER_CALL_H_
#define POLLUX_NFS_SERVER_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "nfs/binding.h"
#include "nfs/server/call_context.h"
#include "nfs/server/credential.h"
#include "nfs/server/data_calls.h"
#include "nfs/server/served_export.h"
#include "nfs/server/storage.h"
#include "rpcrdma/call.h"
#include "rpcrdma/program.h"

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
  };

  // All outlive it.
  Call(Owner* owner, ServedExport* served, WriteVerifier* verifier);

  // The owner's core: takes a call whose reply is due and gives it to the export's threads.
  void Start(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);

  // The owner's core, once it is done.
  struct Outcome {
    AuthStatus authenticated = AuthStatus::kOk;
    rpcrdma::AcceptStatus accepted = rpcrdma::AcceptStatus::kSuccess;
    Nfsstat3 status = Nfsstat3::kOk;
    uint64_t moved_bytes = 0;  // between memory and file
    absl::Span<const uint8_t> results;
    std::optional<rpcrdma::EligibleItem> item;
  };
  Procedure procedure() const { return static_cast<Procedure>(view_.header.procedure); }
  const Outcome& outcome() const { return outcome_; }
  const ServedExport* served() const { return served_; }
  rpcrdma::ReplyHandle TakeReply();

  void Run(Storage& storage, Identity& identity) override;
  void Transferred(int result) override;

 private:
  void Dispatch(Storage& storage);
  template <class Args, class Res>
  void Answer(Res (*serve)(const CallContext&, const Args&));
  template <class Args>
  void Begin(Storage& storage);
  template <class Res>
  void Finish(const Res& result);
  void Fail(rpcrdma::AcceptStatus status);
  void Done();

  Owner* owner_;
  ServedExport* served_;
  std::unique_ptr<uint8_t[]> block_;
  std::unique_ptr<uint8_t[]> results_;
  CallContext context_;
  // Of the call in hand.
  rpcrdma::CallView view_;
  std::optional<rpcrdma::ReplyHandle> reply_;
  Nfsstat3 refused_ = Nfsstat3::kOk;  // whatever it asks
  Nfsstat3 begun_ = Nfsstat3::kOk;
  std::optional<DataCall> data_;
  Outcome outcome_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_CALL_H_
