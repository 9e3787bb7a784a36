#include "rpcrdma/tirpc/service.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::rpcrdma::tirpc {
namespace {

// A listener has no calls of its own.
bool_t NoArguments(SVCXPRT* /*transport*/, xdrproc_t /*xdr*/, void* /*arguments*/) { return FALSE; }
bool_t NoReply(SVCXPRT* /*transport*/, rpc_msg* /*message*/) { return FALSE; }
bool_t NoControl(SVCXPRT* /*transport*/, const u_int /*request*/, void* /*info*/) { return FALSE; }

// The dispatch routines that services have given to svc_reg(), by program and version. svc_unreg()
// does not remove them from here. Used only on the thread of svc_run().
std::map<std::pair<uint32_t, uint32_t>, Dispatch>& Dispatched() {
  static auto* const dispatched = new std::map<std::pair<uint32_t, uint32_t>, Dispatch>;
  return *dispatched;
}

}  // namespace

const struct SVCXPRT::xp_ops Service::operations = {.xp_recv = Receive,
                                                    .xp_stat = Status,
                                                    .xp_getargs = NoArguments,
                                                    .xp_reply = NoReply,
                                                    .xp_freeargs = NoArguments,
                                                    .xp_destroy = Destroy};
const struct SVCXPRT::xp_ops2 Service::more_operations = {.xp_control = NoControl};

absl::StatusOr<Service*> Service::Create(const Host& host, uint16_t port, uint32_t bulk_bytes,
                                         const ServiceLimits& limits) {
  auto accepted = Accepted::Make(limits.max_connections, std::make_shared<Backlog>(0));
  if (accepted == nullptr) {
    return absl::ResourceExhaustedError("no file descriptor is left; see ulimit -n");
  }
  std::unique_ptr<ServiceCore> core;
  absl::Status status;
  RunOn(host, [&] {
    auto created = ServiceCore::Create(host, port, bulk_bytes, limits, accepted.get());
    status = created.status();
    if (created.ok()) core = *std::move(created);
  });
  if (!status.ok()) return status;
  auto* const service = new Service(host, port, bulk_bytes);
  service->accepted_ = std::move(accepted);
  service->core_ = std::move(core);
  service->transport_.xp_fd = service->accepted_->fd();
  xprt_register(&service->transport_);
  return service;
}

Service::Service(const Host& host, uint16_t port, uint32_t bulk_bytes)
    : bulk_bytes_(bulk_bytes), host_(host) {
  transport_.xp_port = port;
  transport_.xp_ops = &operations;
  transport_.xp_ops2 = &more_operations;
  transport_.xp_netid = const_cast<char*>("rdma");
  transport_.xp_p1 = this;
  transport_.xp_p3 = &state_;
}

Service::~Service() {
  xprt_unregister(&transport_);
  RunOn(host_, [this] { core_->Close(); });
  links_.clear();
  // Connections that nobody has accepted hold calls, and these hold replies. What links gave back
  // was posted before.
  RunOn(host_, [this] {
    std::shared_ptr<Channel> channel;
    while (accepted_->Pop(&channel)) {
      std::unique_ptr<PendingCall> queued;
      while (channel->calls->Pop(&queued)) queued.reset();
    }
    core_.reset();
  });
}

Counters Service::counters() {
  Counters counters;
  RunOn(host_, [&] { counters = core_->counters(); });
  return counters;
}

absl::Status Service::Add(const UpperLayer& upper, Dispatch dispatch,
                          absl::AnyInvocable<absl::Status()> announce) {
  const oncrpc::ProgramBinding& binding = upper.binding;
  if (upper.LargestMessage() > bulk_bytes_) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "program %#x: a message of %d bytes does not fit this service's buffers of %d; make it "
        "the first of the programs that share the port",
        binding.program, upper.LargestMessage(), bulk_bytes_));
  }
  // The worker keeps a program for which Add() has failed, since calls may refer to it.
  auto added = std::ranges::find_if(added_, [&binding](const Added& one) {
    return !one.has_dispatch && one.upper.binding.program == binding.program &&
           one.upper.binding.version == binding.version;
  });
  if (added == added_.end()) {
    added = added_.insert(added_.end(), {.upper = upper});
    absl::Status status;
    RunOn(host_, [&] { status = core_->Add(&added->upper); });
    if (!status.ok()) {
      added_.erase(added);
      return status;
    }
  } else if (added->upper != upper) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "program %#x version %d: an earlier call, which failed, had another "
        "upper-layer binding, which the service keeps; repeat the call with that one",
        binding.program, binding.version));
  }
  const auto reg = [&]() -> absl::Status {
    if (svc_reg(&transport_, binding.program, binding.version, dispatch, nullptr)) {
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(
        absl::StrFormat("libtirpc has a dispatch routine for program %#x version %d already",
                        binding.program, binding.version));
  };
  // svc_reg() is called last, because svc_unreg(), which would undo it, also removes the program
  // from other transports. But if svc_reg() may fail because the program has another dispatch
  // routine, it is called first, because `announce` could redirect the clients of that routine's
  // service.
  Dispatch& known = Dispatched()[{binding.program, binding.version}];
  const bool may_fail = known != nullptr && known != dispatch;
  if (may_fail) {
    if (absl::Status status = reg(); !status.ok()) return status;
  }
  if (announce) {
    if (absl::Status status = announce(); !status.ok()) {
      if (may_fail) svc_unreg(binding.program, binding.version);
      return status;
    }
  }
  if (!may_fail) {
    if (absl::Status status = reg(); !status.ok()) return status;
  }
  known = dispatch;
  added->has_dispatch = true;
  return absl::OkStatus();
}

bool_t Service::Receive(SVCXPRT* transport, rpc_msg* /*message*/) {
  Service& self = Of(transport);
  std::shared_ptr<Channel> channel;
  while (self.accepted_->Pop(&channel)) {
    const auto on_destroy = [&self, connection = channel->connection](ServiceLink* gone) {
      self.links_.remove_if([gone](const auto& link) { return link.get() == gone; });
      RunOn(self.host_, [&self, connection] { self.core_->Disconnect(connection); });
      if (self.is_to_go_) Destroy(&self.transport_);
    };
    auto link = ServiceLink::Make(self.host_, channel, self.transport_.xp_port, self.bulk_bytes_,
                                  on_destroy);
    if (link != nullptr) {
      self.links_.push_back(std::move(link));
      continue;
    }
    // Nobody will take its calls.
    RunOn(self.host_, [&channel] {
      channel->closed = true;
      std::unique_ptr<PendingCall> queued;
      while (channel->calls->Pop(&queued)) queued.reset();
    });
  }
  return FALSE;
}

xprt_stat Service::Status(SVCXPRT* transport) {
  return Of(transport).accepted_->Arm() ? XPRT_IDLE : XPRT_MOREREQS;
}

void Service::Destroy(SVCXPRT* transport) {
  Service* const service = &Of(transport);
  const auto at_work =
      std::ranges::find_if(service->links_, [](const auto& link) { return link->is_at_work(); });
  service->is_to_go_ = at_work != service->links_.end();
  if (service->is_to_go_) return svc_destroy((*at_work)->transport());
  auto on_destroy = std::move(service->on_destroy_);
  delete service;
  if (on_destroy) on_destroy();
}

}  // namespace pollux::rpcrdma::tirpc
