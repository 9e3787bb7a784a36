// Programs of libtirpc served by RPC-over-RDMA: what svc_run() waits for.
#ifndef POLLUX_RPCRDMA_TIRPC_SERVICE_H_
#define POLLUX_RPCRDMA_TIRPC_SERVICE_H_

#include <rpc/rpc.h>

#include <cstdint>
#include <list>
#include <memory>

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

// A listener, and the connections that it has accepted; each is an SVCXPRT whose descriptor is
// registered with xprt_register(). Made, used and destroyed on the thread that runs svc_run() (or
// before and after it runs): libtirpc's lists of services and transports are not for several.
// svc_destroy() of the listener ends it with all its connections, of a connection that one; by a
// dispatch routine, once it returns. svc_unreg() is the program's to call, as with any transport.
//
// The worker checks calls, moves chunks and queues; dispatch routines, XDR and authentication run
// on svc_run()'s thread, as with any transport.
class Service {
 public:
  // Listens at `port` of the host's device. ResourceExhausted when there is no descriptor;
  // AlreadyExists when the port has a listener.
  static absl::StatusOr<Service*> Create(const Host& host, uint16_t port, uint32_t bulk_bytes,
                                         const ServiceLimits& limits = {});

  // Programs whose calls are dispatched, as svc_reg() has it. Errors as Server::RegisterProgram;
  // AlreadyExists when libtirpc has another dispatch routine for it; InvalidArgument when its
  // largest message needs more than the `bulk_bytes` of Create().
  absl::Status Add(const UpperLayer& upper, Dispatch dispatch);

  SVCXPRT* transport() { return &transport_; }
  // Of all its connections. Any thread but the worker's, which is asked.
  Counters counters();
  // Called when it is destroyed.
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
  std::unique_ptr<Accepted> accepted_;  // from the worker
  std::unique_ptr<ServiceCore> core_;   // the worker's
  std::list<std::unique_ptr<ServiceLink>> links_;
  bool is_to_go_ = false;  // with the link that is at work
  // Outlive the calls that they describe.
  std::list<UpperLayer> upper_layers_;
  absl::AnyInvocable<void()> on_destroy_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_SERVICE_H_
