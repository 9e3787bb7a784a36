// pollux put, get and ls: against a server elsewhere.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/await.h"
#include "tools/common/interrupt.h"
#include "tools/common/local_file.h"
#include "tools/common/report.h"
#include "tools/file_service/transfer.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxListedFiles = 10'000'000;  // of a listing: what one can still hold

int Transfer(const std::string& command, bool put, int argc, char** argv) {
  RemoteOptions remote;
  Options options(put ? "put [options] ADDR LOCAL [REMOTE]" : "get [options] ADDR REMOTE [LOCAL]",
                  put ? "Sends a file to a server (pollux serve), which fetches it by RDMA READ."
                      : "Fetches a file from a server (pollux serve) by RDMA WRITE into memory.");
  DeclareRemoteOptions(options, &remote);
  std::vector<std::string> operands;
  if (auto done = ParseOperands(command, options, argc, argv, 2, 3, &operands)) return *done;
  const std::string from = operands[1];
  const std::string to =
      operands.size() == 3 ? operands[2] : std::filesystem::path(from).filename().string();
  if (to.empty()) return Fail(command, absl::InvalidArgumentError("the file has no name"));
  if (put) {
    if (absl::Status status = SourceFile(from).status(); !status.ok()) {
      return Finish(command, remote.json, status, {}, "");
    }
  }
  auto connected = Remote::Connect(remote, operands[0]);
  if (!connected.ok()) return Finish(command, remote.json, connected.status(), {}, "");
  Remote& server = **connected;
  const Progress progress = remote.json ? nullptr : ProgressBar(command, true);
  const TransferResult result = put ? PutFile(server.node(), server.client(), from, to, progress)
                                    : GetFile(server.node(), server.client(), from, to, progress);
  Json json = {{"bytes", result.bytes},
               {"seconds", result.seconds},
               {"bytes_per_second", result.BytesPerSecond()},
               {"sha256", result.sha256}};
  AddCounters(server.node(), &json);
  return Finish(command, remote.json, Explain(server.node(), result.status), json,
                absl::StrFormat("%s -> %s: %s, %s, SHA-256 %s\n", from, to, Bytes(result.bytes),
                                Rate(result.BytesPerSecond()), result.sha256));
}

absl::StatusOr<std::vector<FileStore::Entry>> ListAll(Remote& server) {
  using Page = absl::StatusOr<FileClient::Page>;
  std::vector<FileStore::Entry> all;
  for (bool more = true; more;) {
    const std::string after = all.empty() ? "" : all.back().name;
    Page page = Blocking<Page>(server.node(), server.client(),
                               [&](auto done) { server.client().List(after, std::move(done)); });
    if (!page.ok()) return page.status();
    more = page->more && !page->entries.empty();
    for (FileStore::Entry& entry : page->entries) {
      if (!all.empty() && entry.name <= all.back().name) {
        return absl::DataLossError("the server's list is not sorted, so it might never end");
      }
      if (all.size() == kMaxListedFiles) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the server lists more than ", kMaxListedFiles, " files"));
      }
      all.push_back(std::move(entry));
    }
  }
  return all;
}

}  // namespace

int PutCommand(int argc, char** argv) { return Transfer("put", true, argc, argv); }
int GetCommand(int argc, char** argv) { return Transfer("get", false, argc, argv); }

int ListCommand(int argc, char** argv) {
  RemoteOptions remote;
  Options options("ls [options] ADDR", "Lists the files that a server (pollux serve) has.");
  DeclareRemoteOptions(options, &remote);
  std::vector<std::string> operands;
  if (auto done = ParseOperands("ls", options, argc, argv, 1, 1, &operands)) return *done;
  auto connected = Remote::Connect(remote, operands[0]);
  if (!connected.ok()) return Finish("ls", remote.json, connected.status(), {}, "");
  const auto entries = ListAll(**connected);
  Json list = Json::array();
  std::string text;
  if (entries.ok()) {
    for (const FileStore::Entry& entry : *entries) {
      list.push_back({{"name", entry.name}, {"size", entry.size}, {"directory", entry.directory}});
      absl::StrAppendFormat(&text, "%14s  %s%s\n", Grouped(entry.size), Printable(entry.name),
                            entry.directory ? "/" : "");
    }
  }
  return Finish("ls", remote.json, Explain((*connected)->node(), entries.status()),
                {{"entries", list}}, text);
}

}  // namespace pollux::tools
