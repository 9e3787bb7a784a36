// rping's protocol, one end of one connection: the client advertises a source buffer, the server
// reads it by RDMA READ; the client advertises a sink; the server writes the data to it; the client
// compares. Interoperates with rping of rdma-core.
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

// All functions must be called on the worker's core.
class Rping final : private VerbsConnection::User {
 public:
  static constexpr uint32_t kMinBytes = 16;  // the shortest text with its final zero
  static constexpr uint32_t kMaxBytes = 64 * 1024;

  struct Options {
    uint64_t count = 0;   // pings of the client; 0: until it is stopped
    uint32_t bytes = 64;  // per ping, kMinBytes to kMaxBytes; the server accepts any size
    // Called with the text of each received ping. Optional.
    absl::AnyInvocable<void(const std::string& text)> on_ping;
    // Called with a description of each step. Optional.
    absl::AnyInvocable<void(const std::string& words)> on_step;
    // Called once with the result: OK if all pings of the client were answered and it has
    // disconnected; Unavailable if there was no connection; Aborted if it ended during a ping;
    // DataLoss if other bytes came back than were sent; Internal if a work request failed.
    absl::AnyInvocable<void(const absl::Status& status)> on_done;
  };

  // Errors as those of VerbsConnection.
  static absl::StatusOr<std::unique_ptr<Rping>> Connect(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        const SocketAddress& server,
                                                        Options options);
  static absl::StatusOr<std::unique_ptr<Rping>> Listen(engine::Worker* worker, cm::Manager* manager,
                                                       const SocketAddress& local, Options options);
  // Serves the client of a CONNECT_REQUEST event. `on_done` may be called before this function
  // returns.
  static std::unique_ptr<Rping> Accept(engine::Worker* worker, cm::Manager* manager,
                                       const cm::Event& request, Options options);

  // Disconnects; `on_done` follows.
  void Stop() { connection_->Disconnect(); }
  uint64_t pings() const { return pings_; }  // completed pings

 private:
  // The event for which this end waits.
  enum class Step : uint8_t {
    kEstablishment,
    kSourceAdvertised,  // server: the client's first message of a ping
    kReadDone,          // server: its own READ
    kSinkAdvertised,    // server: the client's second message
    kWriteDone,         // server: its own WRITE
    kSourceTaken,       // client: the server's reply to its first message
    kSinkFilled,        // client: the server's reply to its second message
    kDisconnecting,     // the end of the connection, which this side has requested
    kEnd,
  };
  // A buffer of the peer, as advertised in a message.
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
  std::vector<uint8_t> source_;  // client: data to send
  std::vector<uint8_t> sink_;    // client: returned data; server: data read, to be written back
  std::array<uint8_t, kMessageBytes * 2> messages_out_{};
  uint32_t next_out_ = 0;
  std::array<uint8_t, kMessageBytes * kReceives> messages_in_{};
  memory::MemoryRegion source_region_, sink_region_, out_region_, in_region_;
  std::unique_ptr<VerbsConnection> connection_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TESTS_INTEROP_PEER_RPING_H_
