// A client of NFS version 4.1 on one RPC-over-RDMA connection that serves calls both ways: the
// server's callbacks come by the reverse direction. Source: RFC 8881, RFC 8167.
#ifndef POLLUX_TESTS_INTEROP_PEER_NFS4_CLIENT_H_
#define POLLUX_TESTS_INTEROP_PEER_NFS4_CLIENT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "oncrpc/codec.h"
#include "rpcrdma/client.h"
#include "stack/engine/loop/worker.h"
#include "tests/interop/peer/nfs4.h"
#include "tests/interop/peer/nfs4_callback.h"

namespace pollux::nfs4 {

// XDR of a compound, or of its results, at most: each fits a message of the default inline size.
inline constexpr uint32_t kMaxCompoundBytes = 2048;

// Belongs to one worker's core: made, called, called back and destroyed there. Callbacks may do
// anything but destroy it.
class Client {
 public:
  struct Config {
    oncrpc::AuthSys credential;  // its name outlives Create()
    uint64_t timeout_ns = 0;     // of each call
  };

  // `worker` and `manager` outlive the client. InvalidArgument: a credential past its bounds.
  static absl::StatusOr<std::unique_ptr<Client>> Create(engine::Worker* worker,
                                                        cm::Manager* manager, const Config& config);

  // As rpcrdma::Client::Connect. Once.
  absl::Status Connect(const SocketAddress& server,
                       absl::AnyInvocable<void(absl::Status)> on_connected);
  // Ends the connection (DREQ). `done` when it is gone; at once when there is none.
  void Disconnect(absl::AnyInvocable<void()> done);

  // One at a time. `done` is called once with an absl::StatusOr<CompoundRes<Ops...>>, at once when
  // the call cannot be made: results whose own status is the caller's to look at, DataLoss for some
  // that do not decode, or as rpcrdma::Client::Call and CallDone. Names in the results are gone.
  template <class Done, class... Ops>
  void Call(const Compound<Ops...>& compound, Done done) {
    const oncrpc::Encoded encoded = oncrpc::Encode(compound, absl::MakeSpan(arguments_));
    Send(encoded,
         [done = std::move(done)](absl::Status status, const oncrpc::Reply* reply) mutable {
           if (!status.ok()) return done(std::move(status));
           CompoundRes<Ops...> results;
           if (!oncrpc::Decode(reply->reader(), &results)) {
             return done(absl::DataLossError("the server's results do not decode"));
           }
           done(std::move(results));
         });
  }

  // The session whose callbacks are taken from now on.
  void SetSession(const SessionId& session) { session_ = session; }
  // `on_recall` is called, never from inside a call here, when the server has recalled a
  // delegation, and has been answered.
  void SetObserver(absl::AnyInvocable<void(const CbRecall&)> on_recall) {
    on_recall_ = std::move(on_recall);
  }
  // CB_COMPOUNDs that were answered, and those that were no such thing or of another session.
  uint32_t callbacks() const { return callbacks_; }
  uint32_t refused_callbacks() const { return refused_; }

 private:
  explicit Client(uint64_t timeout_ns) : timeout_ns_(timeout_ns) {}
  absl::Status RegisterCallbacks();
  void Send(const oncrpc::Encoded& encoded, oncrpc::CallDone done);
  void OnCallback(const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply);

  std::array<uint8_t, oncrpc::kMaxAuthBytes> credential_;
  std::array<uint8_t, kMaxCompoundBytes> arguments_;
  const uint64_t timeout_ns_;
  std::unique_ptr<rpcrdma::Client> rpc_;
  bool connected_ = false;
  absl::AnyInvocable<void()> disconnected_;
  SessionId session_;
  absl::AnyInvocable<void(const CbRecall&)> on_recall_;
  uint32_t callbacks_ = 0;
  uint32_t refused_ = 0;
};

}  // namespace pollux::nfs4

#endif  // POLLUX_TESTS_INTEROP_PEER_NFS4_CLIENT_H_
