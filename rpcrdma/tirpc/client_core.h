// The part of a CLIENT that runs on the worker: the connection, and the current call of the
// CLIENT's user.
#ifndef POLLUX_RPCRDMA_TIRPC_CLIENT_CORE_H_
#define POLLUX_RPCRDMA_TIRPC_CLIENT_CORE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "oncrpc/call.h"
#include "oncrpc/rpc_message.h"
#include "rpcrdma/client.h"
#include "rpcrdma/tirpc/host.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::rpcrdma::tirpc {

// The result of a call. Written on the worker's core, and read by the waiting thread after it has
// been signalled.
struct Outcome {
  absl::Status status;         // not OK: there is no RPC reply
  bool sent = false;           // the client accepted the call for sending
  oncrpc::ReplyHeader header;  // its verifier points into `verifier`
  std::array<uint8_t, oncrpc::kMaxAuthBytes> verifier;
  // They are in `message`, or in the request's reply buffer.
  absl::Span<const uint8_t> results;
  std::vector<uint8_t> message;
  // They are in the request's item buffers.
  std::array<oncrpc::ReducedItem, oncrpc::kMaxItems> items;
  size_t item_count = 0;
};

// Created, used and destroyed on the worker's core, where callbacks run, too. One Connect() or
// Call() at a time.
class ClientCore {
 public:
  static absl::StatusOr<std::unique_ptr<ClientCore>> Create(const Host& host,
                                                            const SocketAddress& server,
                                                            oncrpc::ProgramBinding binding);
  ~ClientCore();

  // `done` is called once, when `*outcome` is complete; neither is used after that. A time-out of 0
  // means no limit. Errors as Client::Connect(); DeadlineExceeded.
  void Connect(uint64_t timeout_ns, Outcome* outcome, absl::AnyInvocable<void()> done);
  // As Client::Call(), with the request's time-out. Connects again if the connection has ended.
  // `request` and all memory to which it refers must remain valid until `done`.
  void Call(const oncrpc::CallRequest* request, Outcome* outcome, absl::AnyInvocable<void()> done);
  static constexpr uint64_t kDisconnectTimeoutNs = 2'000'000'000;
  // Ends the connection (DREQ). `done` is called once: when the server has answered the DREQ, or
  // after kDisconnectTimeoutNs. A call in progress ends first. Only the destructor may be called
  // afterwards.
  void Disconnect(absl::AnyInvocable<void()> done);
  // Counts bytes of items that the CLIENT has copied.
  void CountCopied(uint64_t bytes) { client_->CountCopied(bytes); }
  const Counters& counters() const { return client_->counters(); }
  // Replaces the binding against which calls are checked. Only while no call is in progress.
  void Rebind(oncrpc::ProgramBinding binding) { client_->Rebind(std::move(binding)); }

 private:
  ClientCore(const Host& host, const SocketAddress& server);
  void Begin(const oncrpc::CallRequest* request, uint64_t timeout_ns, Outcome* outcome,
             absl::AnyInvocable<void()> done);
  void OnConnected(const absl::Status& status);
  void Send(uint64_t timeout_ns);
  void Take(const absl::Status& status, const oncrpc::Reply* reply);
  void End(absl::Status status);
  void OnEnded();
  static void OnTimeout(void* core, uint64_t now_ns);
  static void OnDisconnectTimeout(void* core, uint64_t now_ns);

  Host host_;
  SocketAddress server_;
  std::unique_ptr<Client> client_;
  bool connecting_ = false;
  // The argument of Disconnect().
  absl::AnyInvocable<void()> on_disconnected_;
  engine::Timer disconnect_timer_;
  // The state of the request in progress.
  bool awaits_connection_ = false;
  uint64_t deadline_ns_ = 0;                      // 0: none
  const oncrpc::CallRequest* request_ = nullptr;  // null: only to connect
  Outcome* outcome_ = nullptr;
  absl::AnyInvocable<void()> done_;
  engine::Timer timer_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_CLIENT_CORE_H_
