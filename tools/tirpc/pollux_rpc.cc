#include "tools/tirpc/pollux_rpc.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "oncrpc/rpcbind.h"
#include "rpcrdma/tirpc/client_handle.h"
#include "rpcrdma/tirpc/service.h"
#include "tools/common/listen_addresses.h"
#include "tools/common/peer_address.h"
#include "tools/common/registration.h"
#include "tools/common/start_node.h"
#include "tools/tirpc/binding_table.h"
#include "tools/tirpc/shared_port.h"

namespace pollux::tools {
namespace {

using rpcrdma::tirpc::Service;
using rpcrdma::tirpc::UpperLayer;

// As libtirpc's clnt_create() has it.
constexpr uint32_t kConnectTimeoutMs = 25'000;

thread_local std::string last_error;

void SetCreateError(const absl::Status& status) {
  last_error = std::string(status.message());
  rpc_createerr.cf_error = {};
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      rpc_createerr.cf_stat = RPC_PROGNOTREGISTERED;
      return;
    case absl::StatusCode::kDeadlineExceeded:
      rpc_createerr.cf_error.re_errno = ETIMEDOUT;
      break;
    case absl::StatusCode::kUnavailable:
      rpc_createerr.cf_error.re_errno = ECONNREFUSED;
      break;
    case absl::StatusCode::kInvalidArgument:
      rpc_createerr.cf_error.re_errno = EINVAL;
      break;
    default:
      rpc_createerr.cf_error.re_errno = EIO;
      break;
  }
  rpc_createerr.cf_stat = RPC_SYSTEMERROR;
}

absl::StatusOr<CLIENT*> MakeClient(const std::vector<Gid>& addresses, uint32_t program,
                                   uint32_t version, const char* port) {
  absl::StatusOr<RpcPlace> place = OpenRpcPlace(port);
  if (!place.ok()) return place.status();
  const Gid address = place->node->FirstReachable(addresses);
  SocketAddress server{.address = address, .port = place->service_port};
  if (place->rpcbind) {
    auto rpcbind = oncrpc::RpcBind::At(address);
    if (!rpcbind.ok()) return rpcbind.status();
    auto found = rpcbind->Find(program, version, address);
    if (!found.ok()) return found.status();
    server = *found;
  }
  return rpcrdma::tirpc::MakeClient(place->host(), server, program, version, &FindBinding,
                                    kConnectTimeoutMs);
}

// The services of this process, by port and service port: those of svc_run()'s thread.
struct Serving {
  Service* service = nullptr;
  bool has_program = false;
  std::vector<std::unique_ptr<Registration>> registrations;
};
using Services = std::map<std::pair<std::string, uint16_t>, Serving>;
Services& AllServices() {
  static auto* const services = new Services;
  return *services;
}

// The one there is, or a fresh one.
absl::StatusOr<Serving*> ServingAt(const RpcPlace& place, uint32_t bulk_bytes) {
  const Services::key_type key(place.key, place.service_port);
  const auto found = AllServices().find(key);
  if (found != AllServices().end()) return &found->second;
  auto service = Service::Create(place.host(), place.service_port, bulk_bytes, place.limits);
  if (!service.ok()) return service.status();
  (*service)->SetOnDestroy([key] { AllServices().erase(key); });
  return &AllServices()
              .emplace(key, Serving{.service = *service, .registrations = {}})
              .first->second;
}

absl::StatusOr<SVCXPRT*> Serve(void (*dispatch)(svc_req*, SVCXPRT*), uint32_t program,
                               uint32_t version, const char* port) {
  absl::StatusOr<RpcPlace> place = OpenRpcPlace(port);
  if (!place.ok()) return place.status();
  const UpperLayer upper = FindBinding(program, version);
  // A program without a binding fits a service that one with a smaller binding has begun.
  const uint32_t bulk_bytes =
      std::max(upper.LargestMessage(), UpperLayer::Default(program, version).LargestMessage());
  auto serving = ServingAt(*place, bulk_bytes);
  if (!serving.ok()) return serving.status();
  std::unique_ptr<Registration> registration;
  const auto announce = [&]() -> absl::Status {
    if (!place->rpcbind) return absl::OkStatus();
    auto made =
        Registration::Make(program, version, ListenAddresses(*place->node, place->service_port));
    if (!made.ok()) return made.status();
    registration = *std::move(made);
    return absl::OkStatus();
  };
  SVCXPRT* const transport = (*serving)->service->transport();
  if (absl::Status status = (*serving)->service->Add(upper, dispatch, announce); !status.ok()) {
    // Nobody else could destroy it.
    if (!(*serving)->has_program) svc_destroy(transport);
    return status;
  }
  (*serving)->has_program = true;
  if (registration != nullptr) (*serving)->registrations.push_back(std::move(registration));
  return transport;
}

}  // namespace
}  // namespace pollux::tools

using pollux::tools::last_error;

CLIENT* clnt_pollux_create(const char* host, rpcprog_t program, rpcvers_t version,
                           const char* port) {
  const auto addresses = pollux::tools::ResolveHost(host);
  if (!addresses.ok()) {
    last_error = std::string(addresses.status().message());
    rpc_createerr.cf_stat = RPC_UNKNOWNHOST;
    return nullptr;
  }
  absl::StatusOr<CLIENT*> client = pollux::tools::MakeClient(
      *addresses, static_cast<uint32_t>(program), static_cast<uint32_t>(version), port);
  if (client.ok()) return *client;
  pollux::tools::SetCreateError(client.status());
  return nullptr;
}

SVCXPRT* svc_pollux_create(void (*dispatch)(svc_req*, SVCXPRT*), rpcprog_t program,
                           rpcvers_t version, const char* port) {
  absl::StatusOr<SVCXPRT*> transport = pollux::tools::Serve(
      dispatch, static_cast<uint32_t>(program), static_cast<uint32_t>(version), port);
  if (transport.ok()) return *transport;
  last_error = std::string(transport.status().message());
  return nullptr;
}

const char* pollux_rpc_error(void) { return last_error.c_str(); }

int pollux_rpc_bind(const pollux_program* program) {
  const absl::Status status = pollux::tools::StateBinding(*program);
  if (status.ok()) return 0;
  last_error = std::string(status.message());
  return -1;
}
