#include "tools/file_service/session.h"

#include <cstdio>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tools/common/interrupt.h"
#include "tools/common/service_manager.h"
#include "tools/file_service/cm_trace.h"

namespace pollux::tools {
namespace {

// Shared with the threads of reloads, which may outlive StayUntilInterrupted().
struct ReloadGate {
  std::mutex mutex;  // held while a configuration is put into effect
  bool closed = false;
};

// Starts a thread; the result is that of the reload.
std::future<absl::Status> StartReload(const ServiceActions& actions,
                                      std::shared_ptr<ReloadGate> gate) {
  std::promise<absl::Status> done;
  std::future<absl::Status> result = done.get_future();
  std::thread([reload = actions.reload, gate = std::move(gate), done = std::move(done)]() mutable {
    const absl::StatusOr<ServiceActions::Apply> apply = reload();
    absl::Status status = apply.status();
    {
      const std::lock_guard lock(gate->mutex);
      if (status.ok() && !gate->closed) status = (*apply)();
    }
    done.set_value(std::move(status));
  }).detach();
  return result;
}

}  // namespace

void PrintCmExchange(Node& node) {
  node.RunOnEach([&node](uint32_t core) {
    node.manager(core).SetTrace([](bool outgoing, absl::Span<const uint8_t> mad) {
      std::fprintf(stderr, "%s", DescribeMad(outgoing, mad).c_str());
    });
  });
}

absl::Status StayUntilInterrupted(Node& node, const ServiceActions& actions) {
  ServiceManager manager(&node);
  const auto gate = std::make_shared<ReloadGate>();
  std::future<absl::Status> reloading;
  absl::Status status;
  while (!Interrupted() && status.ok()) {
    SleepUntilInterrupted(manager.heartbeat_ms());
    manager.Heartbeat();
    status = node.device().CheckInterface();
    if (reloading.valid()) {
      if (reloading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
      if (const absl::Status reloaded = reloading.get(); !reloaded.ok()) {
        node.log().Write(LogLevel::kError, actions.name,
                         absl::StrCat("SIGHUP: nothing changed: ", reloaded.message()));
      }
      manager.Reloaded();
    }
    if (actions.tick != nullptr) actions.tick();
    const bool reload = TakeReload();
    if (reload && actions.reload == nullptr) {
      node.log().Write(LogLevel::kWarning, actions.name,
                       "SIGHUP: ignored, since there is no file to read again; to change options, "
                       "restart this service");
      manager.Reloaded();  // the unit of nfsd announces a reload itself
    } else if (reload) {
      manager.Reloading();
      // The resolver may take longer than the watchdog waits.
      reloading = StartReload(actions, gate);
    }
  }
  // Waits while a configuration is put into effect: the caller destroys what that uses.
  const std::lock_guard lock(gate->mutex);
  gate->closed = true;
  return status;
}

absl::StatusOr<std::unique_ptr<FileClient>> ConnectClient(Node& node, const SocketAddress& server,
                                                          const FileClient::Options& options) {
  FileClient::Options logged = options;
  logged.log = [&node](const std::string& line) {
    node.log().Write(LogLevel::kInfo, "file", line);
  };
  std::promise<absl::StatusOr<std::unique_ptr<FileClient>>> connected;
  auto result = connected.get_future();
  node.Run([&] {
    FileClient::Connect(&node.device().worker(), &node.manager(), server, logged,
                        [&connected](absl::StatusOr<std::unique_ptr<FileClient>> client) {
                          connected.set_value(std::move(client));
                        });
  });
  return result.get();
}

void End(Node& node, std::unique_ptr<FileServer> server) {
  if (server == nullptr) return;
  DisconnectAndDestroy(
      node, [&](auto done) { server->Shutdown(std::move(done)); }, [&] { server.reset(); });
}

}  // namespace pollux::tools
