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

// What libtirpc keeps in SVCXPRT::xp_p3 of every transport and leaves to the transport to allocate:
// its authentication's place. The library declares it in no public header; the layout is that of
// all its versions from 0.2 on.
struct ServiceTransportState {
  int flags = 0;
  SVCAUTH auth{};
};
static_assert(offsetof(ServiceTransportState, auth) == sizeof(void*));

// Lives on the thread of svc_run(). One call at a time: the next is received when the dispatch
// routine has returned, without a poll() of svc_run()'s in between if it comes soon, but for one
// every kMaxCallsInARow: the thread has other descriptors. A call that it gave no reply to is
// answered with a system error, since RPC-over-RDMA has no calls without reply: its credit would be
// lost.
//
// Arguments that came in Read chunks are decoded in place: the structure points to them until
// svc_freeargs(), and the bytes stay until the reply is given. Eligible results go out by RDMA
// WRITE from where they lie: svc_sendreply() returns when the client has them, or the connection
// has failed.
class ServiceLink {
 public:
  static constexpr uint32_t kMaxCallsInARow = 32;

  // Registers itself with xprt_register(). Null when the descriptor is none that libtirpc takes
  // (see its __rpc_dtbsize()). `bulk_bytes`: of the largest reply.
  static std::unique_ptr<ServiceLink> Make(const Host& host, std::shared_ptr<Channel> channel,
                                           uint16_t port, size_t bulk_bytes,
                                           absl::AnyInvocable<void(ServiceLink*)> on_destroy);
  ~ServiceLink();
  // The library has a call of it in hand, and comes back to it. SVC_DESTROY has it destroyed then.
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

  // Gives the call at hand back without a reply of its own.
  void DropCall();
  // Whether another call has come, this connection's or another's, or (`may_wait`) does so soon.
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
  bool ended_ = false;                 // the connection has
  bool is_at_work_ = false;            // between Receive() and Status()
  bool is_to_go_ = false;              // once it is not any more
  uint32_t calls_in_a_row_ = 0;        // since svc_run()'s last poll()
  bool used_gss_ = false;              // libtirpc holds a security context for it
  std::unique_ptr<PendingCall> call_;  // at hand
  bool reduces_ = false;               // see ForbidsReduction()
  XdrDecoder decoder_;
  XdrEncoder encoder_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_SERVICE_LINK_H_
