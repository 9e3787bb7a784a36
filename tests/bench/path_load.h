// The main paths, both ends of a wire polled in turn on one thread and in virtual time: each run
// executes the same instructions, to one in a thousand.
#ifndef POLLUX_TESTS_BENCH_PATH_LOAD_H_
#define POLLUX_TESTS_BENCH_PATH_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stack/engine/device.h"

namespace pollux::bench {

class PathLoad {
 public:
  struct Path {
    std::string name;
    // Messages (or calls, or round trips) of one measurement.
    uint64_t messages;
    // Runs so many.
    absl::AnyInvocable<void(uint64_t messages)> run;
  };

  // Two devices joined by a net_ring wire, a connection of verbs and one of RPC-over-RDMA.
  static absl::StatusOr<std::unique_ptr<PathLoad>> Open();
  ~PathLoad();

  std::vector<Path>& paths() { return paths_; }
  uint64_t sent_packets() const;  // of both ends
  uint64_t retransmitted() const;

 private:
  struct Rpc;
  explicit PathLoad(engine::Device::Pair wire);
  absl::Status Connect();

  engine::Device::Pair wire_;
  std::unique_ptr<class VerbsPair> verbs_;
  std::unique_ptr<Rpc> rpc_;
  std::vector<Path> paths_;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_PATH_LOAD_H_
