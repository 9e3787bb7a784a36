// One connection of a service: an SVCXPRT of libtirpc.
#ifndef POLLUX_RPCRDMA_TIRPC_SERVICE_LINK_H_
#define POLLUX_RPCRDMA_TIRPC_SERVICE_LINK_H_

#include <rpc/rpc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "oncrpc/socket_address.h"
#include "rpcrdma/tirpc/host.h"
#include "rpcrdma/tirpc/service_core.h"
#include "rpcrdma/tirpc/xdr_decoder.h"
#include "rpcrdma/tirpc/xdr_encoder.h"

namespace pollux::rpcrdma::tirpc {

// The object that libtirpc expects in SVCXPRT::xp_p3 of every transport, for its authentication.
// The transport allocates it. No public header of libtirpc declares it; the layout is that of all
// versions since 0.2.
struct ServiceTransportState {
  int flags = 0;
  SVCAUTH auth{};
};
static_assert(offsetof(ServiceTransportState, auth) == sizeof(void*));

// Used on svc_run()'s thread. Handles one call at a time: the next is received when the dispatch
// routine has returned. If it arrives soon, svc_run() does not call poll() in between, except once
// every kMaxCallsInARow calls, because the thread also serves other descriptors. If the dispatch
// routine sends no reply, the call is answered with a system error, because RPC-over-RDMA has no
// calls without reply: the call's credit would be lost.
//
// Arguments from Read chunks are decoded in place: the structure points to them until
// svc_freeargs(), and the bytes remain valid until the reply is sent. Eligible results are sent by
// RDMA WRITE from the user's memory; svc_sendreply() returns when the client has them or the
// connection has failed.
class ServiceLink {
 public:
  static constexpr uint32_t kMaxCallsInARow = 32;

  // Registers itself with xprt_register(). Returns null if the file descriptor is too large for
  // libtirpc (see its __rpc_dtbsize()). `bulk_bytes`: the size of the largest reply.
  static std::unique_ptr<ServiceLink> Make(const Host& host, std::shared_ptr<Channel> channel,
                                           uint16_t port, size_t bulk_bytes,
                                           absl::AnyInvocable<void(ServiceLink*)> on_destroy);
  ~ServiceLink();
  // libtirpc is handling a call of this connection and will use the SVCXPRT again. SVC_DESTROY()
  // takes effect after that.
  bool is_at_work() const { return is_at_work_; }
  SVCXPRT* transport() { return &transport_; }
  ServiceLink(const ServiceLink&) = delete;
  ServiceLink& operator=(const ServiceLink&) = delete;

 private:
  ServiceLink(const Host& host, std::shared_ptr<Channel> channel, uint16_t port, size_t bulk_bytes,
              absl::AnyInvocable<void(ServiceLink*)> on_destroy);
  static ServiceLink& Of(SVCXPRT* transport) {
    return *static_cast<ServiceLink*>(transport->xp_p1);
  }
  // The operations of an SVCXPRT.
  static bool_t Receive(SVCXPRT* transport, rpc_msg* message);
  static xprt_stat Status(SVCXPRT* transport);
  static bool_t GetArguments(SVCXPRT* transport, xdrproc_t xdr_arguments, void* arguments);
  static bool_t Reply(SVCXPRT* transport, rpc_msg* message);
  static bool_t FreeArguments(SVCXPRT* transport, xdrproc_t xdr_arguments, void* arguments);
  static void Destroy(SVCXPRT* transport);
  static bool_t Control(SVCXPRT* transport, const u_int request, void* info);
  static const struct SVCXPRT::xp_ops operations;
  static const struct SVCXPRT::xp_ops2 more_operations;

  // Ends the current call without a reply of the dispatch routine.
  void DropCall();
  // Whether a call has arrived on any connection. If `may_wait`, waits a short time for one.
  bool AwaitsCall(bool may_wait);
  void Disown();
  bool EncodeResults(xdrproc_t xdr_results, void* results);
  void SendReply(const oncrpc::ReplyHeader& header, absl::Span<const uint8_t> verifier);
  void DestroySecurityContext();

  SVCXPRT transport_{};
  ServiceTransportState state_;
  oncrpc::Sockaddr peer_;
  Host host_;
  std::shared_ptr<Channel> channel_;
  const size_t bulk_bytes_;
  absl::AnyInvocable<void(ServiceLink*)> on_destroy_;
  bool ended_ = false;                 // the connection has ended
  bool is_at_work_ = false;            // between Receive() and Status()
  bool is_to_go_ = false;              // to be destroyed when the current call is done
  uint32_t calls_in_a_row_ = 0;        // since svc_run()'s last poll()
  bool used_gss_ = false;              // libtirpc has a security context for it
  std::unique_ptr<PendingCall> call_;  // the current call
  bool reduces_ = false;               // see ForbidsReduction()
  XdrDecoder decoder_;
  XdrEncoder encoder_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_SERVICE_LINK_H_
