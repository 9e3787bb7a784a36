#include "tools/file_service/file_client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/client.h"
#include "stack/engine/loop/worker.h"
#include "tools/common/connecting.h"

namespace pollux::tools {
namespace {

// The memory of one call, kept until its reply.
struct CallMemory {
  std::array<uint8_t, 4 + kMaxName + 1 + 8 + 4> arguments;
  std::vector<uint8_t> reply;
  oncrpc::EligibleItem item;
  absl::Span<uint8_t> item_buffer;
};

class Client final : public FileClient {
 public:
  Client(engine::Worker* worker, std::unique_ptr<rpcrdma::Client> rpc)
      : worker_(worker), rpc_(std::move(rpc)) {}

  Negotiated negotiated() const override {
    const rpcrdma::Negotiated& n = rpc_->negotiated();
    return {.client_to_server_inline = n.thresholds.client_to_server,
            .server_to_client_inline = n.thresholds.server_to_client,
            .peer_sent_private_data = n.peer_sent,
            .credits = rpc_->granted_credits()};
  }

  void Null(DoneStatus done) override {
    if (null_free_.empty()) {
      null_free_.push_back(static_cast<uint32_t>(null_done_.size()));
      null_done_.emplace_back();
    }
    const uint32_t place = null_free_.back();
    null_free_.pop_back();
    null_done_[place] = std::move(done);
    static constexpr oncrpc::CallRequest kNullCall;
    const absl::Status status =
        rpc_->Call(kNullCall, [this, place](absl::Status result, const oncrpc::Reply*) {
          TakeNull(place)(std::move(result));
        });
    if (!status.ok()) Later([done = TakeNull(place), status]() mutable { done(status); });
  }

  void Stat(const std::string& name, Done<FileStore::Attributes> done) override {
    auto memory = std::make_shared<CallMemory>();
    oncrpc::XdrWriter writer(absl::MakeSpan(memory->arguments));
    writer.String(name);
    Call<FileStore::Attributes>(FileProcedure::kStat, name, memory, writer, {}, std::move(done),
                                [](oncrpc::XdrReader& reader) {
                                  FileStore::Attributes attributes;
                                  attributes.size = reader.Uint64();
                                  attributes.modified_ns = reader.Uint64();
                                  attributes.directory = reader.Bool();
                                  return attributes;
                                });
  }

  void Read(const std::string& name, uint64_t offset, absl::Span<uint8_t> buffer,
            Done<size_t> done) override {
    auto memory = std::make_shared<CallMemory>();
    oncrpc::XdrWriter writer(absl::MakeSpan(memory->arguments));
    writer.String(name);
    writer.Uint64(offset);
    writer.Uint32(static_cast<uint32_t>(buffer.size()));
    oncrpc::CallRequest request;
    memory->item_buffer = buffer;
    request.item_buffers = {&memory->item_buffer, 1};
    Call<size_t>(FileProcedure::kRead, name, memory, writer, request, std::move(done),
                 [buffer](oncrpc::XdrReader& reader) {
                   const absl::Span<const uint8_t> data =
                       reader.EligibleOpaque(static_cast<uint32_t>(buffer.size()));
                   // Short data may come in the message instead of the chunk.
                   if (data.data() != buffer.data()) {
                     std::copy(data.begin(), data.end(), buffer.begin());
                   }
                   return data.size();
                 });
  }

  void Create(const std::string& name, DoneStatus done) override {
    auto memory = std::make_shared<CallMemory>();
    oncrpc::XdrWriter writer(absl::MakeSpan(memory->arguments));
    writer.String(name);
    CallForStatus(FileProcedure::kCreate, name, memory, writer, {}, std::move(done));
  }

  void Write(const std::string& name, uint64_t offset, absl::Span<const uint8_t> data,
             DoneStatus done) override {
    auto memory = std::make_shared<CallMemory>();
    oncrpc::XdrWriter writer(absl::MakeSpan(memory->arguments));
    writer.String(name);
    writer.Uint64(offset);
    oncrpc::CallRequest request;
    memory->item = {.bytes = data, .position = writer.EligibleOpaque(data.size())};
    request.items = {&memory->item, 1};
    CallForStatus(FileProcedure::kWrite, name, memory, writer, request, std::move(done));
  }

  void List(const std::string& after, Done<Page> done) override {
    auto memory = std::make_shared<CallMemory>();
    memory->reply.resize(oncrpc::kReplyHeaderBytes + kMaxListBytes);
    oncrpc::XdrWriter writer(absl::MakeSpan(memory->arguments));
    writer.String(after);
    oncrpc::CallRequest request;
    request.reply_buffer = absl::MakeSpan(memory->reply);
    Call<Page>(FileProcedure::kList, "list", memory, writer, request, std::move(done),
               [](oncrpc::XdrReader& reader) {
                 Page page;
                 const uint32_t count = reader.Uint32();
                 for (uint32_t i = 0; i < count && reader.ok(); ++i) {
                   FileStore::Entry entry;
                   entry.name = std::string(reader.String(kMaxName));
                   entry.size = reader.Uint64();
                   entry.directory = reader.Bool();
                   page.entries.push_back(std::move(entry));
                 }
                 page.more = reader.Bool();
                 return page;
               });
  }

  void Disconnect(absl::AnyInvocable<void()> done) override {
    if (ended_) {
      done();
      return;
    }
    disconnected_ = std::move(done);
    rpc_->Disconnect();
  }

  // As rpcrdma::Client::Connect.
  absl::Status Connect(const SocketAddress& server,
                       absl::AnyInvocable<void(absl::Status)> on_connected) {
    return rpc_->Connect(server, std::move(on_connected), [this](absl::Status) {
      ended_ = true;
      if (disconnected_ != nullptr) std::exchange(disconnected_, nullptr)();
    });
  }

 private:
  DoneStatus TakeNull(uint32_t place) {
    null_free_.push_back(place);
    return std::move(null_done_[place]);
  }

  void Later(absl::AnyInvocable<void()> work) { engine::Actor::Post(*worker_, std::move(work)); }

  // Makes one call whose result begins with a status; `parse` takes what follows OK.
  template <class T, class Parse>
  void Call(FileProcedure procedure, const std::string& what, std::shared_ptr<CallMemory> memory,
            const oncrpc::XdrWriter& writer, oncrpc::CallRequest request, Done<T> done,
            Parse parse) {
    auto shared = std::make_shared<Done<T>>(std::move(done));
    absl::Status status = absl::OkStatus();
    if (!writer.ok() || what.size() > kMaxName) {
      status = absl::FailedPreconditionError(
          absl::StrCat(what, ": the name is longer than ", kMaxName, " bytes"));
    } else {
      request.procedure = static_cast<uint32_t>(procedure);
      request.arguments = writer.bytes();
      status = rpc_->Call(request, [memory, shared, what, parse](
                                       absl::Status result, const oncrpc::Reply* reply) mutable {
        if (!result.ok()) {
          (*shared)(std::move(result));
          return;
        }
        oncrpc::XdrReader reader = reply->reader();
        const auto file_status = static_cast<FileStatus>(reader.Uint32());
        if (!reader.ok() || file_status != FileStatus::kOk) {
          (*shared)(reader.ok()
                        ? StatusOf(file_status, what)
                        : absl::DataLossError(absl::StrCat(what, ": the reply is truncated")));
          return;
        }
        T value = parse(reader);
        if (reader.AtEnd()) {
          (*shared)(std::move(value));
        } else {
          (*shared)(absl::DataLossError(absl::StrCat(what, ": the reply cannot be decoded")));
        }
      });
    }
    if (!status.ok()) Later([shared, status] { (*shared)(status); });
  }

  void CallForStatus(FileProcedure procedure, const std::string& what,
                     std::shared_ptr<CallMemory> memory, const oncrpc::XdrWriter& writer,
                     const oncrpc::CallRequest& request, DoneStatus done) {
    Call<bool>(
        procedure, what, std::move(memory), writer, request,
        [done = std::move(done)](absl::StatusOr<bool> result) mutable { done(result.status()); },
        [](oncrpc::XdrReader&) { return true; });
  }

  engine::Worker* worker_;
  bool ended_ = false;
  absl::AnyInvocable<void()> disconnected_;
  // Who waits for a NULL call, by place, so that such a call takes no heap: as many as there were
  // at once.
  std::vector<DoneStatus> null_done_;
  std::vector<uint32_t> null_free_;
  std::unique_ptr<rpcrdma::Client> rpc_;  // its end calls back: it goes first
};

}  // namespace

void FileClient::Connect(engine::Worker* worker, cm::Manager* manager, const SocketAddress& server,
                         const Options& options, Done<std::unique_ptr<FileClient>> done) {
  oncrpc::ProgramBinding binding =
      options.program == 0
          ? FileBinding()
          : oncrpc::ProgramBinding{.program = options.program,
                                   .version = options.version,
                                   .procedures = {oncrpc::ProcedureBinding{.number = 0}}};
  rpcrdma::ClientConfig config;
  config.credits = kCredits;
  auto rpc = rpcrdma::Client::Create(worker, manager, std::move(binding), config);
  if (rpc.ok() && options.log != nullptr) (*rpc)->SetRefusalLog(options.log);
  auto client = rpc.ok() ? absl::StatusOr<std::unique_ptr<Client>>(
                               std::make_unique<Client>(worker, *std::move(rpc)))
                         : rpc.status();
  Connecting<Client, FileClient>::Start(
      worker, std::move(client), server,
      {.timeout_ms = options.timeout_ms, .cancelled = options.cancelled}, std::move(done));
}

}  // namespace pollux::tools
