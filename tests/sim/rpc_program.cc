#include "tests/sim/rpc_program.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpcrdma/client.h"
#include "tests/sim/rpc_service.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr size_t kGuardBytes = 64;  // on both sides of memory that is offered
constexpr uint8_t kGuard = 0xA7;
constexpr uint64_t kDeadlineNs = 4000 * Simulation::kSecond;
constexpr uint64_t kMaxCuts = 3;
constexpr int kMaxSteps = 20'000;  // of the program: far more than any needs

// One call, with all its memory.
class Call {
 public:
  // `once`: how likely it is one that must not run twice.
  Call(Random& random, uint32_t number, double once, bool may_time_out) : number_(number) {
    request_.procedure =
        random.Chance(once) ? kRpcOnce : static_cast<uint32_t>(random.Below(kRpcOnce));
    // Of any size, small ones more often.
    const auto size = [&](uint32_t most) {
      return static_cast<uint32_t>(random.Below((most >> random.Below(12)) + 1));
    };
    salt_ = random.Next32();
    if (may_time_out && random.Chance(0.2)) request_.timeout_ns = 1 + random.Below(5'000'000);
    switch (request_.procedure) {
      case kRpcEcho: {
        arguments_.resize(size(kRpcMaxEcho) / 4 * 4);
        Fill(arguments_);
        SetRoom(oncrpc::kReplyHeaderBytes + arguments_.size() + random.Below(100));
        request_.reply_buffer = Room();
        request_.max_result_bytes = static_cast<uint32_t>(arguments_.size());
        break;
      }
      case kRpcPut: {
        item_.resize(size(kRpcMaxItem));
        Fill(item_);
        arguments_.resize(8);
        oncrpc::XdrWriter out(absl::MakeSpan(arguments_));
        const size_t position = out.EligibleOpaque(item_.size());
        out.Uint32(salt_);
        argument_ = {item_, position};
        request_.items = {&argument_, 1};
        break;
      }
      case kRpcGet: {
        length_ = size(kRpcMaxItem);
        arguments_.resize(8);
        oncrpc::XdrWriter out(absl::MakeSpan(arguments_));
        out.Uint32(length_);
        out.Uint32(salt_);
        // Into a Write chunk, or in the message or the Reply chunk.
        if (random.Chance(0.7)) {
          SetRoom(std::max(1u, length_) + random.Below(100));
          item_room_ = Room();
          request_.item_buffers = {&item_room_, 1};
        } else {
          SetRoom(oncrpc::kReplyHeaderBytes + 8 + oncrpc::XdrRoundUp(kRpcMaxItem));
          request_.reply_buffer = Room();
        }
        break;
      }
      case kRpcOnce: {
        item_.resize(size(kRpcMaxItem));
        Fill(item_);
        length_ = size(kRpcMaxOnce);
        arguments_.resize(12);
        oncrpc::XdrWriter out(absl::MakeSpan(arguments_));
        out.Uint32(number_);
        argument_ = {item_, out.EligibleOpaque(item_.size())};
        out.Uint32(length_);
        request_.items = {&argument_, 1};
        if (random.Chance(0.7)) {
          SetRoom(kRpcMaxOnce);
          item_room_ = Room();
          request_.item_buffers = {&item_room_, 1};
        } else {
          SetRoom(oncrpc::kReplyHeaderBytes + 8 + oncrpc::XdrRoundUp(kRpcMaxOnce));
          request_.reply_buffer = Room();
        }
        break;
      }
    }
    request_.arguments = arguments_;
  }

  const oncrpc::CallRequest& request() const { return request_; }
  bool done = false;

  // What is wrong with the results; null when nothing is.
  const char* Check(const oncrpc::Reply& reply) const {
    oncrpc::XdrReader in = reply.reader();
    switch (request_.procedure) {
      case kRpcEcho:
        return reply.results == absl::MakeConstSpan(arguments_) ? nullptr : "another echo";
      case kRpcPut: {
        if (in.Uint32() != Checksum(item_)) return "other bytes arrived";
        if (in.Uint32() != salt_) return "another word arrived";
        break;
      }
      case kRpcGet: {
        const auto item = in.EligibleOpaque(kRpcMaxItem);
        if (item.size() != length_) return "another length";
        for (size_t i = 0; i < length_; ++i) {
          if (item[i] != RpcByteAt(salt_, i)) return "other bytes came";
        }
        if (in.Uint32() != salt_) return "another word came";
        break;
      }
      case kRpcOnce: {
        if (in.Uint32() != 1) return "it ran more than once";
        const auto item = in.EligibleOpaque(kRpcMaxOnce);
        if (item.size() != length_) return "another length";
        for (size_t i = 0; i < length_; ++i) {
          if (item[i] != RpcByteAt(number_, i)) return "other bytes came";
        }
        break;
      }
    }
    return in.AtEnd() ? nullptr : "more came than was asked for";
  }

  // From here on all of its memory must stay what it is.
  void Freeze() { frozen_ = Checksums(); }
  bool HasChanged() const { return frozen_ != Checksums(); }
  bool GuardsHold() const {
    const auto is_guard = [](uint8_t byte) { return byte == kGuard; };
    return room_.empty() || (std::all_of(room_.begin(), room_.begin() + kGuardBytes, is_guard) &&
                             std::all_of(room_.end() - kGuardBytes, room_.end(), is_guard));
  }

 private:
  void Fill(std::vector<uint8_t>& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = RpcByteAt(salt_, i);
  }
  void SetRoom(size_t bytes) { room_.assign(bytes + 2 * kGuardBytes, kGuard); }
  absl::Span<uint8_t> Room() {
    return absl::MakeSpan(room_).subspan(kGuardBytes, room_.size() - 2 * kGuardBytes);
  }
  std::vector<uint32_t> Checksums() const {
    return {Checksum(arguments_), Checksum(item_), Checksum(room_)};
  }

  oncrpc::CallRequest request_;
  oncrpc::EligibleItem argument_;
  absl::Span<uint8_t> item_room_;
  uint32_t number_ = 0;
  uint32_t salt_ = 0;
  uint32_t length_ = 0;
  std::vector<uint8_t> arguments_, item_, room_;
  std::vector<uint32_t> frozen_;
};

class Program {
 public:
  explicit Program(uint64_t seed)
      : random_(seed),
        simulation_(random_.Next64(), DrawConditions(random_)),
        client_node_(AddNode()),
        server_node_(AddNode()),
        client_manager_(cm::Manager::Create(&client_node_.worker()).value()),
        server_manager_(cm::Manager::Create(&server_node_.worker()).value()),
        service_(
            std::make_unique<RpcService>(server_node_, server_manager_.get(), random_.Next64())) {
    rpcrdma::ClientConfig config;
    config.credits = 1 + static_cast<uint32_t>(random_.Below(24));
    config.send_bytes = 1024 * (1 + static_cast<uint32_t>(random_.Below(8)));
    config.receive_bytes = 1024 * (1 + static_cast<uint32_t>(random_.Below(8)));
    // Tries enough to outlast every cut, and sometimes a link that is down.
    config.remote_invalidation = random_.Chance(0.5);
    if (random_.Chance(0.5)) config.reconnect = {.attempts = 8, .max_delay_ms = 1000};
    reconnects_ = config.reconnect.attempts > 0;
    client_ =
        rpcrdma::Client::Create(&client_node_.worker(), client_manager_.get(), RpcBinding(), config)
            .value();
    rpcrdma::Program callbacks{.binding = RpcCallbackBinding(), .procedures = {}};
    callbacks.procedures.push_back(
        {kRpcCallbackEcho, [this](const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply) {
           ServeCallback(call, std::move(reply));
         }});
    if (!client_->RegisterProgram(std::move(callbacks)).ok()) Violate("no program is taken");
    calls_may_time_out_ = random_.Chance(0.3);
    if (random_.Chance(0.5)) cuts_ = 1 + random_.Below(kMaxCuts);
    const size_t calls = 1 + random_.Below(60);
    for (size_t i = 0; i < calls; ++i) {
      calls_.push_back(std::make_unique<Call>(random_, static_cast<uint32_t>(i),
                                              cuts_ > 0 ? 0.6 : 0.1, calls_may_time_out_));
    }
    if (random_.Chance(0.3)) link_fails_at_ = random_.Below(calls);
  }

  RpcOutcome Run() {
    for (int step = 0; done_ < calls_.size() && outcome_.violation.empty(); ++step) {
      if (step == kMaxSteps || simulation_.now_ns() > kDeadlineNs) {
        Violate(absl::StrCat("the program does not end; ", done_, " of ", issued_, " calls done"));
        break;
      }
      Step();
    }
    End();
    return outcome_;
  }

 private:
  Node& AddNode() {
    return simulation_.AddNode(
        {.packet_buffers = 1023, .max_queue_pairs = 64, .max_regions = 1024});
  }
  void Violate(const std::string& what) {
    if (outcome_.violation.empty()) outcome_.violation = what;
  }
  void Digest(uint64_t value) { outcome_.digest = (outcome_.digest ^ value) * 0x100000001B3; }

  // At once, or at the next step, whatever becomes of the connection.
  void ServeCallback(const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply) {
    if (random_.Chance(0.7)) return reply.Send(call.arguments);
    callbacks_.emplace_back(std::vector<uint8_t>(call.arguments.begin(), call.arguments.end()),
                            std::move(reply));
  }
  void AnswerCallbacks() {
    for (auto& [results, reply] : callbacks_) reply.Send(results);
    callbacks_.clear();
  }

  void Step() {
    AnswerCallbacks();
    const bool reconnecting = client_->reconnecting();
    if (!client_->connected() && !connecting_ && !reconnecting) Connect();
    if (client_->connected() || reconnecting) Issue(1 + random_.Below(8));
    if (issued_ > link_fails_at_) FailLink();
    if (cuts_ > 0 && random_.Chance(0.2)) Cut();
    const uint64_t wait_ns = 1 + random_.Below(connecting_ ? Simulation::kSecond : 5'000'000);
    simulation_.RunUntil([this] { return done_ == calls_.size(); }, simulation_.now_ns() + wait_ns);
  }

  void Connect() {
    connecting_ = true;
    const auto on_connected = [this](const absl::Status& status) {
      connecting_ = false;
      if (status.ok()) {
        ++outcome_.connections;
      } else if (!link_failed_ && !cut_) {
        Violate(status.ToString());
      }
    };
    const absl::Status status =
        client_->Connect({server_node_.gid(), kRpcPort}, on_connected, [this](absl::Status) {
          // In the client's own destructor there is nobody left to ask.
          if (client_ != nullptr && client_->advertised_regions() != 0) {
            Violate("keys stay after the connection");
          }
        });
    if (!status.ok()) Violate(status.ToString());
  }

  void Issue(size_t count) {
    for (; count > 0 && issued_ < calls_.size(); --count) {
      Call& call = *calls_[issued_];
      const absl::Status status = client_->Call(
          call.request(),
          [this, &call, index = issued_](absl::Status result, const oncrpc::Reply* reply) {
            if (call.done) return Violate(absl::StrCat("call ", index, " is called back twice"));
            OnDone(call, index, result, reply);
          });
      if (!status.ok()) return Violate(absl::StrCat("call ", issued_, ": ", status.ToString()));
      if (call.done) return Violate("called back from inside the call");
      ++issued_;
    }
  }

  void OnDone(Call& call, size_t index, const absl::Status& status, const oncrpc::Reply* reply) {
    call.done = true;
    ++done_;
    Digest(index);
    Digest(static_cast<uint64_t>(status.code()));
    Digest(simulation_.now_ns());
    switch (status.code()) {
      case absl::StatusCode::kOk:
        ++outcome_.succeeded;
        if (const char* wrong = call.Check(*reply)) {
          Violate(absl::StrCat("call ", index, " of procedure ", call.request().procedure, ": ",
                               wrong));
        }
        break;
      case absl::StatusCode::kUnavailable:
        ++outcome_.unavailable;
        // Memory taken back under a running RDMA operation costs the connection.
        if (!link_failed_ && !calls_may_time_out_ && (!cut_ || reconnects_)) {
          Violate(status.ToString());
        }
        break;
      case absl::StatusCode::kDeadlineExceeded:
        ++outcome_.timed_out;
        if (call.request().timeout_ns == 0) Violate("a call without a time limit timed out");
        break;
      default:
        Violate(absl::StrCat("call ", index, ": ", status.ToString()));
    }
    call.Freeze();
  }

  // Whatever is on its way is lost; what the server's handlers have is not.
  void Cut() {
    --cuts_;
    cut_ = true;
    simulation_.RunFor(random_.Below(100'000));
    service_->Cut();
  }

  // Once, for a moment or for longer than a connection lives.
  void FailLink() {
    link_failed_ = true;
    link_fails_at_ = SIZE_MAX;
    FabricPort& port = (random_.Chance(0.5) ? client_node_ : server_node_).port();
    port.SetUp(false);
    simulation_.RunFor(random_.Chance(0.5) ? random_.Below(100'000'000)
                                           : random_.Below(30 * Simulation::kSecond));
    port.SetUp(true);
  }

  void End() {
    AnswerCallbacks();
    // Late packets and late replies find nothing of theirs any more.
    simulation_.RunFor(Simulation::kSecond);
    AnswerCallbacks();
    if (client_->advertised_regions() != 0) Violate("keys stay advertised");
    if (client_->connected() || client_->reconnecting()) client_->Disconnect();
    service_->server().Shutdown();
    const auto quiet = [this] {
      return !client_->connected() && !client_->reconnecting() &&
             service_->server().connections() == 0 && service_->delayed() == 0;
    };
    if (!simulation_.RunUntil(quiet, simulation_.now_ns() + 1000 * Simulation::kSecond)) {
      Violate("connections do not end");
    }
    AnswerCallbacks();
    if (service_->callbacks_outstanding() != 0) Violate("calls to the client do not end");
    if (!service_->callback_violation().empty()) {
      Violate(absl::StrCat("a call to the client: ", service_->callback_violation()));
    }
    if (service_->lent() != 0) Violate("a result's memory is not given back");
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (service_->runs(static_cast<uint32_t>(i)) > 1) {
        Violate(
            absl::StrCat("call ", i, " ran ", service_->runs(static_cast<uint32_t>(i)), " times"));
      }
      if (!calls_[i]->GuardsHold()) Violate(absl::StrCat("written beside memory of call ", i));
      if (calls_[i]->done && calls_[i]->HasChanged()) {
        Violate(absl::StrCat("memory of call ", i, " changed after its end"));
      }
    }
    outcome_.bytes_read = service_->server().counters().bytes_read;
    outcome_.bytes_written = service_->server().counters().bytes_written;
    outcome_.duplicates = service_->server().counters().duplicates_answered +
                          service_->server().counters().duplicates_joined;
    outcome_.callbacks = service_->callbacks_answered();
    outcome_.pieces = service_->pieces();
    outcome_.reconnects = client_->counters().reconnects;
    for (Node* node : {&client_node_, &server_node_}) {
      outcome_.retransmitted_pkts += node->worker().counters().retransmitted_pkts;
    }
    client_.reset();
    service_.reset();
    client_manager_.reset();
    server_manager_.reset();
    if (const std::string leaks = simulation_.Leaks(); !leaks.empty()) Violate(leaks);
  }

  Random random_;
  Simulation simulation_;
  Node& client_node_;
  Node& server_node_;
  std::unique_ptr<cm::Manager> client_manager_, server_manager_;
  std::unique_ptr<RpcService> service_;
  std::vector<std::unique_ptr<Call>> calls_;  // outlive the client
  std::vector<std::pair<std::vector<uint8_t>, rpcrdma::ReplyHandle>>
      callbacks_;  // not answered yet
  std::unique_ptr<rpcrdma::Client> client_;
  bool calls_may_time_out_ = false;
  bool reconnects_ = false;
  uint64_t cuts_ = 0;  // still to come
  bool cut_ = false;
  size_t link_fails_at_ = SIZE_MAX;  // after so many calls
  bool link_failed_ = false;
  bool connecting_ = false;
  size_t issued_ = 0;
  size_t done_ = 0;
  RpcOutcome outcome_;
};

}  // namespace

RpcOutcome RunRpcProgram(uint64_t seed) { return Program(seed).Run(); }

}  // namespace pollux::sim
