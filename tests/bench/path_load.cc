#include "tests/bench/path_load.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "cm/manager.h"
#include "stack/ip/interface.h"
#include "tests/bench/one_thread.h"
#include "tests/bench/verbs_load.h"
#include "tests/bench/wires.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"

namespace pollux::bench {
namespace {

constexpr uint32_t kSmall = 64;
constexpr uint32_t kBulk = 1u << 20;
constexpr uint32_t kWindow = 128;
constexpr size_t kConnections = 100;

[[noreturn]] void Abort(const char* what, const absl::Status& status) {
  std::fprintf(stderr, "bench: %s: %s\n", what, std::string(status.message()).c_str());
  std::abort();
}

// Until the interfaces have claimed their addresses: what they wait for till then is looked at each
// turn, and how long it takes depends on the machine.
void LetClaimsPass(engine::Device::Pair& wire) {
  constexpr uint64_t kStepNs = 1'000'000;
  constexpr uint64_t kPassNs = 2 * ip::Interface::kProbeNs;
  uint64_t now_ns = std::max(wire.first->worker().now_ns(), wire.second->worker().now_ns());
  for (const uint64_t end_ns = now_ns + kPassNs; now_ns < end_ns;) {
    now_ns += kStepNs;
    wire.first->worker().Poll(now_ns);
    wire.second->worker().Poll(now_ns);
  }
}

}  // namespace

// The file service on one end, its client on the other.
struct PathLoad::Rpc {
  engine::Device& client_device;
  engine::Device& server_device;
  std::string directory = "/tmp/pollux-paths-XXXXXX";
  std::unique_ptr<tools::FileStore> store;
  std::unique_ptr<cm::Manager> server_manager, client_manager;
  std::unique_ptr<tools::FileServer> server;
  std::vector<std::unique_ptr<tools::FileClient>> clients;  // the first one makes the calls
  uint64_t left = 0;
  uint64_t under_way = 0;

  explicit Rpc(engine::Device::Pair& wire)
      : client_device(*wire.first), server_device(*wire.second) {}
  ~Rpc() {
    size_t open = clients.size();
    for (auto& client : clients) client->Disconnect([&open] { --open; });
    TakeTurns(client_device.worker(), server_device.worker(), [&] { return open == 0; });
    clients.clear();
    bool gone = server == nullptr;
    if (server != nullptr) server->Shutdown([&gone] { gone = true; });
    TakeTurns(client_device.worker(), server_device.worker(), [&] { return gone; });
    server.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }

  absl::Status Start() {
    if (mkdtemp(directory.data()) == nullptr) return absl::ErrnoToStatus(errno, directory);
    auto opened = tools::FileStore::Open(directory);
    if (!opened.ok()) return opened.status();
    store = *std::move(opened);
    auto managers = {std::make_pair(&server_manager, &server_device.worker()),
                     std::make_pair(&client_manager, &client_device.worker())};
    for (auto [manager, worker] : managers) {
      auto made = cm::Manager::Create(worker, {});
      if (!made.ok()) return made.status();
      *manager = *std::move(made);
    }
    auto listening = tools::FileServer::Listen(&server_device.worker(), server_manager.get(),
                                               store.get(), tools::FileServer::Options());
    if (!listening.ok()) return listening.status();
    server = *std::move(listening);
    return ConnectClients(1);
  }

  // Connects until there are `count` clients.
  absl::Status ConnectClients(size_t count) {
    absl::Status status;
    while (status.ok() && clients.size() < count) {
      bool answered = false;
      tools::FileClient::Connect(&client_device.worker(), client_manager.get(),
                                 {.address = server_device.gid(), .port = 20049}, {},
                                 [&](absl::StatusOr<std::unique_ptr<tools::FileClient>> connected) {
                                   answered = true;
                                   status = connected.status();
                                   if (connected.ok()) clients.push_back(*std::move(connected));
                                 });
      TakeTurns(client_device.worker(), server_device.worker(), [&] { return answered; });
    }
    return status;
  }

  void Next(bool* finished) {
    if (left == 0) {
      *finished = under_way == 0;
      return;
    }
    --left;
    ++under_way;
    clients.front()->Null([this, finished](const absl::Status& status) {
      if (!status.ok()) Abort("a call failed", status);
      --under_way;
      Next(finished);
    });
  }
  void NullCalls(uint64_t count, uint32_t window) {
    left = count;
    bool finished = false;
    for (uint32_t i = 0; i < window; ++i) Next(&finished);
    TakeTurns(client_device.worker(), server_device.worker(), [&] { return finished; });
  }
};

PathLoad::PathLoad(engine::Device::Pair wire) : wire_(std::move(wire)) {}

PathLoad::~PathLoad() {
  rpc_.reset();
  verbs_.reset();
  CloseWire(wire_);
}

absl::StatusOr<std::unique_ptr<PathLoad>> PathLoad::Open() {
  absl::StatusOr<engine::Device::Pair> wire = OpenWire(Wire::kRing);
  if (!wire.ok()) return wire.status();
  LetClaimsPass(*wire);
  std::unique_ptr<PathLoad> load(new PathLoad(*std::move(wire)));
  if (absl::Status status = load->Connect(); !status.ok()) return status;
  return load;
}

absl::Status PathLoad::Connect() {
  auto pair = VerbsPair::Connect(wire_.first.get(), wire_.second.get(), Threads::kOne);
  if (!pair.ok()) return pair.status();
  verbs_ = *std::move(pair);
  rpc_ = std::make_unique<Rpc>(wire_);
  if (absl::Status status = rpc_->Start(); !status.ok()) return status;
  const auto posts = [this](ibv_wr_opcode opcode, uint32_t bytes, uint32_t window) {
    return [this, opcode, bytes, window](uint64_t messages) {
      verbs_->PerSecond(opcode, bytes, messages, window);
    };
  };
  // Before any stream, which leaves the receive queue full.
  paths_.push_back({"SEND 64 B round trip", 4096,
                    [this](uint64_t messages) { verbs_->SendRoundTripNs(kSmall, messages); }});
  paths_.push_back({"SEND 64 B stream", 8192, posts(IBV_WR_SEND, kSmall, kWindow)});
  paths_.push_back({"WRITE 64 B stream", 8192, posts(IBV_WR_RDMA_WRITE, kSmall, kWindow)});
  paths_.push_back({"WRITE 1 MiB", 16, posts(IBV_WR_RDMA_WRITE, kBulk, 4)});
  paths_.push_back({"READ 1 MiB", 16, posts(IBV_WR_RDMA_READ, kBulk, 4)});
  paths_.push_back({"NULL call stream", 8192,
                    [this](uint64_t messages) { rpc_->NullCalls(messages, kWindow); }});
  paths_.push_back(
      {"NULL call round trip", 4096, [this](uint64_t messages) { rpc_->NullCalls(messages, 1); }});
  // While connections are open and nothing is under way.
  const auto take_turns = [this](uint64_t turns) {
    TakeTurns(wire_.first->worker(), wire_.second->worker(), [&turns] { return turns-- == 0; });
  };
  paths_.push_back({"turn without work", 8192, take_turns});
  // The first call, which warms up, connects. A turn must not look at each connection.
  paths_.push_back({"turn, 100 idle clients", 8192, [this, take_turns](uint64_t turns) {
                      if (const absl::Status status = rpc_->ConnectClients(kConnections);
                          !status.ok()) {
                        Abort("connecting failed", status);
                      }
                      take_turns(turns);
                    }});
  return absl::OkStatus();
}

uint64_t PathLoad::sent_packets() const {
  return wire_.first->worker().counters().sent_pkts + wire_.second->worker().counters().sent_pkts;
}

uint64_t PathLoad::retransmitted() const {
  return wire_.first->worker().counters().retransmitted() +
         wire_.second->worker().counters().retransmitted();
}

}  // namespace pollux::bench
