#include "tools/file_service/transfer.h"

#include <atomic>
#include <future>

#include "absl/strings/str_cat.h"
#include "stack/engine/polling/clock.h"
#include "tools/common/await.h"
#include "tools/common/blocks.h"
#include "tools/common/interrupt.h"
#include "tools/common/local_file.h"

namespace pollux::tools {
namespace {

// Of one file of the service.
class FileBlocks : public Blocks {
 public:
  FileBlocks(FileClient& client, int fd, const std::string& remote, uint64_t total,
             const BlockLoad& load = {})
      : Blocks({.total = total, .block_bytes = load.bytes, .in_flight = load.in_flight}),
        client_(client),
        fd_(fd),
        remote_(remote) {}

 protected:
  FileClient& client_;
  const int fd_;
  const std::string remote_;
};

class PutBlocks : public FileBlocks {
 public:
  using FileBlocks::FileBlocks;

 private:
  void Move(size_t buffer, uint64_t offset, uint32_t bytes) override {
    absl::Status read = ReadBlock(fd_, offset, absl::MakeSpan(buffers_[buffer]).first(bytes));
    if (!read.ok()) return Moved(buffer, read, 0);
    client_.Write(remote_, offset, absl::MakeConstSpan(buffers_[buffer].data(), bytes),
                  [this, buffer, bytes](absl::Status status) {
                    Moved(buffer, status, status.ok() ? bytes : 0);
                  });
  }
};

class GetBlocks : public FileBlocks {
 public:
  using FileBlocks::FileBlocks;

 private:
  void Move(size_t buffer, uint64_t offset, uint32_t bytes) override {
    client_.Read(remote_, offset, absl::MakeSpan(buffers_[buffer].data(), bytes),
                 [this, buffer, offset, bytes](absl::StatusOr<size_t> read) {
                   absl::Status status = read.status();
                   if (read.ok() && *read != bytes) {
                     status = absl::AbortedError("the remote file was truncated");
                   }
                   if (status.ok()) {
                     status = WriteBlock(fd_, offset,
                                         absl::MakeConstSpan(buffers_[buffer]).first(bytes));
                   }
                   Moved(buffer, status, status.ok() ? bytes : 0);
                 });
  }
};

// The same first block again and again, from memory.
class MemoryBlocks : public FileBlocks {
 public:
  MemoryBlocks(FileClient& client, bool write, const std::string& remote, uint64_t total,
               const BlockLoad& load)
      : FileBlocks(client, -1, remote, total, load), write_(write) {}

 private:
  void Move(size_t buffer, uint64_t, uint32_t bytes) override {
    if (write_) {
      client_.Write(remote_, 0, absl::MakeConstSpan(buffers_[buffer].data(), bytes),
                    [this, buffer, bytes](absl::Status status) {
                      Moved(buffer, status, status.ok() ? bytes : 0);
                    });
    } else {
      client_.Read(remote_, 0, absl::MakeSpan(buffers_[buffer].data(), bytes),
                   [this, buffer](absl::StatusOr<size_t> read) {
                     Moved(buffer, read.status(), read.ok() ? *read : 0);
                   });
    }
  }
  const bool write_;
};

template <class Kind>
void RunBlocks(Node& node, FileClient& client, int fd, const std::string& remote, uint64_t total,
               const Progress& progress, TransferResult* result) {
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  Kind blocks(client, fd, remote, total);
  std::future<absl::Status> finished = blocks.future();
  node.Run([&] { blocks.Start(); });
  result->status = AwaitAll(node, client, finished, blocks.done(), total, progress);
  result->seconds = static_cast<double>(clock.NowNs() - start_ns) * 1e-9;
  result->bytes = blocks.done();
  if (!result->status.ok()) return;
  absl::StatusOr<std::string> sha256 = Sha256OfFile(fd, total);
  result->status = sha256.status();
  if (sha256.ok()) result->sha256 = *sha256;
}

}  // namespace

TransferResult PutFile(Node& node, FileClient& client, const std::string& local,
                       const std::string& remote, const Progress& progress) {
  TransferResult result;
  const SourceFile source(local);
  result.status = source.status();
  if (!result.status.ok()) return result;
  result.status = Blocking<absl::Status>(
      node, client, [&](auto done) { client.Create(remote, std::move(done)); });
  if (!result.status.ok()) return result;
  RunBlocks<PutBlocks>(node, client, source.fd(), remote, source.bytes(), progress, &result);
  if (result.status.ok()) result.status = source.CheckUnchanged();
  if (!result.status.ok()) {
    result.status = absl::Status(
        result.status.code(),
        absl::StrCat(result.status.message(), "; ", remote, " on the server is not complete"));
  }
  return result;
}

TransferResult GetFile(Node& node, FileClient& client, const std::string& remote,
                       const std::string& local, const Progress& progress) {
  TransferResult result;
  const auto stat = [&] {
    return Blocking<absl::StatusOr<FileStore::Attributes>>(
        node, client, [&](auto done) { client.Stat(remote, std::move(done)); });
  };
  const auto attributes = stat();
  result.status = attributes.status();
  if (!result.status.ok()) return result;
  if (attributes->directory) {
    result.status = absl::FailedPreconditionError(absl::StrCat(remote, " is a directory"));
    return result;
  }
  DestinationFile destination(local);
  result.status = destination.status();
  if (!result.status.ok()) return result;
  RunBlocks<GetBlocks>(node, client, destination.fd(), remote, attributes->size, progress, &result);
  if (!result.status.ok()) return result;
  const auto after = stat();
  result.status = after.status();
  if (after.ok() &&
      (after->modified_ns != attributes->modified_ns || after->size != attributes->size)) {
    result.status =
        absl::AbortedError(absl::StrCat(remote, ": the file changed while it was read"));
  }
  if (result.status.ok()) result.status = destination.Complete();
  return result;
}

namespace {

// On the node's core, from its first turn there.
class NullCalls final : private engine::Poller {
 public:
  NullCalls(engine::Worker& worker, FileClient& client, const LoadOptions& load)
      : worker_(worker),
        client_(client),
        load_(
            load, [this] { return NowNs(); }, [this](uint32_t slot) { Begin(slot); },
            [this](LoadResult result) {
              worker_.RemovePoller(this);
              finished_.set_value(std::move(result));
            }) {}

  void Start() { worker_.AddPoller(this); }
  std::future<LoadResult> future() { return finished_.get_future(); }
  const std::atomic<uint64_t>& done() const { return done_; }

 private:
  bool Poll(uint64_t /*now_ns*/) override {
    if (Interrupted()) {
      load_.Stop(absl::CancelledError("interrupted"));
      return false;
    }
    return load_.Turn();
  }
  // Calls that end in one turn of the worker end, and begin others, at one time: to read the clock
  // for each takes a client a twentieth of its time. One at a time has a turn of its own.
  uint64_t NowNs() {
    if (worker_.now_ns() != turn_ns_) {
      turn_ns_ = worker_.now_ns();
      now_ns_ = clock_.NowNs();
    }
    return now_ns_;
  }
  void Begin(uint32_t slot) {
    client_.Null([this, slot](const absl::Status& status) {
      done_.store(done_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      load_.Ended(slot, status);
    });
  }

  engine::Worker& worker_;
  FileClient& client_;
  const engine::Clock clock_;
  uint64_t turn_ns_ = 0;  // of the worker, when the clock was read
  uint64_t now_ns_ = 0;   // what it said
  std::atomic<uint64_t> done_{0};
  std::promise<LoadResult> finished_;
  Load load_;
};

}  // namespace

LoadResult TimeNullCalls(Node& node, FileClient& client, const LoadOptions& load,
                         const Progress& progress) {
  NullCalls calls(node.device().worker(), client, load);
  std::future<LoadResult> finished = calls.future();
  node.Run([&] { calls.Start(); });
  LoadResult result = AwaitShowing(node, client, finished, calls.done(), load.count, progress);
  result.status = InterruptedOr(result.status);
  return result;
}

BlocksResult TimeBlocks(Node& node, FileClient& client, bool write, const std::string& remote,
                        const BlockLoad& load, const Progress& progress) {
  BlocksResult result;
  if (write) {
    result.status = Blocking<absl::Status>(
        node, client, [&](auto done) { client.Create(remote, std::move(done)); });
    if (!result.status.ok()) return result;
  }
  const uint64_t total = load.count * load.bytes;
  MemoryBlocks blocks(client, write, remote, total, load);
  std::future<absl::Status> finished = blocks.future();
  const engine::Clock clock;
  const uint64_t start_ns = clock.NowNs();
  node.Run([&] { blocks.Start(); });
  result.status = AwaitAll(node, client, finished, blocks.done(), total, progress);
  result.seconds = static_cast<double>(clock.NowNs() - start_ns) * 1e-9;
  result.bytes = blocks.done();
  return result;
}

}  // namespace pollux::tools
