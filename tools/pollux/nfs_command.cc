// pollux nfs: files of an NFS version 3 server, over RPC-over-RDMA.
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/local_file.h"
#include "tools/common/report.h"
#include "tools/nfs/transfer.h"
#include "tools/nfs/tree.h"
#include "tools/nfs/url.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/nfs_remote.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;
using nfs::Fattr3;
using nfs::Ftype3;

struct TypeName {
  Ftype3 type;
  char letter;
  const char* name;
};
constexpr TypeName kTypeNames[] = {
    {Ftype3::kReg, '-', "file"},    {Ftype3::kDir, 'd', "directory"},
    {Ftype3::kBlk, 'b', "block"},   {Ftype3::kChr, 'c', "character"},
    {Ftype3::kLnk, 'l', "symlink"}, {Ftype3::kSock, 's', "socket"},
    {Ftype3::kFifo, 'p', "fifo"},
};

const TypeName& NameOf(Ftype3 type) {
  for (const TypeName& known : kTypeNames) {
    if (known.type == type) return known;
  }
  return kTypeNames[0];
}

// "drwxr-xr-x"
std::string ModeText(const Fattr3& attributes) {
  std::string text(1, NameOf(attributes.type).letter);
  for (int shift = 6; shift >= 0; shift -= 3) {
    const uint32_t bits = attributes.mode >> shift;
    text += (bits & 4) != 0 ? 'r' : '-';
    text += (bits & 2) != 0 ? 'w' : '-';
    text += (bits & 1) != 0 ? 'x' : '-';
  }
  const auto special = [&](uint32_t bit, size_t at, char with, char without) {
    if ((attributes.mode & bit) != 0) text[at] = text[at] == 'x' ? with : without;
  };
  special(04000, 3, 's', 'S');
  special(02000, 6, 's', 'S');
  special(01000, 9, 't', 'T');
  return text;
}

std::string TimeText(const nfs::Nfstime3& time) {
  const std::time_t seconds = time.seconds;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

double Seconds(const nfs::Nfstime3& time) { return time.seconds + time.nseconds * 1e-9; }

Json AttributesJson(const Fattr3& attributes) {
  return {{"type", NameOf(attributes.type).name},
          {"mode", absl::StrFormat("%04o", attributes.mode)},
          {"nlink", attributes.nlink},
          {"uid", attributes.uid},
          {"gid", attributes.gid},
          {"size", attributes.size},
          {"used", attributes.used},
          {"fileid", attributes.fileid},
          {"mtime", Seconds(attributes.mtime)},
          {"ctime", Seconds(attributes.ctime)},
          {"atime", Seconds(attributes.atime)}};
}

// One of the subcommands, parsed, with its connection; `status` says why there is none.
struct Session {
  NfsOptions options;
  std::vector<std::string> operands;
  std::optional<int> done;  // the exit status of a command that has no more to do
  absl::Status status;
  std::unique_ptr<NfsRemote> remote;
};

// `url` is the number of the operand that is one.
void Open(const std::string& command, Options& options, int argc, char** argv, size_t least,
          size_t most, size_t url, Session* session) {
  DeclareNfsOptions(options, &session->options);
  session->done = ParseOperands(command, options, argc, argv, least, most, &session->operands);
  if (session->done) return;
  const auto parsed = ResolveNfsUrl(session->operands[url]);
  session->status = parsed.status();
  // A local file that cannot be read is told before anything is asked of the network.
  if (parsed.ok() && url == 1) session->status = SourceFile(session->operands[0]).status();
  if (!session->status.ok()) return;
  auto remote = NfsRemote::Connect(session->options, *parsed);
  session->status = remote.status();
  if (remote.ok()) session->remote = *std::move(remote);
}

int Close(const std::string& command, Session& session, const absl::Status& status,
          const Json& json, const std::string& text) {
  return Finish(command, session.options.json, Explain(session.remote->node(), status), json, text);
}

std::string Line(const std::string& name, const Fattr3& attributes, const std::string& target) {
  return absl::StrFormat("%s %5u %5u %14s  %s  %s%s%s\n", ModeText(attributes), attributes.uid,
                         attributes.gid, Grouped(attributes.size), TimeText(attributes.mtime),
                         Printable(name), attributes.type == Ftype3::kDir ? "/" : "",
                         target.empty() ? "" : absl::StrCat(" -> ", Printable(target)));
}

absl::StatusOr<std::vector<NfsTree::Entry>> ListPath(NfsRemote& remote) {
  const auto object = remote.tree().Resolve(remote.path(), true);
  if (!object.ok()) return object.status();
  const std::string name = remote.tree().Name(remote.path());
  if (object->attributes.type == Ftype3::kDir) return remote.tree().List(*object, name);
  return std::vector<NfsTree::Entry>{{.name = name, .attributes = object->attributes}};
}

int List(int argc, char** argv) {
  Session session;
  Options options("nfs ls [options] nfs://HOST[:PORT]/export/path",
                  "Lists a directory of an NFS server with READDIRPLUS.");
  Open("nfs ls", options, argc, argv, 1, 1, 0, &session);
  if (session.done) return *session.done;
  if (session.remote == nullptr) {
    return Finish("nfs ls", session.options.json, session.status, {}, "");
  }
  const auto entries = ListPath(*session.remote);
  Json list = Json::array();
  std::string text;
  if (entries.ok()) {
    for (const NfsTree::Entry& entry : *entries) {
      Json json = {{"name", entry.name}};
      json.update(AttributesJson(entry.attributes));
      if (!entry.target.empty()) json["target"] = entry.target;
      list.push_back(std::move(json));
      absl::StrAppend(&text, Line(entry.name, entry.attributes, entry.target));
    }
  }
  return Close("nfs ls", session, entries.status(), {{"entries", list}}, text);
}

int Stat(int argc, char** argv) {
  Session session;
  Options options("nfs stat [options] nfs://HOST[:PORT]/export/path",
                  "Shows the attributes of a file of an NFS server, and where a symbolic link "
                  "points.");
  Open("nfs stat", options, argc, argv, 1, 1, 0, &session);
  if (session.done) return *session.done;
  if (session.remote == nullptr) {
    return Finish("nfs stat", session.options.json, session.status, {}, "");
  }
  NfsTree& tree = session.remote->tree();
  const std::string name = tree.Name(session.remote->path());
  const auto object = tree.Resolve(session.remote->path(), false);
  absl::Status status = object.status();
  Json json;
  std::string text;
  if (object.ok()) {
    const Fattr3& found = object->attributes;
    json = AttributesJson(found);
    text = absl::StrCat(Printable(name), "\n",
                        Table({{"type", NameOf(found.type).name},
                               {"mode", absl::StrFormat("%04o %s", found.mode, ModeText(found))},
                               {"links", Grouped(found.nlink)},
                               {"owner", absl::StrCat(found.uid, ":", found.gid)},
                               {"size", absl::StrCat(Grouped(found.size), " bytes")},
                               {"on disk", absl::StrCat(Grouped(found.used), " bytes")},
                               {"file ID", absl::StrCat(found.fileid)},
                               {"modified", TimeText(found.mtime)},
                               {"changed", TimeText(found.ctime)},
                               {"accessed", TimeText(found.atime)}}));
    if (found.type == Ftype3::kLnk) {
      const auto target = tree.ReadLink(object->handle, name);
      status = target.status();
      if (target.ok()) {
        json["target"] = *target;
        absl::StrAppend(&text, Table({{"points to", Printable(*target)}}));
      }
    }
  }
  return Close("nfs stat", session, status, json, text);
}

int Transfer(bool put, int argc, char** argv) {
  const std::string command = put ? "nfs put" : "nfs get";
  Session session;
  Options options(
      put ? "nfs put [options] LOCAL nfs://HOST[:PORT]/export/path"
          : "nfs get [options] nfs://HOST[:PORT]/export/path [LOCAL]",
      put ? "Sends a file to an NFS server: WRITE under a temporary name, COMMIT, RENAME."
          : "Fetches a file from an NFS server, and replaces LOCAL when it is complete.");
  Open(command, options, argc, argv, put ? 2 : 1, 2, put ? 1 : 0, &session);
  if (session.done) return *session.done;
  if (session.remote == nullptr) {
    return Finish(command, session.options.json, session.status, {}, "");
  }
  NfsTree& tree = session.remote->tree();
  const std::string& path = session.remote->path();
  const std::string remote = tree.Name(path);
  std::string local = put ? session.operands[0] : std::filesystem::path(remote).filename().string();
  if (!put && session.operands.size() == 2) local = session.operands[1];
  const auto limits = AskLimits(tree);
  if (!limits.ok()) return Close(command, session, limits.status(), {}, "");
  const Progress progress = session.options.json ? nullptr : ProgressBar(command, true);
  const NfsTransfer result = put ? NfsPut(tree, *limits, local, path, progress)
                                 : NfsGet(tree, *limits, path, local, progress);
  Json json = {{"bytes", result.bytes},
               {"seconds", result.seconds},
               {"bytes_per_second", result.BytesPerSecond()},
               {"sha256", result.sha256},
               {"block_bytes", put ? limits->write_bytes : limits->read_bytes},
               {"in_flight", limits->in_flight}};
  AddCounters(session.remote->node(), &json);
  json["reconnects"] = session.remote->node().Run(
      [&tree] { return tree.server().client.rpc().counters().reconnects; });
  return Close(
      command, session, result.status, json,
      absl::StrFormat("%s -> %s: %s, %s, SHA-256 %s\n", put ? local : remote, put ? remote : local,
                      Bytes(result.bytes), Rate(result.BytesPerSecond()), result.sha256));
}

int Get(int argc, char** argv) { return Transfer(false, argc, argv); }
int Put(int argc, char** argv) { return Transfer(true, argc, argv); }

int Remove(int argc, char** argv) {
  Session session;
  bool directory = false;
  Options options("nfs rm [options] nfs://HOST[:PORT]/export/path",
                  "Removes a file or symbolic link (not its target) of an NFS server.");
  options.Switch("dir", "remove an empty directory instead", &directory);
  Open("nfs rm", options, argc, argv, 1, 1, 0, &session);
  if (session.done) return *session.done;
  if (session.remote == nullptr) {
    return Finish("nfs rm", session.options.json, session.status, {}, "");
  }
  NfsTree& tree = session.remote->tree();
  const auto place = tree.ResolvePlace(session.remote->path());
  absl::Status status = place.status();
  if (place.ok()) {
    status = place->name.empty()
                 ? absl::FailedPreconditionError(absl::StrCat(place->path, " is the export itself"))
                 : tree.Remove(*place, directory);
  }
  return Close("nfs rm", session, status, {}, "");
}

constexpr struct {
  CommandName command;
  int (*run)(int argc, char** argv);
} kSubcommands[] = {
    {{"ls", "list a directory"}, List}, {{"get", "fetch a file"}, Get},
    {{"put", "send a file"}, Put},      {{"stat", "show attributes"}, Stat},
    {{"rm", "remove a file"}, Remove},
};

std::string Usage() {
  std::vector<CommandName> commands;
  for (const auto& subcommand : kSubcommands) commands.push_back(subcommand.command);
  return CommandsHelp(
      "nfs COMMAND [options] nfs://HOST[:PORT]/export/path",
      "Transfers and lists files of an NFS version 3 server over RPC-over-RDMA (port 20049).\n"
      "Calls its MOUNT service over TCP through this host's kernel.",
      commands, "`pollux nfs COMMAND --help` lists a command's options.");
}

}  // namespace

int NfsCommand(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "--help") == 0) {
    std::printf("%s", Usage().c_str());
    return kExitOk;
  }
  for (const auto& subcommand : kSubcommands) {
    if (argc >= 2 && std::strcmp(argv[1], subcommand.command.name) == 0) {
      return subcommand.run(argc - 1, argv + 1);
    }
  }
  std::fprintf(stderr, "%s", Usage().c_str());
  return kExitUsage;
}

}  // namespace pollux::tools
