// A client of NFS version 4.1 on one RPC-over-RDMA connection, on which the server's callbacks use
// the reverse direction. Source: RFC 8881, RFC 8167.
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

// The maximum XDR size of a compound and of its results. Both fit into a message of the default
// inline size.
inline constexpr uint32_t kMaxCompoundBytes = 2048;

// Belongs to one worker's core: create, use and destroy it there; callbacks run there. Callbacks
// may call any function except the destructor.
class Client {
 public:
  struct Config {
    oncrpc::AuthSys credential;  // its name must outlive Create()
    uint64_t timeout_ns = 0;     // per call
  };

  // `worker` and `manager` must outlive the client. InvalidArgument for a credential beyond its
  // limits.
  static absl::StatusOr<std::unique_ptr<Client>> Create(engine::Worker* worker,
                                                        cm::Manager* manager, const Config& config);

  // As rpcrdma::Client::Connect(). Call it once.
  absl::Status Connect(const SocketAddress& server,
                       absl::AnyInvocable<void(absl::Status)> on_connected);
  // Ends the connection by a DREQ. `done` is called when it is gone, or at once if there is none.
  void Disconnect(absl::AnyInvocable<void()> done);

  // Makes a call; one at a time. `done` is called once, during this call if the call cannot be
  // made, with an absl::StatusOr<CompoundRes<Ops...>>: results whose status the caller must check,
  // DataLoss for results that cannot be decoded, or the errors of rpcrdma::Client::Call() and
  // CallDone. Names in the results are not valid.
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

  // Sets the session whose callbacks are accepted from now on.
  void SetSession(const SessionId& session) { session_ = session; }
  // `on_recall` is called when the server has recalled a delegation and the reply has been sent;
  // never during a call to this object.
  void SetObserver(absl::AnyInvocable<void(const CbRecall&)> on_recall) {
    on_recall_ = std::move(on_recall);
  }
  // The numbers of CB_COMPOUNDs that were answered, and of callbacks that were refused because they
  // were malformed or of another session.
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
