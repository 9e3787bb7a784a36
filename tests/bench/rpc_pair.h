// The file service between two polled cores of this process.
#ifndef POLLUX_TESTS_BENCH_RPC_PAIR_H_
#define POLLUX_TESTS_BENCH_RPC_PAIR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "stack/engine/polling/idle_option.h"
#include "tools/common/node.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"

namespace pollux::bench {

class RpcPair {
 public:
  // Takes ownership of the devices; both cores idle as `idle` says.
  static absl::StatusOr<std::unique_ptr<RpcPair>> Start(engine::Device::Pair devices,
                                                        engine::Idle idle = engine::Idle::kSpin);
  ~RpcPair();

  tools::Node& node() { return *client_node_; }  // the client's node
  tools::FileClient& client() { return *client_; }

 private:
  RpcPair() = default;
  absl::Status Connect(engine::Device::Pair devices, engine::Idle idle);

  std::string directory_;
  std::unique_ptr<tools::FileStore> store_;
  std::unique_ptr<tools::Node> server_node_, client_node_;
  std::unique_ptr<tools::FileServer> server_;
  std::unique_ptr<tools::FileClient> client_;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_RPC_PAIR_H_
