// One member of a multicast group, as rdma-core's mckey: sends datagrams to it, or receives those
// of others. Interoperates with the program of that name.
#ifndef POLLUX_TOOLS_POLLUX_MCKEY_H_
#define POLLUX_TOOLS_POLLUX_MCKEY_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "stack/engine/loop/worker.h"

namespace pollux::tools {

// Every call on the worker's core.
class Mckey final : public engine::Poller {
 public:
  static constexpr uint32_t kMaxMessages = 4096;  // all are received at once

  struct Options {
    Gid group;
    Gid local;            // all zeros: any of the device's
    bool sender = false;  // else a receiver
    uint32_t messages = 10;
    uint32_t bytes = 100;  // of a message, at most the path MTU
    // Between a sender's join and its first message: the network has to learn of the join.
    uint64_t pause_ns = 1'000'000'000;
    // A receiver to whom nothing comes for so long, from its join on, gives up.
    uint64_t idle_ns = 20'000'000'000;
    absl::AnyInvocable<void()> on_joined;  // null: no one is told
    // Once. Unavailable when the group could not be joined, DeadlineExceeded after idle_ns,
    // Internal when a work request failed; errors of the manager and of the worker.
    absl::AnyInvocable<void(const absl::Status& status)> on_done;
  };

  // Begins. Worker and manager outlive it.
  static absl::StatusOr<std::unique_ptr<Mckey>> Start(engine::Worker* worker, cm::Manager* manager,
                                                      Options options);
  ~Mckey() override;
  Mckey(const Mckey&) = delete;
  Mckey& operator=(const Mckey&) = delete;

  uint32_t sent() const { return sent_; }
  uint32_t received() const { return received_; }

 private:
  Mckey(engine::Worker* worker, cm::Manager* manager, Options options);

  bool Poll(uint64_t now_ns) override;
  absl::Status Begin();
  absl::Status OnEvent(const cm::Event& event);
  absl::Status MakeQp();
  void Bind();
  absl::Status OnBound();
  absl::Status OnJoined(const cm::UdParam& ud);
  absl::Status PostReceives();
  absl::Status PostSends();
  absl::Status OnCompletion(const ibv_wc& wc);
  void Done(absl::Status status);

  engine::Worker* worker_;
  cm::Manager* manager_;
  Options options_;
  cm::Id* id_ = nullptr;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
  verbs::AddressHandle* ah_ = nullptr;
  memory::MemoryRegion region_;
  std::vector<uint8_t> memory_;    // what is received, then what is sent
  std::optional<cm::UdParam> to_;  // what a sender has still to send to
  std::optional<uint64_t> joined_ns_;
  std::optional<uint64_t> idle_since_ns_;
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
  bool done_ = false;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_POLLUX_MCKEY_H_
