#include "rpcrdma/tirpc/client_handle.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <set>
#include <utility>

#include "oncrpc/universal_address.h"

namespace pollux::rpcrdma::tirpc {
namespace {

// How often a call is made again with a credential that was refreshed.
constexpr int kMaxRefreshes = 2;
// How many XIDs are tried in a row: calls that timed out hold theirs until the reply comes.
constexpr int kMaxXids = 64;

// The only one. libtirpc makes it at the first call, and loses one of two where two threads come at
// once.
AUTH* NoAuth() {
  static AUTH* const none = authnone_create();
  return none;
}

// Of a call whose reply is ignored.
constexpr uint64_t kBatchedTimeoutNs = 25'000'000'000;

uint64_t Nanoseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_usec) * 1000;
}

bool IsZero(const timeval& time) { return time.tv_sec == 0 && time.tv_usec == 0; }

opaque_auth AuthOf(const oncrpc::OpaqueAuth& auth) {
  return {.oa_flavor = static_cast<enum_t>(auth.flavor),
          .oa_base = reinterpret_cast<caddr_t>(const_cast<uint8_t*>(auth.body.data())),
          .oa_length = static_cast<u_int>(auth.body.size())};
}

rpc_msg MessageOf(const oncrpc::ReplyHeader& header) {
  rpc_msg message{};
  message.rm_xid = header.xid;
  message.rm_direction = REPLY;
  if (header.denied) {
    message.rm_reply.rp_stat = MSG_DENIED;
    rejected_reply& rejected = message.rjcted_rply;
    rejected.rj_stat = static_cast<reject_stat>(header.reject_status);
    if (header.reject_status == oncrpc::RejectStatus::kAuthError) {
      rejected.rj_why = static_cast<auth_stat>(header.auth_status);
    } else {
      rejected.rj_vers.low = header.low;
      rejected.rj_vers.high = header.high;
    }
    return message;
  }
  message.rm_reply.rp_stat = MSG_ACCEPTED;
  accepted_reply& accepted = message.acpted_rply;
  accepted.ar_verf = AuthOf(header.verifier);
  accepted.ar_stat = static_cast<accept_stat>(header.accept_status);
  if (header.accept_status == oncrpc::AcceptStatus::kProgramMismatch) {
    accepted.ar_vers.low = header.low;
    accepted.ar_vers.high = header.high;
  }
  return message;
}

// The CLIENTs of this process. Never destroyed: they may outlive main().
struct Living {
  std::mutex mutex;
  std::set<ClientHandle*> handles;
};
Living& AllLiving() {
  static auto* const living = new Living;
  return *living;
}

// At exit. The kernel's sockets close with the process, these connections do not: servers would
// wait for their replies to be acknowledged, and log that.
void DisconnectAll() {
  Living& living = AllLiving();
  const std::lock_guard<std::mutex> lock(living.mutex);
  std::vector<std::pair<ClientHandle*, std::shared_ptr<Signal>>> ended;
  for (ClientHandle* handle : living.handles) {
    if (!handle->IsInherited()) ended.emplace_back(handle, handle->Disconnect());
  }
  for (const auto& [handle, signal] : ended) handle->Await(*signal);
}

// A copy of the mutex that a thread of the parent's has would never be given back.
void LockLiving() { AllLiving().mutex.lock(); }
void UnlockLiving() { AllLiving().mutex.unlock(); }

void Remember(ClientHandle* handle) {
  static const bool asked = [] {
    return std::atexit(DisconnectAll) == 0 &&
           pthread_atfork(LockLiving, UnlockLiving, UnlockLiving) == 0;
  }();
  Living& living = AllLiving();
  const std::lock_guard<std::mutex> lock(living.mutex);
  if (asked) living.handles.insert(handle);
}

void Forget(ClientHandle* handle) {
  Living& living = AllLiving();
  const std::lock_guard<std::mutex> lock(living.mutex);
  living.handles.erase(handle);
}

}  // namespace

absl::StatusOr<CLIENT*> MakeClient(const Host& host, const SocketAddress& server, uint32_t program,
                                   uint32_t version, FindUpperLayer find, uint32_t timeout_ms) {
  auto handle = std::make_unique<ClientHandle>(host, server, program, version, find);
  if (absl::Status status = handle->Connect(timeout_ms); !status.ok()) return status;
  Remember(handle.get());
  return handle.release()->client();
}

Counters CountersOf(CLIENT* client) {
  return static_cast<ClientHandle*>(client->cl_private)->counters();
}

CLIENT::clnt_ops ClientHandle::operations = {.cl_call = Call,
                                             .cl_abort = Abort,
                                             .cl_geterr = GetError,
                                             .cl_freeres = FreeResults,
                                             .cl_destroy = Destroy,
                                             .cl_control = Control};

ClientHandle::ClientHandle(const Host& host, const SocketAddress& server, uint32_t program,
                           uint32_t version, FindUpperLayer find)
    : host_(host),
      server_(server),
      address_(oncrpc::ToSockaddr(server)),
      find_(find),
      program_(program),
      version_(version),
      upper_(find(program, version)),
      protected_binding_(upper_.WithProtection()),
      next_xid_(std::random_device()()) {
  client_.cl_auth = NoAuth();
  client_.cl_ops = &operations;
  client_.cl_private = this;
  client_.cl_netid = strdup(oncrpc::Netid(server.address));
}

ClientHandle::~ClientHandle() {
  if (core_ != nullptr) {
    // A program that leaves at once would take the DREQ with it.
    Await(*Disconnect());
    RunOn(host_, [this] { core_.reset(); });
  }
  std::free(client_.cl_netid);
}

absl::Status ClientHandle::Connect(uint32_t timeout_ms) {
  auto done = std::make_shared<Signal>();
  absl::Status status;
  RunOn(host_, [&] {
    auto core = ClientCore::Create(host_, server_, protected_binding_);
    status = core.status();
    if (!core.ok()) return;
    core_ = *std::move(core);
    core_->Connect(uint64_t{timeout_ms} * 1'000'000, &outcome_, [done] { done->Give(); });
  });
  if (!status.ok()) return status;
  Await(*done);
  return outcome_.status;
}

Counters ClientHandle::counters() {
  Counters counters;
  RunOn(host_, [&] { counters = core_->counters(); });
  return counters;
}

std::shared_ptr<Signal> ClientHandle::Disconnect() {
  auto ended = std::make_shared<Signal>();
  engine::Actor::Post(*host_.worker,
                      [this, ended] { core_->Disconnect([ended] { ended->Give(); }); });
  return ended;
}

ClientHandle::Use::Use(ClientHandle* handle) : handle_(handle) {
  const std::lock_guard<std::mutex> lock(handle_->users_mutex_);
  ++handle_->users_;
}

ClientHandle::Use::~Use() {
  const std::lock_guard<std::mutex> lock(handle_->users_mutex_);
  if (--handle_->users_ == 0) handle_->unused_.notify_all();
}

clnt_stat ClientHandle::Call(CLIENT* client, rpcproc_t procedure, xdrproc_t xdr_arguments,
                             void* arguments, xdrproc_t xdr_results, void* results,
                             timeval timeout) {
  ClientHandle& self = Of(client);
  if (self.IsInherited()) return self.Fail(RPC_CANTSEND, ENOTCONN);
  const Use use(&self);
  const Asked asked{procedure, xdr_arguments, arguments, xdr_results, results, timeout};
  rpc_msg reply{};
  for (int refreshes = 0;; ++refreshes) {
    clnt_stat status;
    {
      const std::lock_guard<std::mutex> lock(self.mutex_);
      status = self.CallOnce(asked, &reply);
    }
    // A call whose reply was accepted has run, whatever is wrong with the reply's verifier. A
    // refresh may make calls of its own.
    if (status != RPC_AUTHERROR || reply.rm_reply.rp_stat != MSG_DENIED ||
        refreshes == kMaxRefreshes || !AUTH_REFRESH(client->cl_auth, &reply)) {
      return status;
    }
  }
}

clnt_stat ClientHandle::Fail(clnt_stat status, int system_error) {
  error_ = {};
  error_.re_status = status;
  error_.re_errno = system_error;
  return status;
}

clnt_stat ClientHandle::CallOnce(const Asked& asked, rpc_msg* reply) {
  *reply = {};
  const timeval timeout = timeout_is_set_ ? timeout_ : asked.timeout;
  const bool is_batched = IsZero(timeout);
  for (int tries = 0; tries < kMaxXids; ++tries) {
    if (!EncodeHeader(asked.procedure) || !EncodeArguments(asked)) {
      return Fail(RPC_CANTENCODEARGS);
    }
    oncrpc::CallRequest request{
        .procedure = static_cast<uint32_t>(asked.procedure),
        .header = &header_,
        .arguments = encoder_.bytes(),
        .items = items_,
        .timeout_ns = is_batched ? kBatchedTimeoutNs : Nanoseconds(timeout)};
    OfferMemory(asked, &request);
    auto done = std::make_shared<Signal>();
    engine::Actor::Post(*host_.worker, [this, &request, done] {
      core_->Call(&request, &outcome_, [done] { done->Give(); });
    });
    Await(*done);
    if (outcome_.status.code() == absl::StatusCode::kAlreadyExists) continue;
    if (is_batched) return Fail(RPC_TIMEDOUT);
    return TakeReply(asked, reply);
  }
  return Fail(RPC_CANTSEND, EBUSY);
}

bool ClientHandle::EncodeHeader(rpcproc_t procedure) {
  XDR xdr;
  xdrmem_create(&xdr, reinterpret_cast<char*>(header_bytes_.data()), kMaxHeaderBytes, XDR_ENCODE);
  for (const uint32_t word : {next_xid_++, uint32_t{CALL}, oncrpc::kRpcVersion, program_, version_,
                              static_cast<uint32_t>(procedure)}) {
    const long value = static_cast<long>(word);
    if (!XDR_PUTLONG(&xdr, &value)) return false;
  }
  if (!AUTH_MARSHALL(client_.cl_auth, &xdr)) return false;
  return oncrpc::ParseCall(absl::MakeConstSpan(header_bytes_).first(XDR_GETPOS(&xdr)), &header_) !=
         0;
}

bool ClientHandle::EncodeArguments(const Asked& asked) {
  const auto procedure = static_cast<uint32_t>(asked.procedure);
  const bool is_gss = header_.credential.flavor == oncrpc::AuthFlavor::kGss;
  const oncrpc::ProcedureBinding* binding =
      (is_gss ? protected_binding_ : upper_.binding).Find(procedure);
  encoder_.Reset(binding->max_argument_bytes);
  // RFC 8166 section 8.2.2.3
  reduces_ = !oncrpc::ForbidsReduction(header_.credential);
  if (reduces_) encoder_.Watch(&upper_.ArgumentsOf(procedure), asked.arguments);
  if (!AUTH_WRAP(client_.cl_auth, encoder_.xdr(), asked.xdr_arguments,
                 static_cast<caddr_t>(asked.arguments))) {
    return false;
  }
  items_.clear();
  for (const XdrEncoder::Item& item : encoder_.items()) {
    if (!item.bytes.empty()) items_.push_back({.bytes = item.bytes, .position = item.position});
  }
  return true;
}

void ClientHandle::OfferMemory(const Asked& asked, oncrpc::CallRequest* request) {
  const uint32_t procedure = request->procedure;
  const bool is_gss = header_.credential.flavor == oncrpc::AuthFlavor::kGss;
  const oncrpc::ProcedureBinding& binding =
      *(is_gss ? protected_binding_ : upper_.binding).Find(procedure);
  request->max_result_bytes = binding.max_result_bytes + (is_gss ? oncrpc::kMaxAuthBytes : 0);
  const ItemFields& fields = upper_.ResultsOf(procedure);
  size_t reply_bytes = oncrpc::kReplyHeaderBytes + *request->max_result_bytes;
  if (reduces_ && asked.results != nullptr) {
    for (size_t i = 0; i < fields.offsets.size(); ++i) {
      Chunk& chunk = chunks_[i];
      if (chunk.memory == nullptr || chunk.bytes < fields.max_bytes) {
        chunk.memory.reset(static_cast<char*>(std::malloc(fields.max_bytes)));
        chunk.bytes = chunk.memory == nullptr ? 0 : fields.max_bytes;
      }
      item_buffers_[i] = {reinterpret_cast<uint8_t*>(chunk.memory.get()),
                          std::min<size_t>(chunk.bytes, fields.max_bytes)};
    }
    request->item_buffers = absl::MakeConstSpan(item_buffers_).first(fields.offsets.size());
  }
  // A result that has no memory of its own comes in the reply.
  reply_bytes += fields.offsets.size() * oncrpc::XdrRoundUp(fields.max_bytes);
  if (reply_buffer_bytes_ < reply_bytes) {
    reply_buffer_.reset(static_cast<char*>(std::malloc(reply_bytes)));
    reply_buffer_bytes_ = reply_buffer_ == nullptr ? 0 : reply_bytes;
  }
  request->reply_buffer = {reinterpret_cast<uint8_t*>(reply_buffer_.get()), reply_buffer_bytes_};
}

clnt_stat ClientHandle::TakeReply(const Asked& asked, rpc_msg* reply) {
  switch (outcome_.status.code()) {
    case absl::StatusCode::kOk:
      break;
    case absl::StatusCode::kDeadlineExceeded:
      return Fail(RPC_TIMEDOUT);
    case absl::StatusCode::kInvalidArgument:
      return Fail(RPC_CANTENCODEARGS);
    case absl::StatusCode::kFailedPrecondition:
      // RDMA_ERROR, or sizes that do not fit the server that there is now.
      return Fail(RPC_CANTRECV, EREMOTEIO);
    case absl::StatusCode::kDataLoss:
      return Fail(RPC_CANTDECODERES);
    case absl::StatusCode::kUnavailable:
      return outcome_.sent ? Fail(RPC_CANTRECV, ECONNRESET) : Fail(RPC_CANTSEND, ENOTCONN);
    default:
      return Fail(RPC_CANTSEND, EIO);
  }
  *reply = MessageOf(outcome_.header);
  error_ = {};
  _seterr_reply(reply, &error_);
  if (error_.re_status != RPC_SUCCESS) return error_.re_status;
  return DecodeResults(asked, reply->acpted_rply.ar_verf);
}

clnt_stat ClientHandle::DecodeResults(const Asked& asked, const opaque_auth& verifier) {
  opaque_auth checked = verifier;
  if (!AUTH_VALIDATE(client_.cl_auth, &checked)) {
    Fail(RPC_AUTHERROR);
    error_.re_why = AUTH_INVALIDRESP;
    return RPC_AUTHERROR;
  }
  decoder_.Reset(outcome_.results);
  if (reduces_) {
    decoder_.Watch(&upper_.ResultsOf(static_cast<uint32_t>(asked.procedure)), asked.results,
                   absl::MakeConstSpan(outcome_.items).first(outcome_.item_count));
  }
  const bool decoded = AUTH_UNWRAP(client_.cl_auth, decoder_.xdr(), asked.xdr_results,
                                   static_cast<caddr_t>(asked.results));
  if (const uint64_t copied = decoder_.copied_bytes(); copied > 0) {
    engine::Actor::Post(*host_.worker, [this, copied] { core_->CountCopied(copied); });
  }
  lent_ = {};
  lent_results_ = asked.results;
  for (const XdrDecoder::Adopted& adopted : decoder_.adopted()) {
    Chunk& chunk = chunks_[adopted.item];
    lent_[adopted.item] = {adopted.field, chunk.memory.release(), chunk.bytes};
    chunk.bytes = 0;
  }
  return decoded ? RPC_SUCCESS : Fail(RPC_CANTDECODERES);
}

void ClientHandle::Abort(CLIENT* /*client*/) {}

void ClientHandle::GetError(CLIENT* client, rpc_err* error) { *error = Of(client).error_; }

bool_t ClientHandle::FreeResults(CLIENT* client, xdrproc_t xdr_results, void* results) {
  ClientHandle& self = Of(client);
  if (self.IsInherited()) {
    xdr_free(xdr_results, results);
    return TRUE;
  }
  const Use use(&self);
  const std::lock_guard<std::mutex> lock(self.mutex_);
  if (results == self.lent_results_) {
    for (size_t i = 0; i < oncrpc::kMaxItems; ++i) {
      Lent& lent = self.lent_[i];
      if (lent.field == nullptr || *lent.field != lent.memory) continue;
      *lent.field = nullptr;
      self.chunks_[i].memory.reset(lent.memory);
      self.chunks_[i].bytes = lent.bytes;
    }
    self.lent_ = {};
  }
  xdr_free(xdr_results, results);
  return TRUE;
}

void ClientHandle::Destroy(CLIENT* client) {
  ClientHandle& self = Of(client);
  if (self.IsInherited()) return;
  Forget(&self);
  {
    std::unique_lock<std::mutex> lock(self.users_mutex_);
    self.unused_.wait(lock, [&self] { return self.users_ == 0; });
  }
  delete &self;
}

bool_t ClientHandle::Control(CLIENT* client, u_int request, void* info) {
  ClientHandle& self = Of(client);
  if (self.IsInherited()) return FALSE;
  const Use use(&self);
  const std::lock_guard<std::mutex> lock(self.mutex_);
  if (request == CLSET_FD_CLOSE || request == CLSET_FD_NCLOSE) return TRUE;
  if (info == nullptr) return FALSE;
  return self.Set(request, info) || self.Get(request, info) ? TRUE : FALSE;
}

bool ClientHandle::Set(u_int request, void* info) {
  switch (request) {
    case CLSET_TIMEOUT: {
      const timeval timeout = *static_cast<timeval*>(info);
      constexpr long kMicroseconds = 1'000'000;
      // As libtirpc has it: neither negative nor more than a thousand days.
      constexpr long kMaxSeconds = 100'000'000;
      if (timeout.tv_sec < 0 || timeout.tv_sec > kMaxSeconds || timeout.tv_usec < -1 ||
          timeout.tv_usec > kMicroseconds) {
        return false;
      }
      timeout_ = timeout;
      timeout_is_set_ = true;
      return true;
    }
    case CLSET_XID:
      next_xid_ = *static_cast<uint32_t*>(info);
      return true;
    case CLSET_PROG:
      Rebind(*static_cast<uint32_t*>(info), version_);
      return true;
    case CLSET_VERS:
      Rebind(program_, *static_cast<uint32_t*>(info));
      return true;
    default:
      return false;
  }
}

bool ClientHandle::Get(u_int request, void* info) {
  switch (request) {
    case CLGET_TIMEOUT:
      *static_cast<timeval*>(info) = timeout_;
      return true;
    case CLGET_SERVER_ADDR:
      std::memcpy(info, address_.get(), address_.length);
      return true;
    case CLGET_SVC_ADDR:
      *static_cast<netbuf*>(info) = {
          .maxlen = sizeof address_.storage, .len = address_.length, .buf = &address_.storage};
      return true;
    case CLGET_XID:
      *static_cast<uint32_t*>(info) = next_xid_ - 1;
      return true;
    case CLGET_PROG:
      *static_cast<uint32_t*>(info) = program_;
      return true;
    case CLGET_VERS:
      *static_cast<uint32_t*>(info) = version_;
      return true;
    default:
      return false;
  }
}

void ClientHandle::Rebind(uint32_t program, uint32_t version) {
  program_ = program;
  version_ = version;
  upper_ = find_(program, version);
  protected_binding_ = upper_.WithProtection();
  RunOn(host_, [this] { core_->Rebind(protected_binding_); });
}

}  // namespace pollux::rpcrdma::tirpc
