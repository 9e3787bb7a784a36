// rping's protocol, one end of one connection: the client advertises a source buffer, the server
// reads it by RDMA READ; the client advertises a sink, the server writes there what it has read;
// the client compares. Interoperates with the program of that name in rdma-core.
#ifndef POLLUX_TESTS_INTEROP_PEER_RPING_H_
#define POLLUX_TESTS_INTEROP_PEER_RPING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/verbs_connection.h"

namespace pollux::tools {

// Every call on the worker's core.
class Rping final : private VerbsConnection::User {
 public:
  static constexpr uint32_t kMinBytes = 16;  // the shortest text and its final zero
  static constexpr uint32_t kMaxBytes = 64 * 1024;

  struct Options {
    uint64_t count = 0;   // pings of the client; 0: until it is stopped
    uint32_t bytes = 64;  // of a ping, kMinBytes to kMaxBytes; the server takes any
    // Given each ping's text as it has arrived; null: no one is.
    absl::AnyInvocable<void(const std::string& text)> on_ping;
    // Given words on each step; null: no one is.
    absl::AnyInvocable<void(const std::string& words)> on_step;
    // Once, with what came of it: OK when the client had all its pings answered and disconnected.
    // Unavailable when there was no connection; Aborted when it ended in the midst of a ping;
    // DataLoss when other bytes came back than were sent; Internal when a work request failed.
    absl::AnyInvocable<void(const absl::Status& status)> on_done;
  };

  // Errors as VerbsConnection's.
  static absl::StatusOr<std::unique_ptr<Rping>> Connect(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        const SocketAddress& server,
                                                        Options options);
  static absl::StatusOr<std::unique_ptr<Rping>> Listen(engine::Worker* worker, cm::Manager* manager,
                                                       const SocketAddress& local, Options options);
  // Serves who has asked for it by CONNECT_REQUEST. `on_done` may be told before this has returned.
  static std::unique_ptr<Rping> Accept(engine::Worker* worker, cm::Manager* manager,
                                       const cm::Event& request, Options options);

  // Disconnects; `on_done` follows.
  void Stop() { connection_->Disconnect(); }
  uint64_t pings() const { return pings_; }  // that are done

 private:
  // What is waited for.
  enum class Step : uint8_t {
    kEstablishment,
    kSourceAdvertised,  // server: the client's first message of a ping
    kReadDone,          // server: its own READ
    kSinkAdvertised,    // server: the client's second message
    kWriteDone,         // server: its own WRITE
    kSourceTaken,       // client: the server's answer to its first message
    kSinkFilled,        // client: and to its second
    kGoodbye,           // the end that it has asked for
    kEnd,
  };
  // A buffer of the peer's, as a message names it.
  struct Remote {
    uint64_t address = 0;
    uint32_t key = 0;
    uint32_t bytes = 0;
  };
  static constexpr uint32_t kMessageBytes = 16;  // address 8, key 4, length 4: all big-endian
  static constexpr uint32_t kReceives = 4;

  explicit Rping(Options options, bool is_client)
      : options_(std::move(options)), is_client_(is_client) {}
  static VerbsConnection::Config ConnectionConfig();

  absl::Status OnReady() override;
  void OnEstablished(absl::Span<const uint8_t> private_data) override;
  void OnCompletion(const ibv_wc& wc) override;
  void OnEnded(const absl::Status& status) override;

  void OnMessage(const Remote& remote);
  void BeginPing();
  void FinishPing();
  absl::Status Advertise(const std::vector<uint8_t>& buffer, const memory::MemoryRegion& region);
  absl::Status Access(ibv_wr_opcode opcode, uint32_t bytes);
  absl::Status PostReceive(uint32_t slot);
  void Check(const absl::Status& status);
  void Done(const absl::Status& status);
  void Enter(Step step);

  Options options_;
  const bool is_client_;
  Step step_ = Step::kEstablishment;
  uint64_t pings_ = 0;
  uint8_t first_letter_ = 'A';
  Remote remote_;
  std::vector<uint8_t> source_;  // client: what it sends
  std::vector<uint8_t> sink_;    // client: what comes back; server: what it passes on
  std::array<uint8_t, kMessageBytes * 2> messages_out_{};
  uint32_t next_out_ = 0;
  std::array<uint8_t, kMessageBytes * kReceives> messages_in_{};
  memory::MemoryRegion source_region_, sink_region_, out_region_, in_region_;
  std::unique_ptr<VerbsConnection> connection_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TESTS_INTEROP_PEER_RPING_H_
