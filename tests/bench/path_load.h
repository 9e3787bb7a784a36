// The main paths, with both ends of a wire polled in turn on one thread in virtual time: the number
// of instructions differs by less than one in a thousand between runs.
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
    // The number of messages (or calls, or round trips) of one measurement.
    uint64_t messages;
    // Runs `messages` of them.
    absl::AnyInvocable<void(uint64_t messages)> run;
  };

  // Opens two devices connected by a net_ring wire, with one connection of verbs and one of
  // RPC-over-RDMA.
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
