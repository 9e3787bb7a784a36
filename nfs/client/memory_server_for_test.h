// An NFS server with files in memory, for tests of clients. It loses uncommitted data when it
// restarts, and fails as the test requests.
#ifndef POLLUX_NFS_CLIENT_MEMORY_SERVER_FOR_TEST_H_
#define POLLUX_NFS_CLIENT_MEMORY_SERVER_FOR_TEST_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nfs/v3/attributes.h"
#include "nfs/v3/binding.h"
#include "nfs/v3/directories.h"
#include "nfs/v3/file_system.h"
#include "nfs/v3/files.h"
#include "nfs/v3/listing.h"
#include "oncrpc/codec.h"
#include "rpcrdma/responder/program.h"
#include "rpcrdma/server.h"
#include "stack/base/byte_order.h"

namespace pollux::nfs {

// Use it only on its worker's core.
class MemoryServer {
 public:
  struct File {
    Fattr3 attributes;
    std::vector<uint8_t> data;              // of a regular file
    std::vector<uint8_t> durable;           // the data that a restart preserves
    std::string target;                     // of a symbolic link
    std::map<std::string, uint64_t> names;  // of a directory
    uint64_t createverf = 0;
  };
  static constexpr uint64_t kRoot = 1;

  MemoryServer() { Make(Ftype3::kDir, 0755); }

  // Limits and faults that a test may set.
  uint32_t jukeboxes = 0;              // number of calls to answer by NFS3ERR_JUKEBOX
  uint32_t most_bytes = kMaxFileData;  // the most that one READ or WRITE transfers
  uint32_t rtmax = kMaxFileData;       // of FSINFO; larger READs get NFS3ERR_INVAL
  uint32_t wtmax = kMaxFileData;       // the same for WRITE
  uint32_t excess = 0;                 // READs return so many bytes more than were asked for
  uint64_t space = ~0ull;              // maximum bytes of a file
  Nfsstat3 deny = Nfsstat3::kOk;       // the status of READ, WRITE, CREATE and REMOVE
  bool exclusive = true;               // supports exclusive creation
  uint32_t bad_cookies = 0;        // number of READDIR or READDIRPLUS calls with a cookie to refuse
  uint32_t restart_at_write = 0;   // restarts before the WRITE of this number; 0: never
  uint32_t forgets_at_rename = 0;  // number of RENAMEs to execute and to answer with NFS3ERR_NOENT
  uint32_t entries_a_page = 100;
  bool readdirplus = true;  // supports READDIRPLUS
  // Sends attributes and handles in replies that may lack them (READDIRPLUS has its own rule).
  bool optional_results = true;

  // The calls received so far.
  std::map<Procedure, uint32_t> calls;
  uint32_t restarts = 0;

  static NfsFh3 Handle(uint64_t fileid) {
    NfsFh3 handle;
    handle.size = 8;
    StoreBe64(handle.bytes.data(), fileid);
    return handle;
  }
  File& file(uint64_t fileid) { return files_.at(fileid); }
  // Returns null if there is no such name in the root.
  File* Find(const std::string& name) {
    const auto found = file(kRoot).names.find(name);
    return found == file(kRoot).names.end() ? nullptr : &file(found->second);
  }
  size_t files() const { return files_.size(); }
  uint64_t Make(Ftype3 type, uint32_t mode) {
    const uint64_t fileid = ++last_fileid_;
    File& made = files_[fileid];
    made.attributes = {.type = type, .mode = mode, .nlink = 1, .fsid = 7, .fileid = fileid};
    return fileid;
  }
  File& Add(uint64_t dir, const std::string& name, Ftype3 type) {
    const uint64_t fileid = Make(type, 0644);
    file(dir).names[name] = fileid;
    return file(fileid);
  }
  void Restart() {
    ++restarts;
    ++verifier_;
    for (auto& [fileid, lost] : files_) Resize(lost, lost.data = lost.durable);
  }

  absl::StatusOr<std::unique_ptr<rpcrdma::Server>> Listen(
      engine::Worker* worker, cm::Manager* manager, const rpcrdma::ServerConfig& config = {}) {
    auto server = rpcrdma::Server::Create(worker, manager, config);
    if (!server.ok()) return server.status();
    absl::Status status = (*server)->RegisterProgram(MakeProgram());
    status.Update((*server)->Listen(kNfsRdmaPort));
    if (!status.ok()) return status;
    return server;
  }

 private:
  static void Resize(File& file, const std::vector<uint8_t>& data) {
    file.attributes.size = file.attributes.used = data.size();
  }
  uint64_t IdOf(const NfsFh3& handle) const {
    const uint64_t fileid = handle.size == 8 ? LoadBe64(handle.bytes.data()) : 0;
    return files_.contains(fileid) ? fileid : 0;
  }

  template <class Args, class Res>
  void Serve(rpcrdma::Program& program, Procedure procedure, Res (MemoryServer::*serve)(Args)) {
    using Plain = std::remove_cvref_t<Args>;
    const auto number = static_cast<uint32_t>(procedure);
    program.procedures.push_back({number, [this, procedure, serve](const rpcrdma::CallView& call,
                                                                   rpcrdma::ReplyHandle reply) {
                                    Plain arguments;
                                    if (!oncrpc::Decode(call.reader(), &arguments)) {
                                      return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
                                    }
                                    ++calls[procedure];
                                    Res results;
                                    if (jukeboxes > 0) {
                                      --jukeboxes;
                                      results.status = Nfsstat3::kJukebox;
                                    } else {
                                      results = (this->*serve)(arguments);
                                    }
                                    Send(results, std::move(reply));
                                  }});
  }
  template <class Res>
  void Send(const Res& results, rpcrdma::ReplyHandle reply) {
    std::vector<uint8_t> space(2 * kMaxDirectoryBytes);
    const oncrpc::Encoded encoded = oncrpc::Encode(results, absl::MakeSpan(space));
    if (!encoded.ok) return reply.Fail(oncrpc::AcceptStatus::kSystemError);
    if (!encoded.item.has_value()) return reply.Send(encoded.stream);
    auto bytes = std::make_shared<std::vector<uint8_t>>(encoded.item->bytes.begin(),
                                                        encoded.item->bytes.end());
    reply.Send(encoded.stream,
               rpcrdma::ResultItem{
                   .bytes = *bytes, .position = encoded.item->position, .release = [bytes] {}});
  }

  PostOpAttr AttributesOf(const File& file) const {
    return optional_results ? PostOpAttr(file.attributes) : std::nullopt;
  }
  CreateOk Created(const File& made) const {
    if (!optional_results) return {};
    return {
        .obj = Handle(made.attributes.fileid), .obj_attributes = made.attributes, .dir_wcc = {}};
  }

  GetattrRes Getattr(const GetattrArgs& args) {
    const uint64_t id = IdOf(args.object);
    if (id == 0) return {.status = Nfsstat3::kStale};
    return {.resok = file(id).attributes};
  }
  SetattrRes Setattr(const SetattrArgs& args) {
    const uint64_t id = IdOf(args.object);
    if (id == 0) return {.status = Nfsstat3::kStale};
    if (args.new_attributes.mode) file(id).attributes.mode = *args.new_attributes.mode;
    return {};
  }
  LookupRes Lookup(const LookupArgs& args) {
    const uint64_t dir = IdOf(args.dir);
    if (dir == 0) return {.status = Nfsstat3::kStale};
    if (file(dir).attributes.type != Ftype3::kDir) return {.status = Nfsstat3::kNotdir};
    const auto found = file(dir).names.find(std::string(args.name.text));
    if (found == file(dir).names.end()) return {.status = Nfsstat3::kNoent};
    return {.resok = {Handle(found->second), AttributesOf(file(found->second)), {}}};
  }
  ReadlinkRes Readlink(const ReadlinkArgs& args) {
    const uint64_t id = IdOf(args.symlink);
    if (id == 0 || file(id).attributes.type != Ftype3::kLnk) return {.status = Nfsstat3::kInval};
    const std::string& target = file(id).target;
    return {.resok = {AttributesOf(file(id)),
                      {{reinterpret_cast<const uint8_t*>(target.data()), target.size()}}}};
  }
  ReadRes Read(const ReadArgs& args) {
    const uint64_t id = IdOf(args.file);
    if (id == 0) return {.status = Nfsstat3::kStale};
    if (deny != Nfsstat3::kOk) return {.status = deny};
    if (args.count > rtmax) return {.status = Nfsstat3::kInval};
    const std::vector<uint8_t>& data = file(id).data;
    const uint64_t begin = std::min<uint64_t>(args.offset, data.size());
    const uint64_t most = std::min(args.count + excess, most_bytes);
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(most, data.size() - begin));
    return {.resok = {AttributesOf(file(id)),
                      bytes,
                      begin + bytes == data.size(),
                      {absl::MakeConstSpan(data).subspan(begin, bytes)}}};
  }
  WriteRes Write(const WriteArgs& args) {
    const uint64_t id = IdOf(args.file);
    if (id == 0) return {.status = Nfsstat3::kStale};
    if (deny != Nfsstat3::kOk) return {.status = deny};
    if (args.data.bytes.size() > wtmax) return {.status = Nfsstat3::kInval};
    if (restart_at_write == calls[Procedure::kWrite]) Restart();
    const uint32_t bytes = std::min(static_cast<uint32_t>(args.data.bytes.size()), most_bytes);
    if (args.offset + bytes > space) return {.status = Nfsstat3::kNospc};
    std::vector<uint8_t>& data = file(id).data;
    data.resize(std::max<uint64_t>(data.size(), args.offset + bytes));
    std::copy_n(args.data.bytes.begin(), bytes, data.begin() + static_cast<ptrdiff_t>(args.offset));
    Resize(file(id), data);
    return {.resok = {{}, bytes, StableHow::kUnstable, verifier_}};
  }
  CommitRes Commit(const CommitArgs& args) {
    const uint64_t id = IdOf(args.file);
    if (id == 0) return {.status = Nfsstat3::kStale};
    file(id).durable = file(id).data;
    return {.resok = {{}, verifier_}};
  }
  CreateRes Create(const CreateArgs& args) {
    const uint64_t dir = IdOf(args.where.dir);
    if (dir == 0) return {.status = Nfsstat3::kStale};
    if (deny != Nfsstat3::kOk) return {.status = deny};
    const bool exclusively = args.how.mode == Createmode3::kExclusive;
    if (exclusively && !exclusive) return {.status = Nfsstat3::kNotsupp};
    const std::string name(args.where.name.text);
    const auto found = file(dir).names.find(name);
    if (found != file(dir).names.end()) {
      const bool mine = exclusively && file(found->second).createverf == args.how.verf;
      if (!mine) return {.status = Nfsstat3::kExist};
      return {.resok = Created(file(found->second))};
    }
    File& made = Add(dir, name, Ftype3::kReg);
    made.createverf = args.how.verf;
    if (args.how.obj_attributes.mode) made.attributes.mode = *args.how.obj_attributes.mode;
    return {.resok = Created(made)};
  }
  RemoveRes Remove(const RemoveArgs& args) { return Unlink(args, false); }
  RemoveRes Rmdir(const RemoveArgs& args) { return Unlink(args, true); }
  RemoveRes Unlink(const RemoveArgs& args, bool directory) {
    const uint64_t dir = IdOf(args.dir);
    if (dir == 0) return {.status = Nfsstat3::kStale};
    if (deny != Nfsstat3::kOk) return {.status = deny};
    const auto found = file(dir).names.find(std::string(args.name.text));
    if (found == file(dir).names.end()) return {.status = Nfsstat3::kNoent};
    const bool is_directory = file(found->second).attributes.type == Ftype3::kDir;
    if (is_directory != directory) {
      return {.status = directory ? Nfsstat3::kNotdir : Nfsstat3::kIsdir};
    }
    if (!file(found->second).names.empty()) return {.status = Nfsstat3::kNotempty};
    files_.erase(found->second);
    file(dir).names.erase(found);
    return {};
  }
  RenameRes Rename(const RenameArgs& args) {
    const uint64_t from = IdOf(args.from.dir), to = IdOf(args.to.dir);
    if (from == 0 || to == 0) return {.status = Nfsstat3::kStale};
    const auto found = file(from).names.find(std::string(args.from.name.text));
    if (found == file(from).names.end()) return {.status = Nfsstat3::kNoent};
    const uint64_t id = found->second;
    file(from).names.erase(found);
    const auto old = file(to).names.find(std::string(args.to.name.text));
    if (old != file(to).names.end()) files_.erase(old->second);
    file(to).names[std::string(args.to.name.text)] = id;
    if (forgets_at_rename == 0) return {};
    --forgets_at_rename;
    return {.status = Nfsstat3::kNoent};
  }
  ReaddirRes Readdir(const ReaddirArgs& args) {
    return List<ReaddirRes, Entry3>(args, args.count, [](Entry3&) {});
  }
  ReaddirplusRes Readdirplus(const ReaddirplusArgs& args) {
    if (!readdirplus) return {.status = Nfsstat3::kNotsupp};
    return List<ReaddirplusRes, Entryplus3>(args, args.maxcount, [this](Entryplus3& entry) {
      // Every third entry has no attributes and handle, which are optional.
      if (entry.fileid % 3 == 0) return;
      entry.name_attributes = file(entry.fileid).attributes;
      entry.name_handle = Handle(entry.fileid);
    });
  }
  template <class Res, class Entry, class Args, class Fill>
  Res List(const Args& args, uint32_t max_bytes, Fill fill) {
    const uint64_t dir = IdOf(args.dir);
    if (dir == 0) return {.status = Nfsstat3::kStale};
    if (file(dir).attributes.type != Ftype3::kDir) return {.status = Nfsstat3::kNotdir};
    if (args.cookie != 0 && bad_cookies > 0) {
      --bad_cookies;
      return {.status = Nfsstat3::kBadCookie};
    }
    if (args.cookie != 0 && args.cookieverf != kCookieverf) return {.status = Nfsstat3::kBadCookie};
    Res results;
    results.resok.cookieverf = kCookieverf;
    size_t left = max_bytes - EmptyListBytes(false);
    uint64_t cookie = 0;
    for (const auto& [name, id] : file(dir).names) {
      if (++cookie <= args.cookie) continue;
      Entry entry{.fileid = id, .name = {name}, .cookie = cookie};
      fill(entry);
      if (results.resok.entries.items.size() == entries_a_page) return results;
      if (ListedBytes(entry) > left) return results;
      left -= ListedBytes(entry);
      results.resok.entries.items.push_back(entry);
    }
    results.resok.eof = true;
    return results;
  }
  FsinfoRes Fsinfo(const FsinfoArgs&) {
    FsinfoRes results;
    results.resok.rtmax = rtmax;
    results.resok.wtmax = wtmax;
    results.resok.dtpref = 8192;
    return results;
  }

  rpcrdma::Program MakeProgram() {
    using P = Procedure;
    using S = MemoryServer;
    rpcrdma::Program program{.binding = Nfs3Binding(), .procedures = {}};
    program.procedures.push_back(
        {0, [](const rpcrdma::CallView&, rpcrdma::ReplyHandle reply) { reply.Send({}); }});
    Serve(program, P::kGetattr, &S::Getattr);
    Serve(program, P::kSetattr, &S::Setattr);
    Serve(program, P::kLookup, &S::Lookup);
    Serve(program, P::kReadlink, &S::Readlink);
    Serve(program, P::kRead, &S::Read);
    Serve(program, P::kWrite, &S::Write);
    Serve(program, P::kCommit, &S::Commit);
    Serve(program, P::kCreate, &S::Create);
    Serve(program, P::kRemove, &S::Remove);
    Serve(program, P::kRmdir, &S::Rmdir);
    Serve(program, P::kRename, &S::Rename);
    Serve(program, P::kReaddir, &S::Readdir);
    Serve(program, P::kReaddirplus, &S::Readdirplus);
    Serve(program, P::kFsinfo, &S::Fsinfo);
    return program;
  }

  static constexpr Cookieverf3 kCookieverf = 0xC00C1E;
  std::map<uint64_t, File> files_;
  uint64_t last_fileid_ = 0;
  Writeverf3 verifier_ = 1;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_CLIENT_MEMORY_SERVER_FOR_TEST_H_
