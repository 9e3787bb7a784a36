#include "tools/pollux/nfs_remote.h"

#include <unistd.h>

#include <array>
#include <future>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/common/connecting.h"
#include "tools/common/interrupt.h"
#include "tools/common/report.h"
#include "tools/file_service/session.h"

namespace pollux::tools {
namespace {

constexpr uint64_t kMaxId = 0xFFFFFFFF;

// Of this process, or of whom it acts for: then without further groups.
oncrpc::AuthSys Credential(const NfsOptions& options, const std::string& machine_name) {
  oncrpc::AuthSys credential{.machinename = {machine_name},
                             .uid = static_cast<uint32_t>(options.uid.value_or(geteuid())),
                             .gid = static_cast<uint32_t>(options.gid.value_or(getegid()))};
  if (options.uid.has_value() || options.gid.has_value()) return credential;
  std::array<gid_t, 65536> groups;
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  for (int i = 0; i < count && credential.gids.items.size() < oncrpc::kMaxAuthSysGids; ++i) {
    if (groups[static_cast<size_t>(i)] != credential.gid) {
      credential.gids.items.push_back(groups[static_cast<size_t>(i)]);
    }
  }
  return credential;
}

std::string MachineName() {
  std::array<char, oncrpc::kMaxMachineName + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "pollux";
  return name.data();
}

// The kernel asks: it must have a way to the server of its own.
absl::Status WithHint(const absl::Status& status, const NfsOptions& options) {
  const bool shared =
      !options.port.device.netdev.empty() || !options.port.device.kernel_path.empty();
  if (!absl::IsUnavailable(status) || shared || options.mount.has_value()) return status;
  return absl::UnavailableError(absl::StrCat(status.message(),
                                             "; MOUNT is called through the kernel: give --netdev "
                                             "or --kernel-path, or --mount HOST[:PORT] "
                                             "with an address that the kernel reaches"));
}

}  // namespace

void DeclareNfsOptions(Options& options, NfsOptions* nfs) {
  DeclareClientOptions(options, nfs);
  options.Parsed(
      "mount", "HOST[:PORT]",
      "the server's MOUNT service as the kernel reaches it (the\nserver's address, and the "
      "port that its rpcbind names)",
      [nfs](const std::string& value) {
        const auto service = ResolveHostPort(value, 0);
        if (service.ok()) nfs->mount = *service;
        return service.status();
      });
  const auto id = [&options](const char* name, const char* help, std::optional<uint64_t>* target) {
    options.Parsed(name, "N", help, [target](const std::string& value) {
      uint64_t number = 0;
      if (!absl::SimpleAtoi(value, &number) || number > kMaxId) {
        return absl::InvalidArgumentError(absl::StrCat("'", value, "' is not a user or group ID"));
      }
      *target = number;
      return absl::OkStatus();
    });
  };
  id("uid", "act as this user (your own)", &nfs->uid);
  id("gid", "and this group", &nfs->gid);
  options.Switch("hard",
                 "once connected, wait without limit for a server that is\ngone or busy, as a hard "
                 "mount does (default: about a minute)",
                 &nfs->hard);
}

absl::StatusOr<nfs::NfsFh3> NfsRemote::Mount(const NfsOptions& options, const Gid& server,
                                             const std::string& path) {
  const SocketAddress service = options.mount.value_or(SocketAddress{.address = server, .port = 0});
  auto mount = nfs::MountClient::Connect(service, credential_);
  if (!mount.ok()) return WithHint(mount.status(), options);
  const auto exports = mount->Exports();
  if (!exports.ok()) return exports.status();
  export_ = nfs::ExportOf(*exports, path);
  if (export_.empty()) {
    const auto append = [](std::string* text, const std::string& name) {
      absl::StrAppend(text, Printable(name));
    };
    return absl::NotFoundError(absl::StrCat(
        path, ": the server exports no directory that contains it, only: ",
        exports->empty() ? std::string("nothing") : absl::StrJoin(*exports, ", ", append)));
  }
  const size_t base = export_.find_last_not_of('/');
  path_ = base == std::string::npos ? path : path.substr(base + 1);
  const auto root = mount->Mount(export_);
  if (root.ok()) mount_.emplace(*std::move(mount));
  return root;
}

absl::Status NfsRemote::ConnectNfs(const NfsOptions& options, const SocketAddress& server) {
  std::promise<absl::StatusOr<std::unique_ptr<nfs::Client>>> connected;
  auto result = connected.get_future();
  node_->Run([&] {
    engine::Worker* worker = &node_->device().worker();
    nfs::ClientConfig config;
    config.log = [this](const std::string& line) {
      node_->log().Write(LogLevel::kInfo, "nfs", line);
    };
    if (options.hard) {
      config.reconnect.attempts = rpcrdma::ReconnectPolicy::kForEver;
      config.reconnect.max_total_ms = 0;
      config.jukebox_tries = UINT32_MAX;
    }
    Connecting<nfs::Client>::Start(
        worker, nfs::Client::Create(worker, &node_->manager(), credential_, config), server,
        {.timeout_ms = static_cast<uint32_t>(options.timeout_ms), .cancelled = &Interrupted},
        [&connected](absl::StatusOr<std::unique_ptr<nfs::Client>> client) {
          connected.set_value(std::move(client));
        });
  });
  auto client = result.get();
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NfsRemote>> NfsRemote::Connect(const NfsOptions& options,
                                                              const NfsUrl& url) {
  CatchInterrupts();
  std::unique_ptr<NfsRemote> remote(new NfsRemote());
  remote->machine_name_ = MachineName();
  remote->credential_ = Credential(options, remote->machine_name_);
  auto node = StartNode(options.port);
  if (!node.ok()) return node.status();
  remote->node_ = *std::move(node);
  if (options.verbose) PrintCmExchange(*remote->node_);
  const SocketAddress server = {.address = remote->node_->FirstReachable(url.servers),
                                .port = url.port};
  const auto root = remote->Mount(options, server.address, url.path);
  if (!root.ok()) return Explain(*remote->node_, root.status());
  absl::Status status = Explain(*remote->node_, remote->ConnectNfs(options, server));
  if (!status.ok()) return status;
  remote->tree_ = std::make_unique<NfsTree>(NfsServer{*remote->node_, *remote->client_}, *root,
                                            remote->export_);
  return remote;
}

NfsRemote::~NfsRemote() {
  if (node_ == nullptr) return;
  End(*node_, std::move(client_));
  // The entry in the server's list is for people to read; nothing depends on it.
  if (mount_.has_value()) mount_->Unmount(export_).IgnoreError();
  node_->StopPolling();
}

}  // namespace pollux::tools
