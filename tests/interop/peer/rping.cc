#include "tests/interop/peer/rping.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::tools {
namespace {

// wr_id of receives is their slot; of everything else, one of these.
constexpr uint64_t kMessageSent = 1u << 16;
constexpr uint64_t kAccessDone = 1u << 17;
// The letters that fill a ping, as the original has them.
constexpr uint8_t kFirstLetter = 'A', kLastLetter = 'z';

void Put(uint64_t value, int bytes, uint8_t* to) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(value >> 8 * (bytes - 1 - i));
}

uint64_t Get(const uint8_t* from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | from[i];
  return value;
}

uint8_t After(uint8_t letter) {
  return letter == kLastLetter ? kFirstLetter : static_cast<uint8_t>(letter + 1);
}

std::string Text(const std::vector<uint8_t>& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()),
          strnlen(reinterpret_cast<const char*>(buffer.data()), buffer.size())};
}

}  // namespace

VerbsConnection::Config Rping::ConnectionConfig() {
  VerbsConnection::Config config;
  // One READ at a time, as the original.
  config.param.responder_resources = 1;
  config.param.initiator_depth = 1;
  return config;
}

absl::StatusOr<std::unique_ptr<Rping>> Rping::Connect(engine::Worker* worker, cm::Manager* manager,
                                                      const SocketAddress& server,
                                                      Options options) {
  std::unique_ptr<Rping> made(new Rping(std::move(options), true));
  auto connection =
      VerbsConnection::Connect(worker, manager, server, ConnectionConfig(), made.get());
  if (!connection.ok()) return connection.status();
  made->connection_ = *std::move(connection);
  return made;
}

absl::StatusOr<std::unique_ptr<Rping>> Rping::Listen(engine::Worker* worker, cm::Manager* manager,
                                                     const SocketAddress& local, Options options) {
  std::unique_ptr<Rping> made(new Rping(std::move(options), false));
  auto connection = VerbsConnection::Listen(worker, manager, local, ConnectionConfig(), made.get());
  if (!connection.ok()) return connection.status();
  made->connection_ = *std::move(connection);
  return made;
}

std::unique_ptr<Rping> Rping::Accept(engine::Worker* worker, cm::Manager* manager,
                                     const cm::Event& request, Options options) {
  std::unique_ptr<Rping> made(new Rping(std::move(options), false));
  made->connection_ =
      VerbsConnection::Accept(worker, manager, request, ConnectionConfig(), made.get());
  return made;
}

absl::Status Rping::OnReady() {
  step_ = Step::kEstablishment;
  const uint32_t bytes = is_client_ ? options_.bytes : kMaxBytes;
  if (is_client_) source_.resize(bytes);
  sink_.resize(bytes);
  const struct {
    void* address;
    size_t length;
    int access;
    memory::MemoryRegion* region;
  } regions[] = {
      {source_.data(), source_.size(), IBV_ACCESS_REMOTE_READ, &source_region_},
      {sink_.data(), sink_.size(),
       is_client_ ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_LOCAL_WRITE,
       &sink_region_},
      {messages_out_.data(), messages_out_.size(), 0, &out_region_},
      {messages_in_.data(), messages_in_.size(), IBV_ACCESS_LOCAL_WRITE, &in_region_},
  };
  for (const auto& [address, length, access, region] : regions) {
    auto registered = connection_->Register(address, length, access);
    if (!registered.ok()) return registered.status();
    *region = *registered;
  }
  for (uint32_t slot = 0; slot < kReceives; ++slot) {
    if (absl::Status status = PostReceive(slot); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void Rping::OnEstablished(absl::Span<const uint8_t> /*private_data*/) {
  if (is_client_) return BeginPing();
  // The client's first message can be here before the establishment is known.
  if (step_ == Step::kEstablishment) Enter(Step::kSourceAdvertised);
}

void Rping::BeginPing() {
  std::string text = absl::StrCat("rdma-ping-", pings_, ": ");
  uint8_t letter = first_letter_;
  while (text.size() + 1 < source_.size()) {
    text += static_cast<char>(letter);
    letter = After(letter);
  }
  text.resize(source_.size() - 1);
  std::copy(text.begin(), text.end(), source_.begin());
  source_.back() = 0;
  std::fill(sink_.begin(), sink_.end(), uint8_t{0});
  first_letter_ = After(first_letter_);
  Enter(Step::kSourceTaken);
  Check(Advertise(source_, source_region_));
}

void Rping::OnCompletion(const ibv_wc& wc) {
  if (step_ == Step::kEnd) return;
  // What a disconnected queue pair flushes tells nothing; the end itself follows.
  if (wc.status == IBV_WC_WR_FLUSH_ERR) return;
  if (wc.status != IBV_WC_SUCCESS) {
    return Done(
        absl::InternalError(absl::StrCat("a work request failed: ", ibv_wc_status_str(wc.status))));
  }
  if (wc.wr_id == kMessageSent) return;
  if (wc.wr_id == kAccessDone) {
    if (step_ == Step::kReadDone) {
      if (options_.on_ping) options_.on_ping(Text(sink_));
      Enter(Step::kSinkAdvertised);
    } else {
      ++pings_;
      Enter(Step::kSourceAdvertised);
    }
    return Check(Advertise(sink_, sink_region_));
  }
  const uint32_t slot = static_cast<uint32_t>(wc.wr_id);
  if (wc.byte_len != kMessageBytes) {
    return Done(absl::InternalError(
        absl::StrCat("the peer sent a message of ", wc.byte_len, " bytes, not ", kMessageBytes)));
  }
  const uint8_t* message = &messages_in_[slot * kMessageBytes];
  const Remote remote = {.address = Get(message, 8),
                         .key = static_cast<uint32_t>(Get(message + 8, 4)),
                         .bytes = static_cast<uint32_t>(Get(message + 12, 4))};
  Check(PostReceive(slot));
  OnMessage(remote);
}

void Rping::OnMessage(const Remote& remote) {
  switch (step_) {
    case Step::kSourceTaken:
      Enter(Step::kSinkFilled);
      return Check(Advertise(sink_, sink_region_));
    case Step::kSinkFilled:
      return FinishPing();
    case Step::kEstablishment:
    case Step::kSourceAdvertised:
      if (remote.bytes == 0 || remote.bytes > sink_.size()) {
        return Done(absl::InternalError(absl::StrCat("the client advertised ", remote.bytes,
                                                     " bytes; 1 to ", kMaxBytes, " are allowed")));
      }
      remote_ = remote;
      std::fill(sink_.begin(), sink_.end(), uint8_t{0});
      Enter(Step::kReadDone);
      return Check(Access(IBV_WR_RDMA_READ, remote.bytes));
    case Step::kSinkAdvertised: {
      // The text and its final zero, and never more than was read.
      const uint32_t bytes =
          std::min<uint32_t>(static_cast<uint32_t>(Text(sink_).size()) + 1, remote_.bytes);
      remote_ = remote;
      Enter(Step::kWriteDone);
      return Check(Access(IBV_WR_RDMA_WRITE, bytes));
    }
    default:
      return Done(absl::InternalError("the peer sent a message out of turn"));
  }
}

void Rping::FinishPing() {
  if (sink_ != source_) {
    const auto [at, other] = std::mismatch(sink_.begin(), sink_.end(), source_.begin());
    return Done(absl::DataLossError(
        absl::StrFormat("ping %u came back changed: byte %d is 0x%02x, not 0x%02x", pings_,
                        at - sink_.begin(), *at, *other)));
  }
  if (options_.on_ping) options_.on_ping(Text(sink_));
  ++pings_;
  if (options_.count == 0 || pings_ < options_.count) return BeginPing();
  Enter(Step::kDisconnecting);
  connection_->Disconnect();
}

absl::Status Rping::Advertise(const std::vector<uint8_t>& buffer,
                              const memory::MemoryRegion& region) {
  // Two in turn: the answer to one, which comes before the next, may overtake its acknowledgement.
  const size_t at = (next_out_++ % 2) * kMessageBytes;
  Put(reinterpret_cast<uint64_t>(buffer.data()), 8, &messages_out_[at]);
  Put(region.key, 4, &messages_out_[at + 8]);
  Put(buffer.size(), 4, &messages_out_[at + 12]);
  ibv_sge sge{reinterpret_cast<uint64_t>(&messages_out_[at]), kMessageBytes, out_region_.key};
  ibv_send_wr wr{};
  wr.wr_id = kMessageSent;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return connection_->Send(wr);
}

absl::Status Rping::Access(ibv_wr_opcode opcode, uint32_t bytes) {
  ibv_sge sge{reinterpret_cast<uint64_t>(sink_.data()), bytes, sink_region_.key};
  ibv_send_wr wr{};
  wr.wr_id = kAccessDone;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = remote_.address;
  wr.wr.rdma.rkey = remote_.key;
  return connection_->Send(wr);
}

absl::Status Rping::PostReceive(uint32_t slot) {
  const ibv_sge sge{reinterpret_cast<uint64_t>(&messages_in_[slot * kMessageBytes]), kMessageBytes,
                    in_region_.key};
  return connection_->Receive(slot, sge);
}

void Rping::OnEnded(const absl::Status& status) {
  if (!status.ok()) return Done(status);
  // A client leaves between two pings.
  const bool complete =
      is_client_ ? step_ == Step::kDisconnecting : step_ == Step::kSourceAdvertised && pings_ > 0;
  Done(complete ? absl::OkStatus()
                : absl::AbortedError(absl::StrCat("disconnected in the midst of ping ", pings_)));
}

void Rping::Check(const absl::Status& status) {
  if (!status.ok()) Done(status);
}

void Rping::Done(const absl::Status& status) {
  if (step_ == Step::kEnd) return;
  Enter(Step::kEnd);
  if (options_.on_done) std::exchange(options_.on_done, nullptr)(status);
}

void Rping::Enter(Step step) {
  static constexpr const char* kNames[] = {"establishment",   "source advertised", "read done",
                                           "sink advertised", "write done",        "source taken",
                                           "sink filled",     "end of life",       "end"};
  step_ = step;
  if (options_.on_step) {
    options_.on_step(
        absl::StrCat("ping ", pings_, ": waits for ", kNames[static_cast<size_t>(step)]));
  }
}

}  // namespace pollux::tools
