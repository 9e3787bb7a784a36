// pollux put, get, ls and ping: against a server elsewhere.
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
                  put ? "Sends a file to a server (pollux serve) by RDMA READ of its memory."
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

int PingCommand(int argc, char** argv) {
  RemoteOptions remote;
  uint64_t count = 1;
  uint64_t program = 0, version = 0;
  Options options("ping [options] ADDR",
                  "Connects by RDMA CM, negotiates (RFC 8797), calls procedure NULL, disconnects.\n"
                  "Any RPC-over-RDMA service answers: --program 100003 --version 3 for NFS.");
  DeclareRemoteOptions(options, &remote);
  options.Number("count", "calls (1)", 1, 1'000'000'000, &count);
  options.Number("program", "number of the RPC program (the file service)", 0, 0xFFFFFFFF,
                 &program);
  options.Number("version", "version of the program", 0, 0xFFFFFFFF, &version);
  std::vector<std::string> operands;
  if (auto done = ParseOperands("ping", options, argc, argv, 1, 1, &operands)) return *done;
  if (version != 0 && program == 0) {
    return Fail("ping", absl::InvalidArgumentError(
                            "--version needs --program; the file service has only one version"));
  }
  remote.program = static_cast<uint32_t>(program);
  remote.version = static_cast<uint32_t>(version);
  auto connected = Remote::Connect(remote, operands[0]);
  if (!connected.ok()) return Finish("ping", remote.json, connected.status(), {}, "");
  Remote& server = **connected;
  const LoadResult result =
      TimeNullCalls(server.node(), server.client(), {.count = count}, nullptr);
  const FileClient::Negotiated negotiated =
      server.node().Run([&] { return server.client().negotiated(); });
  const Histogram& latency = *result.latency_ns;
  return Finish(
      "ping", remote.json, Explain(server.node(), result.status),
      {{"calls", result.operations},
       {"latency_us", LatencyJson(latency)},
       {"client_to_server_inline", negotiated.client_to_server_inline},
       {"server_to_client_inline", negotiated.server_to_client_inline},
       {"peer_private_data", negotiated.peer_sent_private_data},
       {"credits", negotiated.credits}},
      absl::StrFormat("%s: %u NULL calls, median %s, 99 %% %s; inline %u/%u bytes, peer %s RFC "
                      "8797 private data, grants %u credits\n",
                      operands[0], result.operations, Microseconds(latency.Percentile(0.5)),
                      Microseconds(latency.Percentile(0.99)), negotiated.client_to_server_inline,
                      negotiated.server_to_client_inline,
                      negotiated.peer_sent_private_data ? "sent" : "sent no", negotiated.credits));
}

}  // namespace pollux::tools
