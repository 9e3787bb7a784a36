// The server of a random RPC program: answers at once or late, and takes back what it lends.
#ifndef POLLUX_TESTS_SIM_RPC_SERVICE_H_
#define POLLUX_TESTS_SIM_RPC_SERVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cm/manager.h"
#include "rpcrdma/server.h"
#include "stack/base/random.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {

inline constexpr uint16_t kRpcPort = 20049;
inline constexpr uint32_t kRpcMaxItem = 60'000;
inline constexpr uint32_t kRpcMaxEcho = 20'000;

enum RpcProcedure : uint32_t {
  kRpcNull = 0,
  kRpcEcho = 1,  // arguments come back as results
  kRpcPut = 2,   // opaque<> (eligible), word -> Checksum() of the bytes, the word
  kRpcGet = 3,   // length, salt -> opaque<> (eligible), salt
  // Not idempotent: number of the call, opaque<> (eligible), length -> how often it ran, opaque<>
  // (eligible) of that length
  kRpcOnce = 4,
};
inline constexpr uint32_t kRpcMaxOnce = 900;  // bytes of its result: what the reply cache holds

oncrpc::ProgramBinding RpcBinding();

// What the client serves, on the connection that it made.
inline constexpr uint32_t kRpcCallbackEcho = 1;  // arguments come back as results
inline constexpr uint32_t kRpcMaxCallback = 800;
oncrpc::ProgramBinding RpcCallbackBinding();

// Depends on the place of every byte.
uint32_t Checksum(absl::Span<const uint8_t> bytes);
uint8_t RpcByteAt(uint32_t salt, size_t i);

class RpcService {
 public:
  // Settings and delays are drawn from `seed`.
  RpcService(Node& node, cm::Manager* manager, uint64_t seed);
  ~RpcService();

  rpcrdma::Server& server() { return *server_; }
  // Replies that are still to be given.
  size_t delayed() const { return delayed_.size(); }
  // Items given to replies and not given back.
  int lent() const { return lent_; }
  // Parts of results that went out ahead of their replies.
  uint64_t pieces() const { return pieces_; }
  // How often call `number` of kRpcOnce ran.
  uint32_t runs(uint32_t number) const;
  // Calls to clients: each ends once, with the right results or with its connection.
  int callbacks_outstanding() const { return callbacks_outstanding_; }
  uint64_t callbacks_answered() const { return callbacks_answered_; }
  // What was wrong with one; empty when nothing was.
  const std::string& callback_violation() const { return callback_violation_; }
  // Hangs up on everybody, and listens again.
  void Cut();

 private:
  using DelayedReply = absl::AnyInvocable<void()>;
  void Serve(uint32_t procedure, const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply);
  void Reply(uint32_t procedure, const rpcrdma::CallView& call, rpcrdma::ReplyHandle& reply);
  void CallBack(uint64_t connection);
  // Lends `length` bytes that `salt` says, from byte `from` of them on.
  rpcrdma::ResultItem Lend(uint32_t length, uint32_t salt, size_t position, uint32_t from = 0);
  // Its first `done` bytes went ahead.
  void Get(uint32_t length, uint32_t salt, uint32_t done, rpcrdma::ReplyHandle& reply);
  void Delay(DelayedReply reply);
  void Once(uint32_t number, uint32_t length, rpcrdma::ReplyHandle& reply);
  static void OnTimer(void* service, uint64_t now_ns);

  Node& node_;
  Random random_;
  std::multimap<uint64_t, DelayedReply> delayed_;  // by when they are due
  engine::Timer timer_;
  int lent_ = 0;
  uint64_t pieces_ = 0;
  std::map<uint32_t, uint32_t> runs_;
  int callbacks_outstanding_ = 0;
  uint64_t callbacks_answered_ = 0;
  std::string callback_violation_;
  std::unique_ptr<rpcrdma::Server> server_;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RPC_SERVICE_H_
