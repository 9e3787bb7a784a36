// Programs of libtirpc served over RPC-over-RDMA by svc_run().
#ifndef POLLUX_RPCRDMA_TIRPC_SERVICE_H_
#define POLLUX_RPCRDMA_TIRPC_SERVICE_H_

#include <rpc/rpc.h>

#include <cstdint>
#include <list>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpcrdma/connection/counters.h"
#include "rpcrdma/tirpc/host.h"
#include "rpcrdma/tirpc/service_core.h"
#include "rpcrdma/tirpc/service_link.h"
#include "rpcrdma/tirpc/upper_layer.h"
#include "rpcrdma/tirpc/wakeup_queue.h"

namespace pollux::rpcrdma::tirpc {

using Dispatch = void (*)(svc_req*, SVCXPRT*);

// A listener and its connections. Each is an SVCXPRT whose descriptor is registered with
// xprt_register(). Create, use and destroy it on the thread that runs svc_run(), before, during or
// after that call: libtirpc's lists of services and transports are not thread-safe. svc_destroy()
// on the listener ends it and all its connections, on a connection only that one; within a dispatch
// routine it takes effect when the routine returns. The program must call svc_unreg(), as with any
// transport.
//
// The worker checks calls, transfers chunks and queues calls. Dispatch routines, XDR and
// authentication run on svc_run()'s thread, as with any transport.
class Service {
 public:
  // Listens at `port` of the host's device. `bulk_bytes` is the size of the largest message.
  // svc_destroy() frees the service. Errors: ResourceExhausted if there is no file descriptor left,
  // AlreadyExists if the port has a listener.
  static absl::StatusOr<Service*> Create(const Host& host, uint16_t port, uint32_t bulk_bytes,
                                         const ServiceLimits& limits = {});

  // Registers a program whose calls go to `dispatch`, as svc_reg() does. `announce`, if given,
  // makes the program known to clients. When it is called, the worker already accepts calls, which
  // wait until svc_run() takes them. If `announce` fails, the program has no dispatch routine, and
  // Add() may be called again with the same `upper`. Errors: FailedPrecondition if `upper` differs
  // then; those of Server::RegisterProgram() and of `announce`; AlreadyExists if libtirpc has
  // another dispatch routine for the program; InvalidArgument if its largest message exceeds
  // `bulk_bytes` of Create().
  absl::Status Add(const UpperLayer& upper, Dispatch dispatch,
                   absl::AnyInvocable<absl::Status()> announce = nullptr);

  SVCXPRT* transport() { return &transport_; }
  // The counters of all its connections. Any thread except the worker's; blocks until the worker
  // has replied.
  Counters counters();
  // `on_destroy` is called when the service is destroyed.
  void SetOnDestroy(absl::AnyInvocable<void()> on_destroy) { on_destroy_ = std::move(on_destroy); }

 private:
  Service(const Host& host, uint16_t port, uint32_t bulk_bytes);
  ~Service();
  static Service& Of(SVCXPRT* transport) { return *static_cast<Service*>(transport->xp_p1); }
  // The operations of its SVCXPRT.
  static bool_t Receive(SVCXPRT* transport, rpc_msg* message);
  static xprt_stat Status(SVCXPRT* transport);
  static void Destroy(SVCXPRT* transport);
  static const struct SVCXPRT::xp_ops operations;
  static const struct SVCXPRT::xp_ops2 more_operations;

  SVCXPRT transport_{};
  ServiceTransportState state_;
  const uint32_t bulk_bytes_;
  Host host_;
  std::unique_ptr<Accepted> accepted_;  // used by the worker
  std::unique_ptr<ServiceCore> core_;   // belongs to the worker
  std::list<std::unique_ptr<ServiceLink>> links_;
  bool is_to_go_ = false;  // to be destroyed when the current dispatch routine returns
  struct Added {
    UpperLayer upper;
    bool has_dispatch = false;
  };
  // These outlive the calls that they describe.
  std::list<Added> added_;
  absl::AnyInvocable<void()> on_destroy_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_SERVICE_H_
