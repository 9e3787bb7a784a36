#include "rpcrdma/tirpc/service_link.h"

#include <rpc/svc_auth.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "oncrpc/universal_address.h"

// Of libtirpc, exported for transports outside it: the descriptors that it takes.
extern "C" int __rpc_dtbsize(void);

namespace pollux::rpcrdma::tirpc {
namespace {

// Eligible results up to this size are copied, so that svc_sendreply() need not wait for them.
constexpr size_t kCopiedBytes = 1024;

// How long svc_run()'s thread polls for its connections at most, before its other descriptors have
// their turn.
constexpr uint64_t kLongestWaitNs = 1'000'000;

// The bodies are copied into the caller's memory: svc_getreq() has MAX_AUTH_BYTES for each.
void Store(const oncrpc::OpaqueAuth& from, opaque_auth* to) {
  to->oa_flavor = static_cast<enum_t>(from.flavor);
  to->oa_length = static_cast<u_int>(from.body.size());
  std::copy(from.body.begin(), from.body.end(), reinterpret_cast<uint8_t*>(to->oa_base));
}
static_assert(oncrpc::kMaxAuthBytes == MAX_AUTH_BYTES);

// Without xid, and without its verifier.
oncrpc::ReplyHeader HeaderOf(const rpc_msg& message) {
  oncrpc::ReplyHeader header;
  if (message.rm_reply.rp_stat == MSG_DENIED) {
    const rejected_reply& rejected = message.rjcted_rply;
    header.denied = true;
    header.reject_status = static_cast<oncrpc::RejectStatus>(rejected.rj_stat);
    if (rejected.rj_stat == AUTH_ERROR) {
      header.auth_status = static_cast<uint32_t>(rejected.rj_why);
    } else {
      header.low = static_cast<uint32_t>(rejected.rj_vers.low);
      header.high = static_cast<uint32_t>(rejected.rj_vers.high);
    }
    return header;
  }
  const accepted_reply& accepted = message.acpted_rply;
  header.accept_status = static_cast<oncrpc::AcceptStatus>(accepted.ar_stat);
  if (accepted.ar_stat == PROG_MISMATCH) {
    header.low = static_cast<uint32_t>(accepted.ar_vers.low);
    header.high = static_cast<uint32_t>(accepted.ar_vers.high);
  }
  return header;
}

// A reply on its way to the worker, and what is told when nobody needs its items any more.
struct OutgoingReply {
  std::unique_ptr<PendingCall> call;
  oncrpc::ReplyHeader header;
  std::vector<uint8_t> verifier;
  std::vector<uint8_t> results;
  struct Item {
    absl::Span<const uint8_t> bytes;
    size_t position = 0;
  };
  std::vector<Item> items;
  std::vector<uint8_t> copied;  // of the items, those that are not waited for
  uint64_t copied_bytes = 0;    // with what was copied of the arguments' items

  // On the worker's core.
  void Send(const std::shared_ptr<OutgoingReply>& self, const std::shared_ptr<Signal>& released) {
    header.verifier.body = verifier;
    std::vector<ResultItem> placed;
    // The signal is given when the last of its owners goes.
    const std::shared_ptr<void> release(nullptr, [self, released](void*) { released->Give(); });
    for (const Item& item : items) {
      placed.push_back({.bytes = item.bytes, .position = item.position, .release = [release] {}});
    }
    call->reply.CountCopied(copied_bytes);
    call->reply.Send(header, results, absl::MakeSpan(placed));
  }
};

}  // namespace

const struct SVCXPRT::xp_ops ServiceLink::operations = {.xp_recv = Receive,
                                                        .xp_stat = Status,
                                                        .xp_getargs = GetArguments,
                                                        .xp_reply = Reply,
                                                        .xp_freeargs = FreeArguments,
                                                        .xp_destroy = Destroy};
const struct SVCXPRT::xp_ops2 ServiceLink::more_operations = {.xp_control = Control};

std::unique_ptr<ServiceLink> ServiceLink::Make(const Host& host, std::shared_ptr<Channel> channel,
                                               uint16_t port, size_t bulk_bytes,
                                               absl::AnyInvocable<void(ServiceLink*)> on_destroy) {
  if (channel->calls->fd() >= __rpc_dtbsize()) return nullptr;
  return std::unique_ptr<ServiceLink>(
      new ServiceLink(host, std::move(channel), port, bulk_bytes, std::move(on_destroy)));
}

ServiceLink::ServiceLink(const Host& host, std::shared_ptr<Channel> channel, uint16_t port,
                         size_t bulk_bytes, absl::AnyInvocable<void(ServiceLink*)> on_destroy)
    : peer_(oncrpc::ToSockaddr(channel->peer)),
      host_(host),
      channel_(std::move(channel)),
      bulk_bytes_(bulk_bytes),
      on_destroy_(std::move(on_destroy)) {
  transport_.xp_fd = channel_->calls->fd();
  transport_.xp_port = port;
  transport_.xp_ops = &operations;
  transport_.xp_ops2 = &more_operations;
  transport_.xp_netid = const_cast<char*>(oncrpc::Netid(channel_->peer.address));
  transport_.xp_addrlen = static_cast<int>(peer_.length);
  std::memcpy(&transport_.xp_raddr, peer_.get(),
              std::min<size_t>(peer_.length, sizeof transport_.xp_raddr));
  transport_.xp_rtaddr = {
      .maxlen = sizeof peer_.storage, .len = peer_.length, .buf = &peer_.storage};
  transport_.xp_p1 = this;
  transport_.xp_p3 = &state_;
  xprt_register(&transport_);
}

ServiceLink::~ServiceLink() {
  xprt_unregister(&transport_);
  Disown();
  DropCall();
  DestroySecurityContext();
  // Calls that are queued, and the handles in them, go on the worker's core.
  RunOn(host_, [this] {
    channel_->closed = true;
    std::unique_ptr<PendingCall> queued;
    while (channel_->calls->Pop(&queued)) queued.reset();
  });
}

// The library finds contexts by SVCXPRT and keeps them for minutes: another connection's, at the
// same address, would be taken for this one's. A call without credential has it look the context
// up, which makes sure that there is one, and which one it is.
void ServiceLink::DestroySecurityContext() {
  if (!used_gss_) return;
  svc_req request{};
  rpc_msg message{};
  bool_t no_dispatch = FALSE;
  request.rq_xprt = &transport_;
  _svcauth_gss(&request, &message, &no_dispatch);
  if (state_.auth.svc_ah_private != nullptr) SVCAUTH_DESTROY(&state_.auth);
}

void ServiceLink::DropCall() {
  if (call_ == nullptr) return;
  // Answers by going.
  engine::Actor::Post(*host_.worker, [call = std::move(call_)] {});
}

// What was adopted lies in a buffer of the worker's that is about to be given back.
void ServiceLink::Disown() {
  for (const XdrDecoder::Adopted& adopted : decoder_.adopted()) *adopted.field = nullptr;
  decoder_.Reset({});
}

bool_t ServiceLink::Receive(SVCXPRT* transport, rpc_msg* message) {
  ServiceLink& self = Of(transport);
  self.decoder_.Reset({});
  self.DropCall();
  if (!self.channel_->calls->Pop(&self.call_)) return FALSE;
  if (self.call_ == nullptr) {
    self.ended_ = true;
    return FALSE;
  }
  self.is_at_work_ = true;
  const oncrpc::CallHeader& header = self.call_->call.header;
  message->rm_xid = header.xid;
  message->rm_direction = CALL;
  call_body& body = message->rm_call;
  body.cb_rpcvers = header.rpc_version;
  body.cb_prog = header.program;
  body.cb_vers = header.version;
  body.cb_proc = header.procedure;
  Store(header.credential, &body.cb_cred);
  Store(header.verifier, &body.cb_verf);
  self.reduces_ = !oncrpc::ForbidsReduction(header.credential);
  self.used_gss_ |= header.credential.flavor == oncrpc::AuthFlavor::kGss;
  return TRUE;
}

xprt_stat ServiceLink::Status(SVCXPRT* transport) {
  ServiceLink& self = Of(transport);
  self.DropCall();
  self.is_at_work_ = false;
  if (self.ended_ || self.is_to_go_) return XPRT_DIED;
  Calls& calls = *self.channel_->calls;
  const bool has_turn = ++self.calls_in_a_row_ < kMaxCallsInARow;
  const bool more = self.AwaitsCall(has_turn);
  if (!calls.Arm()) {
    if (has_turn) return XPRT_MOREREQS;
    calls.Announce();
  }
  self.calls_in_a_row_ = 0;
  if (!more && self.host_.shared_poll != nullptr) self.host_.shared_poll->HandOver();
  return XPRT_IDLE;
}

bool ServiceLink::AwaitsCall(bool may_wait) {
  const Backlog& backlog = *channel_->calls->backlog();
  const auto has_come = [&backlog] { return backlog.load(std::memory_order_relaxed) > 0; };
  if (!may_wait || host_.shared_poll == nullptr) return has_come();
  return host_.shared_poll->PollUntil(has_come, kLongestWaitNs);
}

bool_t ServiceLink::GetArguments(SVCXPRT* transport, xdrproc_t xdr_arguments, void* arguments) {
  ServiceLink& self = Of(transport);
  if (self.call_ == nullptr) return FALSE;
  const CallView& call = self.call_->call;
  self.decoder_.Reset(call.arguments);
  if (self.reduces_) {
    self.decoder_.Watch(&self.call_->upper->ArgumentsOf(call.header.procedure), arguments,
                        call.items);
  }
  if (SVCAUTH_UNWRAP(&self.state_.auth, self.decoder_.xdr(), xdr_arguments,
                     static_cast<caddr_t>(arguments)) &&
      self.decoder_.TookAll()) {
    return TRUE;
  }
  FreeArguments(transport, xdr_arguments, arguments);
  return FALSE;
}

bool_t ServiceLink::FreeArguments(SVCXPRT* transport, xdrproc_t xdr_arguments, void* arguments) {
  Of(transport).Disown();
  xdr_free(xdr_arguments, arguments);
  return TRUE;
}

bool ServiceLink::EncodeResults(xdrproc_t xdr_results, void* results) {
  encoder_.Reset(bulk_bytes_);
  const uint32_t procedure = call_->call.header.procedure;
  if (reduces_) encoder_.Watch(&call_->upper->ResultsOf(procedure), results);
  return SVCAUTH_WRAP(&state_.auth, encoder_.xdr(), xdr_results, static_cast<caddr_t>(results)) !=
         FALSE;
}

bool_t ServiceLink::Reply(SVCXPRT* transport, rpc_msg* message) {
  ServiceLink& self = Of(transport);
  if (self.call_ == nullptr) return FALSE;
  oncrpc::ReplyHeader header = HeaderOf(*message);
  opaque_auth verifier{};
  if (!header.denied) verifier = message->acpted_rply.ar_verf;
  if (verifier.oa_length > oncrpc::kMaxAuthBytes) return FALSE;
  header.verifier.flavor = static_cast<oncrpc::AuthFlavor>(verifier.oa_flavor);
  const bool has_results = !header.denied && header.accept_status == oncrpc::AcceptStatus::kSuccess;
  const auto& results = message->acpted_rply.ar_results;
  self.encoder_.Reset(0);
  if (has_results && !self.EncodeResults(results.proc, results.where)) return FALSE;
  self.SendReply(header, {reinterpret_cast<const uint8_t*>(verifier.oa_base), verifier.oa_length});
  return TRUE;
}

void ServiceLink::SendReply(const oncrpc::ReplyHeader& header, absl::Span<const uint8_t> verifier) {
  auto reply = std::make_shared<OutgoingReply>();
  reply->call = std::move(call_);
  reply->header = header;
  reply->verifier.assign(verifier.begin(), verifier.end());
  reply->results.assign(encoder_.bytes().begin(), encoder_.bytes().end());
  bool waits = false;
  size_t copied = 0;
  for (const XdrEncoder::Item& item : encoder_.items()) {
    const bool is_copied = item.bytes.size() <= kCopiedBytes;
    copied += is_copied ? item.bytes.size() : 0;
    waits |= !is_copied;
  }
  reply->copied.reserve(copied);
  reply->copied_bytes = copied + decoder_.copied_bytes();
  for (const XdrEncoder::Item& item : encoder_.items()) {
    absl::Span<const uint8_t> bytes = item.bytes;
    if (bytes.size() <= kCopiedBytes) {
      const size_t at = reply->copied.size();
      reply->copied.insert(reply->copied.end(), bytes.begin(), bytes.end());
      bytes = absl::MakeConstSpan(reply->copied).subspan(at);
    }
    reply->items.push_back({bytes, item.position});
  }
  auto released = std::make_shared<Signal>();
  engine::Actor::Post(*host_.worker, [reply, released] { reply->Send(reply, released); });
  if (waits) return Await(host_, *released);
  if (host_.shared_poll != nullptr) host_.shared_poll->PollOnce();
}

void ServiceLink::Destroy(SVCXPRT* transport) {
  ServiceLink& self = Of(transport);
  // By a dispatch routine, whose caller asks for Status() next.
  self.is_to_go_ = self.is_at_work_;
  if (self.is_to_go_) return;
  auto on_destroy = std::move(self.on_destroy_);
  on_destroy(&self);
}

bool_t ServiceLink::Control(SVCXPRT* /*transport*/, const u_int /*request*/, void* /*info*/) {
  return FALSE;
}

}  // namespace pollux::rpcrdma::tirpc
