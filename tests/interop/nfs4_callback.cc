// Holds a session of NFS version 4.1 with a server that calls back over the same connection (RFC
// 8167): opens a file of its root for reading, is given a delegation, waits until the server
// recalls it, and gives it back. Says "holding a delegation" on standard error when it may be
// recalled. usage: nfs4_callback PORT_OPTIONS [--json] ADDR FILE
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/base/address.h"
#include "tests/interop/peer/nfs4_client.h"
#include "tools/common/await.h"
#include "tools/common/connecting.h"
#include "tools/common/interrupt.h"
#include "tools/common/node.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/common/start_node.h"
#include "tools/file_service/session.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kCommand[] = "nfs4_callback";
constexpr uint16_t kServicePort = 20049;
constexpr uint64_t kNsPerMs = 1'000'000;
// A server that has just started, or has not yet seen that it can call back, is asked again.
constexpr int kOpenTries = 150;
constexpr std::chrono::milliseconds kOpenPause{200};
// Of RPC messages in either direction: less than the inline size, by the transport header.
constexpr uint32_t kMessageBytes = 4000;
constexpr char kMachineName[] = "pollux";

nfs4::ChannelAttrs Channel() {
  return {.max_request = kMessageBytes,
          .max_response = kMessageBytes,
          .max_response_cached = kMessageBytes,
          .max_operations = 8,
          .max_requests = 1};
}

oncrpc::AuthSys Credential() { return {.machinename = {kMachineName}}; }

nfs4::Owner OwnerOf(uint64_t verifier) {
  const std::string text = absl::StrCat(kMachineName, verifier);
  return *nfs4::Owner::From({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

absl::StatusOr<std::unique_ptr<nfs4::Client>> Connect(Node& node, const SocketAddress& server,
                                                      uint64_t timeout_ms) {
  std::promise<absl::StatusOr<std::unique_ptr<nfs4::Client>>> connected;
  auto result = connected.get_future();
  node.Run([&] {
    engine::Worker* worker = &node.device().worker();
    Connecting<nfs4::Client>::Start(
        worker,
        nfs4::Client::Create(worker, &node.manager(),
                             {.credential = Credential(), .timeout_ns = timeout_ms * kNsPerMs}),
        server, {.timeout_ms = static_cast<uint32_t>(timeout_ms), .cancelled = &Interrupted},
        [&connected](absl::StatusOr<std::unique_ptr<nfs4::Client>> client) {
          connected.set_value(std::move(client));
        });
  });
  return result.get();
}

// One session, and what is done in it, step by step, from the main thread.
class Session {
 public:
  Session(Node& node, nfs4::Client& client, uint64_t verifier)
      : node_(node), client_(client), owner_(OwnerOf(verifier)), verifier_(verifier) {}
  ~Session() {
    node_.Run([this] { client_.SetObserver(nullptr); });
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // EXCHANGE_ID, CREATE_SESSION with the back channel on this connection, RECLAIM_COMPLETE.
  absl::Status Begin();
  // Until it comes with a read delegation. Errors: Unavailable when none is given.
  absl::Status Open(const std::string& file);
  // Waits until the server recalls the delegation, and gives that back.
  absl::Status AwaitRecall(std::chrono::milliseconds limit);
  // Closes, and leaves nothing at the server.
  absl::Status End();

 private:
  template <class... Ops>
  absl::StatusOr<nfs4::CompoundRes<Ops...>> Run(const Ops&... ops) {
    return Blocking<absl::StatusOr<nfs4::CompoundRes<Ops...>>>(node_, client_, [&](auto done) {
      client_.Call(nfs4::Compound<Ops...>{{ops...}}, std::move(done));
    });
  }
  template <class... Ops>
  auto RunInSession(const Ops&... ops) {
    return Run(nfs4::Sequence{.session = session_, .sequenceid = ++sequenceid_}, ops...);
  }

  Node& node_;
  nfs4::Client& client_;
  const nfs4::Owner owner_;
  const uint64_t verifier_;
  uint64_t clientid_ = 0;
  nfs4::SessionId session_;
  uint32_t sequenceid_ = 0;
  nfs4::OpenRes open_;
  nfs4::Handle handle_;
  std::promise<nfs4::CbRecall> recalled_;
  bool recalled_once_ = false;  // the core's
};

// That a compound came to its end.
template <class Results>
absl::Status Check(const char* what, const absl::StatusOr<Results>& results) {
  if (!results.ok()) return results.status();
  if (results->status == nfs4::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": the server answers with NFS status ",
                                          results->status, " at operation ", results->answered));
}

absl::Status Session::Begin() {
  const auto known = Run(nfs4::ExchangeId{.verifier = verifier_, .owner = owner_});
  if (absl::Status status = Check("EXCHANGE_ID", known); !status.ok()) return status;
  const nfs4::ExchangeIdRes& client = std::get<0>(known->results);
  clientid_ = client.clientid;
  nfs4::CallbackSecurity security;
  security.credential.machinename = {kMachineName};
  const nfs4::CreateSession create{.clientid = clientid_,
                                   .sequence = client.sequenceid,
                                   .flags = nfs4::kConnBackChan,
                                   .fore = Channel(),
                                   .back = Channel(),
                                   .security = {{security}}};
  const auto created = Run(create);
  if (absl::Status status = Check("CREATE_SESSION", created); !status.ok()) return status;
  const nfs4::CreateSessionRes& session = std::get<0>(created->results);
  if ((session.flags & nfs4::kConnBackChan) == 0) {
    return absl::FailedPreconditionError("the server does not call back on this connection");
  }
  session_ = session.session;
  node_.Run([this] {
    client_.SetSession(session_);
    client_.SetObserver([this](const nfs4::CbRecall& recall) {
      if (!std::exchange(recalled_once_, true)) recalled_.set_value(recall);
    });
  });
  return Check("RECLAIM_COMPLETE", RunInSession(nfs4::ReclaimComplete{}));
}

absl::Status Session::Open(const std::string& file) {
  const nfs4::Open open{
      .share_access = nfs4::Open::kShareAccessRead | nfs4::Open::kWantReadDelegation,
      .clientid = clientid_,
      .owner = owner_,
      .name = {file}};
  for (int tries = 0; tries < kOpenTries && !Interrupted(); ++tries) {
    if (tries > 0) std::this_thread::sleep_for(kOpenPause);
    const auto opened = RunInSession(nfs4::Putrootfh{}, open, nfs4::Getfh{});
    if (!opened.ok()) return opened.status();
    if (opened->status == nfs4::kErrGrace || opened->status == nfs4::kErrDelay) continue;
    if (absl::Status status = Check("OPEN", opened); !status.ok()) return status;
    open_ = std::get<2>(opened->results);
    handle_ = std::get<3>(opened->results).handle;
    if (open_.delegation.type == nfs4::Delegation::kRead) return absl::OkStatus();
    const auto closed = RunInSession(nfs4::Putfh{handle_}, nfs4::Close{.stateid = open_.stateid});
    if (absl::Status status = Check("CLOSE", closed); !status.ok()) return status;
  }
  return absl::UnavailableError("the server gives no delegation");
}

absl::Status Session::AwaitRecall(std::chrono::milliseconds limit) {
  std::future<nfs4::CbRecall> recalled = recalled_.get_future();
  if (recalled.wait_for(limit) != std::future_status::ready) {
    return absl::DeadlineExceededError("the server has recalled nothing in time");
  }
  const nfs4::CbRecall recall = recalled.get();
  if (recall.stateid.other != open_.delegation.stateid.other ||
      recall.stateid.other_end != open_.delegation.stateid.other_end ||
      !(recall.handle == handle_)) {
    return absl::InternalError("the server recalls another delegation than it gave");
  }
  return Check("DELEGRETURN",
               RunInSession(nfs4::Putfh{handle_}, nfs4::Delegreturn{open_.delegation.stateid}));
}

absl::Status Session::End() {
  const auto closed = RunInSession(nfs4::Putfh{handle_}, nfs4::Close{.stateid = open_.stateid});
  if (absl::Status status = Check("CLOSE", closed); !status.ok()) return status;
  const auto ended = Run(nfs4::DestroySession{session_});
  if (absl::Status status = Check("DESTROY_SESSION", ended); !status.ok()) return status;
  return Check("DESTROY_CLIENTID", Run(nfs4::DestroyClientid{clientid_}));
}

absl::Status Play(Node& node, nfs4::Client& client, const std::vector<std::string>& operands,
                  uint64_t timeout_ms) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Session session(node, client, static_cast<uint64_t>(now.count()));
  if (absl::Status status = session.Begin(); !status.ok()) return status;
  if (absl::Status status = session.Open(operands[1]); !status.ok()) return status;
  std::fprintf(stderr, "holding a delegation\n");
  const absl::Status status = session.AwaitRecall(std::chrono::milliseconds(timeout_ms));
  return status.ok() ? session.End() : status;
}

int Main(int argc, char** argv) {
  PortOptions port;
  uint64_t timeout_ms = 60'000;
  bool json = false;
  Options options("ADDR FILE", "Has a delegation recalled by an NFS version 4.1 server.");
  DeclarePortOptions(options, &port);
  options.Number("timeout-ms", "how long to wait for each answer (60000)", 1, 3'600'000,
                 &timeout_ms);
  options.Switch("json", "one JSON object on standard output instead of text", &json);
  std::vector<std::string> operands;
  if (auto done = ParseOperands(kCommand, options, argc, argv, 2, 2, &operands)) return *done;
  const auto address = pollux::ParseAddress(operands[0]);
  if (!address.ok()) return Fail(kCommand, address.status());
  CatchInterrupts();
  auto node = StartNode(port);
  if (!node.ok()) return Fail(kCommand, node.status());
  auto client = Connect(**node, {.address = *address, .port = kServicePort}, timeout_ms);
  absl::Status status = client.status();
  Json found;
  if (status.ok()) {
    status = Play(**node, **client, operands, timeout_ms);
    found = {{"callbacks", (*client)->callbacks()},
             {"refused_callbacks", (*client)->refused_callbacks()}};
    End(**node, *std::move(client));
  }
  (*node)->StopPolling();
  return Finish(kCommand, json, status, found, "a delegation was recalled and given back\n");
}

}  // namespace
}  // namespace pollux::tools

int main(int argc, char** argv) { return pollux::tools::Main(argc, argv); }
