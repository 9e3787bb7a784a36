// The server of a random RPC program. It answers at once or later, and checks that result items are
// released.
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
  kRpcEcho = 1,  // returns its arguments as results
  kRpcPut = 2,   // opaque<> (eligible), word -> Checksum() of the bytes, the word
  kRpcGet = 3,   // length, salt -> opaque<> (eligible), salt
  // Not idempotent: number of the call, opaque<> (eligible), length -> number of runs, opaque<>
  // (eligible) of that length
  kRpcOnce = 4,
};
inline constexpr uint32_t kRpcMaxOnce = 900;  // bytes of its result, the limit of the reply cache

oncrpc::ProgramBinding RpcBinding();

// The program that the client serves on its connection.
inline constexpr uint32_t kRpcCallbackEcho = 1;  // returns its arguments as results
inline constexpr uint32_t kRpcMaxCallback = 800;
oncrpc::ProgramBinding RpcCallbackBinding();

// A checksum that depends on the position of every byte.
uint32_t Checksum(absl::Span<const uint8_t> bytes);
uint8_t RpcByteAt(uint32_t salt, size_t i);

class RpcService {
 public:
  // Draws settings and delays from `seed`.
  RpcService(Node& node, cm::Manager* manager, uint64_t seed);
  ~RpcService();

  rpcrdma::Server& server() { return *server_; }
  // The number of delayed replies.
  size_t delayed() const { return delayed_.size(); }
  // The number of items in replies that are not released yet.
  int lent() const { return lent_; }
  // The number of pieces of results sent before their replies.
  uint64_t pieces() const { return pieces_; }
  // How often call `number` of kRpcOnce was run.
  uint32_t runs(uint32_t number) const;
  // Calls to clients. Each ends once, with the right results or with its connection.
  int callbacks_outstanding() const { return callbacks_outstanding_; }
  uint64_t callbacks_answered() const { return callbacks_answered_; }
  // The error of such a call; empty if there was none.
  const std::string& callback_violation() const { return callback_violation_; }
  // Ends all connections and listens again.
  void Cut();

 private:
  using DelayedReply = absl::AnyInvocable<void()>;
  void Serve(uint32_t procedure, const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply);
  void Reply(uint32_t procedure, const rpcrdma::CallView& call, rpcrdma::ReplyHandle& reply);
  void CallBack(uint64_t connection);
  // Makes an item of `length` bytes that are determined by `salt`, without the first `from` bytes.
  rpcrdma::ResultItem Lend(uint32_t length, uint32_t salt, size_t position, uint32_t from = 0);
  // The first `done` bytes were sent before.
  void Get(uint32_t length, uint32_t salt, uint32_t done, rpcrdma::ReplyHandle& reply);
  void Delay(DelayedReply reply);
  void Once(uint32_t number, uint32_t length, rpcrdma::ReplyHandle& reply);
  static void OnTimer(void* service, uint64_t now_ns);

  Node& node_;
  Random random_;
  std::multimap<uint64_t, DelayedReply> delayed_;  // by due time
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
