#include "tools/nfs/transfer.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nfs/v3/directories.h"
#include "nfs/v3/file_system.h"
#include "nfs/v3/files.h"
#include "stack/base/random.h"
#include "stack/engine/polling/clock.h"
#include "tools/common/await.h"
#include "tools/common/local_file.h"
#include "tools/nfs/read_blocks.h"
#include "tools/nfs/write_blocks.h"

namespace pollux::tools {
namespace {

using nfs::Ftype3;
using nfs::Nfsstat3;
using nfs::Procedure;

// How often a server may lose what was written, in one transfer.
constexpr int kMaxRewrites = 16;
// With smaller READs and WRITEs, the state of all blocks of a file could exhaust the memory.
constexpr uint32_t kLeastBytes = 512;

// Runs blocks to their end.
absl::Status Run(const NfsServer& server, Blocks& blocks, uint64_t total,
                 const Progress& progress) {
  std::future<absl::Status> finished = blocks.future();
  server.node.Run([&] { blocks.Start(); });
  return AwaitAll(server.node, server.client, finished, blocks.done(), total, progress);
}

// Times what it holds to the end of its scope.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds), start_ns_(clock_.NowNs()) {}
  ~Stopwatch() { *seconds_ = static_cast<double>(clock_.NowNs() - start_ns_) * 1e-9; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const engine::Clock clock_;
  double* seconds_;
  uint64_t start_ns_;
};

absl::Status Digest(int fd, uint64_t bytes, NfsTransfer* result) {
  absl::StatusOr<std::string> sha256 = Sha256OfFile(fd, bytes);
  if (sha256.ok()) result->sha256 = *sha256;
  return sha256.status();
}

absl::StatusOr<nfs::Fattr3> Attributes(NfsTree& tree, const nfs::NfsFh3& file,
                                       const std::string& what) {
  auto found =
      Ask<nfs::GetattrRes>(tree.server(), Procedure::kGetattr, nfs::GetattrArgs{file}, {}, what,
                           [](const nfs::GetattrRes& results) { return results.resok; });
  if (!found.status.ok()) return found.status;
  return *found.value;
}

absl::Status Fetch(NfsTree& tree, const NfsLimits& limits, const std::string& path,
                   const std::string& local, const Progress& progress, NfsTransfer* result) {
  const std::string what = tree.Name(path);
  const auto found = tree.Resolve(path, true);
  if (!found.ok()) return found.status();
  if (found->attributes.type != Ftype3::kReg) {
    return absl::FailedPreconditionError(absl::StrCat(what, " is not a regular file"));
  }
  const uint64_t size = found->attributes.size;
  DestinationFile destination(local);
  if (!destination.status().ok()) return destination.status();
  {
    const Stopwatch watch(&result->seconds);
    NfsReadBlocks blocks(
        tree.server().client, found->handle, destination.fd(), what,
        {.total = size, .block_bytes = limits.read_bytes, .in_flight = limits.in_flight});
    absl::Status status = Run(tree.server(), blocks, size, progress);
    result->bytes = blocks.done();
    if (!status.ok()) return status;
  }
  const auto after = Attributes(tree, found->handle, what);
  if (!after.ok()) return after.status();
  if (after->mtime != found->attributes.mtime || after->size != size) {
    return absl::AbortedError(absl::StrCat(what, ": the file changed while it was read"));
  }
  if (absl::Status status = Digest(destination.fd(), size, result); !status.ok()) return status;
  return destination.Complete();
}

// A file that is made under a name of its own, and goes when it is not completed.
class RemoteFile {
 public:
  RemoteFile(NfsTree& tree, NfsTree::Place place) : tree_(tree), place_(std::move(place)) {
    const uint64_t number = Random(Random::SystemSeed()).Next64();
    temporary_ = {
        .dir = place_.dir, .name = absl::StrFormat(".pollux-%016x", number), .path = place_.path};
    verifier_ = number;
  }
  ~RemoteFile() {
    // What cannot be removed stays; the error that led here says more.
    if (made_) tree_.Remove(temporary_, false).IgnoreError();
  }
  RemoteFile(const RemoteFile&) = delete;
  RemoteFile& operator=(const RemoteFile&) = delete;

  absl::Status Create(uint32_t mode);
  const nfs::NfsFh3& handle() const { return handle_; }
  absl::StatusOr<nfs::Writeverf3> Commit();
  absl::Status Complete();

 private:
  CallOutcome<nfs::PostOpFh3> Ask(nfs::Createmode3 how, uint32_t mode);

  NfsTree& tree_;
  const NfsTree::Place place_;
  NfsTree::Place temporary_;
  uint64_t verifier_;
  nfs::NfsFh3 handle_;
  bool made_ = false;
};

CallOutcome<nfs::PostOpFh3> RemoteFile::Ask(nfs::Createmode3 how, uint32_t mode) {
  nfs::CreateArgs arguments{.where = {.dir = temporary_.dir, .name = {temporary_.name}},
                            .how = {.mode = how, .obj_attributes = {}, .verf = verifier_}};
  arguments.how.obj_attributes.mode = mode;
  return tools::Ask<nfs::CreateRes>(
      tree_.server(), Procedure::kCreate, arguments, {}, temporary_.path,
      [](const nfs::CreateRes& results) { return results.resok.obj; });
}

absl::Status RemoteFile::Create(uint32_t mode) {
  // Exclusively, so that a call that is sent again finds its own file and not somebody's.
  auto created = Ask(nfs::Createmode3::kExclusive, mode);
  if (created.stat == Nfsstat3::kNotsupp) created = Ask(nfs::Createmode3::kGuarded, mode);
  if (!created.status.ok()) return created.status;
  made_ = true;
  if (created.value->has_value()) {
    handle_ = **created.value;
  } else {
    const auto found = tree_.At(temporary_);
    if (!found.ok()) return found.status();
    handle_ = found->handle;
  }
  nfs::SetattrArgs attributes{.object = handle_, .new_attributes = {}, .guard = {}};
  attributes.new_attributes.mode = mode;
  attributes.new_attributes.atime.set_it = nfs::TimeHow::kSetToServerTime;
  attributes.new_attributes.mtime.set_it = nfs::TimeHow::kSetToServerTime;
  return tools::Ask<nfs::SetattrRes>(tree_.server(), Procedure::kSetattr, attributes,
                                     temporary_.path)
      .status;
}

absl::StatusOr<nfs::Writeverf3> RemoteFile::Commit() {
  const auto committed = tools::Ask<nfs::CommitRes>(
      tree_.server(), Procedure::kCommit, nfs::CommitArgs{.file = handle_}, {}, place_.path,
      [](const nfs::CommitRes& results) { return results.resok.verf; });
  if (!committed.status.ok()) return committed.status;
  return *committed.value;
}

absl::Status RemoteFile::Complete() {
  const nfs::RenameArgs arguments{.from = {.dir = temporary_.dir, .name = {temporary_.name}},
                                  .to = {.dir = place_.dir, .name = {place_.name}}};
  const auto renamed =
      tools::Ask<nfs::RenameRes>(tree_.server(), Procedure::kRename, arguments, place_.path);
  bool complete = renamed.status.ok();
  if (renamed.stat == Nfsstat3::kNoent) {
    // Renamed already, by the call that lost its reply with the connection?
    const auto own = Attributes(tree_, handle_, place_.path);
    const auto there = tree_.At(place_);
    complete = own.ok() && there.ok() && own->fileid == there->attributes.fileid;
  }
  if (complete) made_ = false;
  return complete ? absl::OkStatus() : renamed.status;
}

// Sends until all is on stable storage.
absl::Status WriteAll(NfsTree& tree, const NfsLimits& limits, const SourceFile& source,
                      const std::string& what, RemoteFile& file, const Progress& progress) {
  const Blocks::Shape shape{
      .total = source.bytes(), .block_bytes = limits.write_bytes, .in_flight = limits.in_flight};
  NfsWritten written((shape.total + shape.block_bytes - 1) / shape.block_bytes);
  for (int rounds = 0; rounds <= kMaxRewrites; ++rounds) {
    NfsWriteBlocks blocks(tree.server().client, file.handle(), source.fd(), what, shape, &written);
    absl::Status status = Run(tree.server(), blocks, shape.total, progress);
    if (!status.ok()) return status;
    if (written.AllSafe()) return absl::OkStatus();
    const auto verifier = file.Commit();
    if (!verifier.ok()) return verifier.status();
    if (written.Committed(*verifier) == 0) return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(what, ": the server restarted more than ", kMaxRewrites,
                                         " times before all data was on stable storage"));
}

// The mode for a file at `place`: that of the one it replaces, else the local file's.
absl::StatusOr<uint32_t> ModeAt(NfsTree& tree, const NfsTree::Place& place,
                                const SourceFile& source) {
  const auto old = tree.At(place);
  if (absl::IsNotFound(old.status())) return source.mode();
  if (!old.ok()) return old.status();
  if (old->attributes.type == Ftype3::kDir) {
    return absl::FailedPreconditionError(absl::StrCat(place.path, " is a directory"));
  }
  return old->attributes.type == Ftype3::kReg ? old->attributes.mode : source.mode();
}

absl::Status Put(NfsTree& tree, const NfsLimits& limits, const std::string& local,
                 const std::string& path, const Progress& progress, NfsTransfer* result) {
  const SourceFile source(local);
  if (!source.status().ok()) return source.status();
  const auto place = tree.ResolvePlace(path);
  if (!place.ok()) return place.status();
  if (place->name.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(place->path, " is a directory"));
  }
  const auto mode = ModeAt(tree, *place, source);
  if (!mode.ok()) return mode.status();
  RemoteFile file(tree, *place);
  {
    const Stopwatch watch(&result->seconds);
    absl::Status status = file.Create(*mode);
    if (status.ok()) status = WriteAll(tree, limits, source, place->path, file, progress);
    if (!status.ok()) return status;
  }
  result->bytes = source.bytes();
  // Before the check, so that the digest is that of the bytes that were sent.
  absl::Status status = Digest(source.fd(), source.bytes(), result);
  if (status.ok()) status = source.CheckUnchanged();
  return status.ok() ? file.Complete() : status;
}

}  // namespace

absl::StatusOr<NfsLimits> AskLimits(const NfsTree& tree) {
  struct Found {
    uint32_t read, write, granted;
  };
  const NfsServer& server = tree.server();
  const auto found =
      Ask<nfs::FsinfoRes>(server, Procedure::kFsinfo, nfs::FsinfoArgs{tree.root()}, {},
                          tree.Name(""), [&server](const nfs::FsinfoRes& results) {
                            return Found{results.resok.rtmax, results.resok.wtmax,
                                         server.client.rpc().granted_credits()};
                          });
  if (!found.status.ok()) return found.status;
  if (const uint32_t least = std::min(found.value->read, found.value->write); least < kLeastBytes) {
    return absl::DataLossError(absl::StrCat("the server's FSINFO limits READ or WRITE to ", least,
                                            " bytes; at least ", kLeastBytes, " are expected"));
  }
  return NfsLimits{
      .read_bytes = std::min(found.value->read, nfs::kMaxFileData),
      .write_bytes = std::min(found.value->write, nfs::kMaxFileData),
      .in_flight = std::clamp(static_cast<int>(found.value->granted), 1, kMaxInFlight)};
}

NfsTransfer NfsGet(NfsTree& tree, const NfsLimits& limits, const std::string& path,
                   const std::string& local, const Progress& progress) {
  NfsTransfer result;
  result.status = Fetch(tree, limits, path, local, progress, &result);
  return result;
}

NfsTransfer NfsPut(NfsTree& tree, const NfsLimits& limits, const std::string& local,
                   const std::string& path, const Progress& progress) {
  NfsTransfer result;
  result.status = Put(tree, limits, local, path, progress, &result);
  return result;
}

}  // namespace pollux::tools
