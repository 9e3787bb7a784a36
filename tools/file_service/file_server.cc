#include "tools/file_service/file_server.h"

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/server.h"
#include "stack/base/log_rate_limiter.h"
#include "stack/engine/loop/worker.h"
#include "tools/file_service/file_protocol.h"

namespace pollux::tools {
namespace {

using oncrpc::AcceptStatus;
using oncrpc::XdrReader;
using oncrpc::XdrWriter;
using rpcrdma::CallView;
using rpcrdma::ReplyHandle;

constexpr size_t kSmallResult = 64;    // every result but LIST's
constexpr size_t kEntriesAtOnce = 64;  // asked of the store
constexpr size_t kListTail = 4;        // `more`
// Blocks of kMaxBlock that replies may hold, all clients together: more could not be on the wire.
constexpr size_t kMaxBlocksOut = 64;
// Of larger reads. What was read into one is still in the cache when it is sent.
constexpr size_t kPieceBytes = 64 * 1024;
constexpr size_t kMaxPiecesOut = 256;  // pieces that replies may hold, all clients together
// Reads that go out in pieces, all clients together: each holds a file descriptor.
constexpr size_t kMaxStreams = 64;

class Server final : public FileServer, public engine::Poller {
 public:
  Server(engine::Worker* worker, FileStore* store, Options options)
      : worker_(worker), store_(store), options_(std::move(options)) {}
  ~Server() override {
    worker_->RemovePoller(this);
    waiting_.clear();  // they answer through rpc_
    waiting_to_stream_.clear();
    streams_.clear();
  }

  absl::Status Start(cm::Manager* manager) {
    rpcrdma::ServerConfig config;
    config.credits = kCredits;
    config.max_connections = options_.max_connections;
    config.max_connections_per_client = options_.max_connections_per_client;
    auto rpc = rpcrdma::Server::Create(worker_, manager, config);
    if (!rpc.ok()) return rpc.status();
    rpc_ = *std::move(rpc);
    rpcrdma::Program program;
    program.binding = FileBinding();
    const auto add = [&](FileProcedure procedure,
                         void (Server::*handle)(const CallView&, ReplyHandle)) {
      program.procedures.push_back(
          {.number = static_cast<uint32_t>(procedure),
           .handler = [this, handle](const CallView& call, ReplyHandle reply) {
             (this->*handle)(call, std::move(reply));
           }});
    };
    add(FileProcedure::kNull, &Server::Null);
    add(FileProcedure::kStat, &Server::Stat);
    add(FileProcedure::kRead, &Server::Read);
    add(FileProcedure::kCreate, &Server::Create);
    add(FileProcedure::kWrite, &Server::Write);
    add(FileProcedure::kList, &Server::List);
    if (absl::Status status = rpc_->RegisterProgram(std::move(program)); !status.ok()) {
      return status;
    }
    if (options_.log != nullptr) {
      rpc_->SetObserver([this](const rpcrdma::Server::ConnectionInfo& info, bool established) {
        LogConnection(info, established);
      });
      rpc_->SetRefusalLog([this](const std::string& line) { options_.log(line); });
    }
    worker_->AddPoller(this);
    return rpc_->Listen(options_.port);
  }

  size_t connections() const override { return rpc_->connections(); }
  uint64_t calls() const override { return rpc_->counters().calls_received; }

  void Shutdown(absl::AnyInvocable<void()> done) override {
    shut_down_ = std::move(done);
    wakeup().Wake();
    rpc_->Shutdown();
  }

  bool Poll(uint64_t) override {
    wakeup().Sleep();
    if (std::exchange(may_serve_waiting_, false)) ServeWaiting();
    const bool read = !streams_.empty() && ReadPiece();
    if (!streams_.empty() || may_serve_waiting_ || shut_down_ != nullptr) wakeup().Wake();
    if (shut_down_ == nullptr || rpc_->connections() != 0) return read;
    std::exchange(shut_down_, nullptr)();
    return true;
  }

 private:
  void LogConnection(const rpcrdma::Server::ConnectionInfo& info, bool established) {
    if (!established && options_.has_failed != nullptr && options_.has_failed(info.peer)) return;
    if (!connection_lines_.Take(info.peer.address, worker_->now_ns())) return;
    const std::string peer = ToString(info.peer);
    std::string line =
        established
            ? absl::StrFormat("%s connected, inline %u in, %u out, %s RFC 8797 private data", peer,
                              info.negotiated.thresholds.client_to_server,
                              info.negotiated.thresholds.server_to_client,
                              info.negotiated.peer_sent ? "sent" : "sent no")
            : absl::StrCat(peer, " gone");
    if (const uint64_t left_out = connection_lines_.TakeLeftOut(); left_out > 0) {
      absl::StrAppend(&line, " (", left_out,
                      " lines about connections were left out before this one)");
    }
    options_.log(line);
  }

  // A read that is answered piece by piece.
  struct Stream {
    ReplyHandle reply;
    FileStore::Reader file;
    uint64_t offset = 0;  // of the next piece, in the file
    uint32_t left = 0;    // wanted
    uint32_t done = 0;    // gone out
  };

  using Waiting = std::deque<std::pair<CallView, ReplyHandle>>;

  void ServeWaiting() {
    while (!waiting_.empty() && blocks_out_ < kMaxBlocksOut) ServeFirst(waiting_);
    while (!waiting_to_stream_.empty() && streams_.size() < kMaxStreams) {
      ServeFirst(waiting_to_stream_);
    }
  }
  void ServeFirst(Waiting& waiting) {
    auto [call, reply] = std::move(waiting.front());
    waiting.pop_front();
    if (!reply.client_is_gone()) Read(call, std::move(reply));
  }

  // Answers with a status and, when it is OK, what `write` appends.
  template <class Append>
  static void Reply(ReplyHandle& reply, const absl::Status& status, Append append) {
    std::array<uint8_t, kSmallResult> buffer;
    XdrWriter writer(absl::MakeSpan(buffer));
    writer.Uint32(static_cast<uint32_t>(FileStatusOf(status)));
    if (status.ok()) append(writer);
    reply.Send(writer.bytes());
  }
  static void Reply(ReplyHandle& reply, const absl::Status& status) {
    Reply(reply, status, [](XdrWriter&) {});
  }
  absl::Status MayWrite() const {
    return options_.read_only ? absl::PermissionDeniedError("read only") : absl::OkStatus();
  }

  void Null(const CallView& call, ReplyHandle reply) {
    if (!call.reader().AtEnd()) {
      reply.Fail(AcceptStatus::kGarbageArguments);
    } else {
      reply.Send({});
    }
  }

  void Stat(const CallView& call, ReplyHandle reply) {
    XdrReader reader = call.reader();
    const std::string name(reader.String(kMaxName));
    if (!reader.AtEnd()) {
      reply.Fail(AcceptStatus::kGarbageArguments);
      return;
    }
    const absl::StatusOr<FileStore::Attributes> attributes = store_->Stat(name);
    Reply(reply, attributes.status(), [&](XdrWriter& writer) {
      writer.Uint64(attributes->size);
      writer.Uint64(attributes->modified_ns);
      writer.Bool(attributes->directory);
    });
  }

  void Read(const CallView& call, ReplyHandle reply) {
    XdrReader reader = call.reader();
    const std::string name(reader.String(kMaxName));
    const uint64_t offset = reader.Uint64();
    const uint32_t count = reader.Uint32();
    if (!reader.AtEnd() || count > kMaxBlock) {
      reply.Fail(AcceptStatus::kGarbageArguments);
      return;
    }
    if (count > kPieceBytes && reply.PieceRoom() >= count) {
      if (streams_.size() < kMaxStreams) return Begin(name, offset, count, std::move(reply));
      waiting_to_stream_.emplace_back(call, std::move(reply));
      return;
    }
    if (blocks_out_ == kMaxBlocksOut) {
      waiting_.emplace_back(call, std::move(reply));
      return;
    }
    std::vector<uint8_t> block = TakeBlock();
    const absl::StatusOr<size_t> read =
        store_->Read(name, offset, absl::MakeSpan(block).first(count));
    if (!read.ok()) {
      GiveBlock(std::move(block));
      Reply(reply, read.status());
      return;
    }
    std::array<uint8_t, kSmallResult> buffer;
    XdrWriter writer(absl::MakeSpan(buffer));
    writer.Uint32(static_cast<uint32_t>(FileStatus::kOk));
    rpcrdma::ResultItem item;
    item.position = writer.EligibleOpaque(*read);
    item.bytes = absl::MakeConstSpan(block).first(*read);
    // The vector's storage does not move with it.
    item.release = [this, block = std::move(block)]() mutable { GiveBlock(std::move(block)); };
    reply.Send(writer.bytes(), std::move(item));
  }

  void Begin(const std::string& name, uint64_t offset, uint32_t count, ReplyHandle reply) {
    absl::StatusOr<FileStore::Reader> file = store_->OpenReader(name);
    if (!file.ok()) return Reply(reply, file.status());
    streams_.push_back(
        {.reply = std::move(reply), .file = *std::move(file), .offset = offset, .left = count});
    wakeup().Wake();
    if (streams_.size() == 1) ReadPiece();
  }

  // One piece at a time, for the network's turn: of the first read that can go on. False when none
  // can.
  bool ReadPiece() {
    if (pieces_out_ == kMaxPiecesOut) return false;
    for (auto stream = streams_.begin(); stream != streams_.end(); ++stream) {
      if (!stream->reply.CanWrite()) continue;
      // Its release may begin anything.
      if (stream->reply.client_is_gone() || GoOn(*stream)) {
        streams_.erase(stream);
        may_serve_waiting_ |= !waiting_to_stream_.empty();
      }
      return true;
    }
    return false;
  }

  // True when that was the last piece.
  bool GoOn(Stream& stream) {
    uint8_t* const piece = TakePiece();
    const size_t wanted = std::min<size_t>(stream.left, kPieceBytes);
    const absl::StatusOr<size_t> read = stream.file.Read(stream.offset, {piece, wanted});
    if (!read.ok()) {
      GivePiece(piece);
      Reply(stream.reply, read.status());
      return true;
    }
    const absl::Span<const uint8_t> bytes(piece, *read);
    stream.left -= static_cast<uint32_t>(wanted);
    stream.done += static_cast<uint32_t>(*read);
    stream.offset += *read;
    if (*read == wanted && stream.left > 0) {
      stream.reply.Write({.bytes = bytes, .release = [this, piece] { GivePiece(piece); }});
      return false;
    }
    std::array<uint8_t, kSmallResult> buffer;
    XdrWriter writer(absl::MakeSpan(buffer));
    writer.Uint32(static_cast<uint32_t>(FileStatus::kOk));
    const size_t position = writer.EligibleOpaque(stream.done);
    stream.reply.Send(
        writer.bytes(),
        {.bytes = bytes, .position = position, .release = [this, piece] { GivePiece(piece); }});
    return true;
  }

  void Create(const CallView& call, ReplyHandle reply) {
    XdrReader reader = call.reader();
    const std::string name(reader.String(kMaxName));
    if (!reader.AtEnd()) {
      reply.Fail(AcceptStatus::kGarbageArguments);
      return;
    }
    absl::Status status = MayWrite();
    if (status.ok()) status = store_->Create(name);
    Reply(reply, status);
  }

  void Write(const CallView& call, ReplyHandle reply) {
    XdrReader reader = call.reader();
    const std::string name(reader.String(kMaxName));
    const uint64_t offset = reader.Uint64();
    const absl::Span<const uint8_t> data = reader.EligibleOpaque(kMaxBlock);
    if (!reader.AtEnd()) {
      reply.Fail(AcceptStatus::kGarbageArguments);
      return;
    }
    absl::Status status = MayWrite();
    if (status.ok()) status = store_->Write(name, offset, data);
    Reply(reply, status);
  }

  void List(const CallView& call, ReplyHandle reply) {
    XdrReader reader = call.reader();
    const std::string after(reader.String(kMaxName));
    if (!reader.AtEnd()) {
      reply.Fail(AcceptStatus::kGarbageArguments);
      return;
    }
    const auto entries = store_->List(after, kEntriesAtOnce + 1);
    if (!entries.ok()) {
      Reply(reply, entries.status());
      return;
    }
    const size_t count = std::min(entries->size(), kEntriesAtOnce);
    std::vector<uint8_t> buffer(kMaxListBytes);
    // As many as fit; the count is written when it is known.
    size_t fits = 0, bytes = 2 * 4 + kListTail;
    while (fits < count) {
      const size_t entry = 4 + oncrpc::XdrRoundUp((*entries)[fits].name.size()) + 8 + 4;
      if (bytes + entry > kMaxListBytes) break;
      bytes += entry;
      ++fits;
    }
    XdrWriter writer(absl::MakeSpan(buffer));
    writer.Uint32(static_cast<uint32_t>(FileStatus::kOk));
    writer.Uint32(static_cast<uint32_t>(fits));
    for (size_t i = 0; i < fits; ++i) {
      const FileStore::Entry& entry = (*entries)[i];
      writer.String(entry.name);
      writer.Uint64(entry.size);
      writer.Bool(entry.directory);
    }
    writer.Bool(fits < entries->size());
    reply.Send(writer.bytes());
  }

  std::vector<uint8_t> TakeBlock() {
    ++blocks_out_;
    if (blocks_.empty()) return std::vector<uint8_t>(kMaxBlock);
    std::vector<uint8_t> block = std::move(blocks_.back());
    blocks_.pop_back();
    return block;
  }
  void GiveBlock(std::vector<uint8_t> block) {
    --blocks_out_;
    blocks_.push_back(std::move(block));
    if (waiting_.empty()) return;
    // From the poll: a block may be given back in the middle of anything.
    may_serve_waiting_ = true;
    wakeup().Wake();
  }

  // The one that came back last is the warmest.
  uint8_t* TakePiece() {
    ++pieces_out_;
    if (pieces_.empty()) return new uint8_t[kPieceBytes];
    uint8_t* const piece = pieces_.back().release();
    pieces_.pop_back();
    return piece;
  }
  void GivePiece(uint8_t* piece) {
    --pieces_out_;
    pieces_.emplace_back(piece);
  }

  engine::Worker* worker_;
  FileStore* store_;
  Options options_;
  PeerLogRateLimiter connection_lines_{kConnectionLinesOfAddress, kConnectionLines};
  std::vector<std::vector<uint8_t>> blocks_;
  size_t blocks_out_ = 0;  // lent to replies
  // A block has come back, or a stream ended, and reads wait for one.
  bool may_serve_waiting_ = false;
  std::vector<std::unique_ptr<uint8_t[]>> pieces_;
  size_t pieces_out_ = 0;
  // First come, first served; bounded as those that wait.
  std::list<Stream> streams_;
  // Reads that wait for a block, bounded by the calls that the connections have outstanding.
  Waiting waiting_;
  Waiting waiting_to_stream_;             // the same for their turn among streams_
  std::unique_ptr<rpcrdma::Server> rpc_;  // its calls may hold blocks: it goes first
  absl::AnyInvocable<void()> shut_down_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FileServer>> FileServer::Listen(engine::Worker* worker,
                                                               cm::Manager* manager,
                                                               FileStore* store, Options options) {
  auto server = std::make_unique<Server>(worker, store, std::move(options));
  if (absl::Status status = server->Start(manager); !status.ok()) return status;
  return server;
}

}  // namespace pollux::tools
