// The worker's half of a CLIENT: the connection, and the one call that the CLIENT's user waits for.
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

// What a call came to. Filled in on the worker's core, read by the thread that waits once it was
// told so.
struct Outcome {
  absl::Status status;         // not OK: there is no RPC reply
  bool sent = false;           // it was taken to be sent
  oncrpc::ReplyHeader header;  // its verifier lies in `verifier`
  std::array<uint8_t, oncrpc::kMaxAuthBytes> verifier;
  // In `message`, or in the request's reply buffer.
  absl::Span<const uint8_t> results;
  std::vector<uint8_t> message;
  // In the request's item buffers.
  std::array<oncrpc::ReducedItem, oncrpc::kMaxItems> items;
  size_t item_count = 0;
};

// Made, called, called back and destroyed on the worker's core. One Connect() or Call() at a time.
class ClientCore {
 public:
  static absl::StatusOr<std::unique_ptr<ClientCore>> Create(const Host& host,
                                                            const SocketAddress& server,
                                                            oncrpc::ProgramBinding binding);
  ~ClientCore();

  // `done` is called once, when `*outcome` is filled in; then both are free again. A time-out of 0
  // never comes. Errors as Client::Connect; DeadlineExceeded.
  void Connect(uint64_t timeout_ns, Outcome* outcome, absl::AnyInvocable<void()> done);
  // As Client::Call, with the request's time-out. A connection that is lost for good is made again.
  // `request` and all that it names stay until `done`.
  void Call(const oncrpc::CallRequest* request, Outcome* outcome, absl::AnyInvocable<void()> done);
  // Ends the connection (DREQ). `done` is called once, when the server has said so too, or has not
  // for kGoodbyeNs. A call that is under way ends first. Nothing but the destructor may follow.
  static constexpr uint64_t kGoodbyeNs = 2'000'000'000;
  void Disconnect(absl::AnyInvocable<void()> done);
  // Bytes of items that the CLIENT has copied.
  void CountCopied(uint64_t bytes) { client_->CountCopied(bytes); }
  const Counters& counters() const { return client_->counters(); }
  // What calls are checked by from now on. While there is no call.
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
  static void OnGoodbyeTimeout(void* core, uint64_t now_ns);

  Host host_;
  SocketAddress server_;
  std::unique_ptr<Client> client_;
  bool connecting_ = false;
  // Of Disconnect().
  absl::AnyInvocable<void()> on_goodbye_;
  engine::Timer goodbye_timer_;
  // Of what is asked for.
  bool awaits_connection_ = false;
  uint64_t deadline_ns_ = 0;                      // 0: none
  const oncrpc::CallRequest* request_ = nullptr;  // null: only to connect
  Outcome* outcome_ = nullptr;
  absl::AnyInvocable<void()> done_;
  engine::Timer timer_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_CLIENT_CORE_H_
