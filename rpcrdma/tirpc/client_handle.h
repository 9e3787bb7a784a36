// A CLIENT of libtirpc whose calls use RPC-over-RDMA.
#ifndef POLLUX_RPCRDMA_TIRPC_CLIENT_HANDLE_H_
#define POLLUX_RPCRDMA_TIRPC_CLIENT_HANDLE_H_

#include <rpc/rpc.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "oncrpc/socket_address.h"
#include "rpcrdma/connection/counters.h"
#include "rpcrdma/tirpc/client_core.h"
#include "rpcrdma/tirpc/host.h"
#include "rpcrdma/tirpc/upper_layer.h"
#include "rpcrdma/tirpc/xdr_decoder.h"
#include "rpcrdma/tirpc/xdr_encoder.h"

namespace pollux::rpcrdma::tirpc {

// Returns the binding of a program and version, or a default one. Called on the thread that creates
// a CLIENT or changes its version.
using FindUpperLayer = UpperLayer (*)(uint32_t program, uint32_t version);

// Connects to `server` within `timeout_ms`, with AUTH_NONE. The CLIENT is used like any other: by
// several threads, whose calls wait for each other. clnt_destroy() waits for the calls that have
// begun. Its calls block and must not be made on the worker's core.
//
//  - A time-out of {0, 0} (batching): the call is sent, and RPC_TIMEDOUT is returned when its reply
//    arrives, which is ignored, or after 25 s if none arrives.
//  - A lost connection is replaced, and the call is sent again under its XID; a server's reply
//    cache makes it run once. RPC_CANTSEND if no connection can be made, RPC_CANTRECV if a
//    connection is lost for good during a call, both with an errno.
//  - clnt_control() supports CLSET_TIMEOUT, all CLGET_ requests except CLGET_FD and
//    CLGET_RETRY_TIMEOUT, CLSET_XID, CLSET_PROG, CLSET_VERS, and CLSET_FD_CLOSE and
//    CLSET_FD_NCLOSE, which have no effect.
//  - If the pointer in the results' structure is null, an eligible result is placed by RDMA WRITE
//    in memory that the pointer is then set to. That memory has the size that the binding allows
//    and lasts until clnt_freeres() or xdr_free(). If the pointer is set, the result is copied to
//    where it points.
//  - If the server does not know a security context (RPC_AUTHERROR, RPCSEC_GSS_CREDPROBLEM), the
//    program must create it again, as with any transport of libtirpc; servers keep contexts per
//    connection.
//  - A process that ends by exit() disconnects its remaining CLIENTs.
//  - A forked process has none of the worker's threads. With an inherited CLIENT, calls end with
//    RPC_CANTSEND (ENOTCONN), clnt_control() returns FALSE, and clnt_destroy() has no effect.
//    Nothing is sent.
//
// Errors: those of Client::Create() and Client::Connect(); DeadlineExceeded.
absl::StatusOr<CLIENT*> MakeClient(const Host& host, const SocketAddress& server, uint32_t program,
                                   uint32_t version, FindUpperLayer find, uint32_t timeout_ms);

// The counters of a CLIENT from MakeClient(). Asks the worker, and blocks meanwhile.
Counters CountersOf(CLIENT* client);

// The object behind CLIENT::cl_private.
class ClientHandle {
 public:
  ClientHandle(const Host& host, const SocketAddress& server, uint32_t program, uint32_t version,
               FindUpperLayer find);
  ~ClientHandle();
  ClientHandle(const ClientHandle&) = delete;
  ClientHandle& operator=(const ClientHandle&) = delete;

  absl::Status Connect(uint32_t timeout_ms);
  // Starts to disconnect. The signal is given when the server has replied, or has not replied in
  // time.
  std::shared_ptr<Signal> Disconnect();
  // Waits for the worker's signal. On the user's thread.
  void Await(Signal& signal) { tirpc::Await(host_, signal); }
  CLIENT* client() { return &client_; }
  Counters counters();
  // Whether this process was forked from the one that created the CLIENT. No function that waits
  // for the worker or for a mutex may then be called: another thread may have held the mutex.
  bool IsInherited() const { return process_ != getpid(); }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  // While a thread of the user is in an operation.
  class Use {
   public:
    explicit Use(ClientHandle* handle);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ClientHandle* handle_;
  };
  // The arguments of one call.
  struct Asked {
    rpcproc_t procedure;
    xdrproc_t xdr_arguments;
    void* arguments;
    xdrproc_t xdr_results;
    void* results;
    timeval timeout;
  };

  static ClientHandle& Of(CLIENT* client) {
    return *static_cast<ClientHandle*>(client->cl_private);
  }
  // The operations of a CLIENT.
  static clnt_stat Call(CLIENT* client, rpcproc_t procedure, xdrproc_t xdr_arguments,
                        void* arguments, xdrproc_t xdr_results, void* results, timeval timeout);
  static void Abort(CLIENT* client);
  static void GetError(CLIENT* client, rpc_err* error);
  static bool_t FreeResults(CLIENT* client, xdrproc_t xdr_results, void* results);
  static void Destroy(CLIENT* client);
  static bool_t Control(CLIENT* client, u_int request, void* info);
  static CLIENT::clnt_ops operations;

  // `reply` is needed to refresh the credential.
  clnt_stat CallOnce(const Asked& asked, rpc_msg* reply);
  bool EncodeHeader(rpcproc_t procedure);
  bool EncodeArguments(const Asked& asked);
  // Offers memory for the reply and the results.
  void OfferMemory(const Asked& asked, oncrpc::CallRequest* request);
  clnt_stat TakeReply(const Asked& asked, rpc_msg* reply);
  clnt_stat DecodeResults(const Asked& asked, const opaque_auth& verifier);
  clnt_stat Fail(clnt_stat status, int system_error = 0);
  bool Set(u_int request, void* info);
  bool Get(u_int request, void* info);
  void Rebind(uint32_t program, uint32_t version);

  // RFC 5531 section 9: six words, a credential and a verifier.
  static constexpr size_t kMaxHeaderBytes = 24 + 2 * (8 + oncrpc::kMaxAuthBytes);

  const pid_t process_ = getpid();
  CLIENT client_{};
  Host host_;
  const SocketAddress server_;
  oncrpc::Sockaddr address_;
  const FindUpperLayer find_;
  std::mutex mutex_;  // for the user's threads: one call at a time; not locked by the worker
  // The user's threads that are in an operation, for which clnt_destroy() waits, as that of
  // libtirpc's connections does.
  std::mutex users_mutex_;
  std::condition_variable unused_;
  int users_ = 0;
  uint32_t program_;
  uint32_t version_;
  UpperLayer upper_;
  oncrpc::ProgramBinding protected_binding_;
  std::unique_ptr<ClientCore> core_;  // belongs to the worker
  uint32_t next_xid_;
  bool timeout_is_set_ = false;
  timeval timeout_{.tv_sec = 25, .tv_usec = 0};
  rpc_err error_{};
  // State of the current call.
  alignas(8) std::array<uint8_t, kMaxHeaderBytes> header_bytes_{};
  oncrpc::CallHeader header_;
  bool reduces_ = false;  // see ForbidsReduction()
  XdrEncoder encoder_;
  XdrDecoder decoder_;
  std::vector<oncrpc::EligibleItem> items_;
  std::array<absl::Span<uint8_t>, oncrpc::kMaxItems> item_buffers_;
  Outcome outcome_;
  // Kept from call to call.
  std::unique_ptr<char[], Free> reply_buffer_;
  size_t reply_buffer_bytes_ = 0;
  struct Chunk {
    std::unique_ptr<char[], Free> memory;
    size_t bytes = 0;
  };
  std::array<Chunk, oncrpc::kMaxItems> chunks_;
  // The memory that the last call's results structure points to, so that it can be taken back.
  struct Lent {
    char** field = nullptr;
    char* memory = nullptr;
    size_t bytes = 0;
  };
  std::array<Lent, oncrpc::kMaxItems> lent_;
  void* lent_results_ = nullptr;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_CLIENT_HANDLE_H_
