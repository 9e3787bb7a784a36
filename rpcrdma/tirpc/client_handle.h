// A CLIENT of libtirpc whose calls travel by RPC-over-RDMA.
#ifndef POLLUX_RPCRDMA_TIRPC_CLIENT_HANDLE_H_
#define POLLUX_RPCRDMA_TIRPC_CLIENT_HANDLE_H_

#include <rpc/rpc.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
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

// The binding of a program and version, made up if need be. Called on the thread that makes a
// CLIENT or changes its version.
using FindUpperLayer = UpperLayer (*)(uint32_t program, uint32_t version);

// Connects to `server`, for at most `timeout_ms`; AUTH_NONE. The CLIENT is used as any other: by
// several threads (calls wait for each other), until clnt_destroy(). Its calls block; not for the
// worker's core.
//
//  - A time-out of {0, 0} (batching): the call is delivered as any, its reply ignored, and
//    RPC_TIMEDOUT returned, 25 s later if none comes.
//  - A connection that is lost is made again, and the call sent again under its XID; a server's
//    reply cache has it run once. RPC_CANTSEND when there is no connection to be had, RPC_CANTRECV
//    when one is lost for good under a call, both with an errno.
//  - clnt_control(): CLSET_TIMEOUT and all CLGET_ but CLGET_FD and CLGET_RETRY_TIMEOUT, CLSET_XID,
//    CLSET_PROG, CLSET_VERS, CLSET_FD_CLOSE and CLSET_FD_NCLOSE (nothing to do).
//  - An eligible result is placed by RDMA WRITE where the results' structure then points to, if it
//    pointed to nothing; that memory is as large as the binding allows, until clnt_freeres() or
//    xdr_free(). A structure that points to memory of the user's gets a copy.
//  - A security context that the server does not know is the program's to make again
//    (RPC_AUTHERROR, RPCSEC_GSS_CREDPROBLEM), as with any transport of libtirpc's; its servers know
//    those of one connection.
//  - A process that ends by exit() says goodbye for the CLIENTs that it leaves.
//  - A process that is forked has none of the worker's threads: what it calls by a CLIENT that it
//    has inherited ends with RPC_CANTSEND (ENOTCONN), its clnt_control() with FALSE, and its
//    clnt_destroy() leaves everything as it is. Nothing of that reaches the wire.
//
// Errors: those of Client::Create and Client::Connect; DeadlineExceeded.
absl::StatusOr<CLIENT*> MakeClient(const Host& host, const SocketAddress& server, uint32_t program,
                                   uint32_t version, FindUpperLayer find, uint32_t timeout_ms);

// Of a CLIENT that MakeClient() made. Asks the worker.
Counters CountersOf(CLIENT* client);

// Behind CLIENT::cl_private.
class ClientHandle {
 public:
  ClientHandle(const Host& host, const SocketAddress& server, uint32_t program, uint32_t version,
               FindUpperLayer find);
  ~ClientHandle();
  ClientHandle(const ClientHandle&) = delete;
  ClientHandle& operator=(const ClientHandle&) = delete;

  absl::Status Connect(uint32_t timeout_ms);
  // Begins to; the signal is given when the server has answered, or has not in time.
  std::shared_ptr<Signal> Disconnect();
  // What the worker signals. On its user's thread.
  void Await(Signal& signal) { tirpc::Await(host_, signal); }
  CLIENT* client() { return &client_; }
  Counters counters();
  // By a process that was forked from the one that made it. Then nothing else here may be called
  // that waits for the worker, or for a mutex: another thread may have had it.
  bool IsInherited() const { return process_ != getpid(); }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  // What one call is about.
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

  // `reply` is what a credential may be refreshed by.
  clnt_stat CallOnce(const Asked& asked, rpc_msg* reply);
  bool EncodeHeader(rpcproc_t procedure);
  bool EncodeArguments(const Asked& asked);
  // Memory for what comes back.
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
  std::mutex mutex_;  // users' threads, one call at a time; the worker takes none
  uint32_t program_;
  uint32_t version_;
  UpperLayer upper_;
  oncrpc::ProgramBinding protected_binding_;
  std::unique_ptr<ClientCore> core_;  // the worker's
  uint32_t next_xid_;
  bool timeout_is_set_ = false;
  timeval timeout_{.tv_sec = 25, .tv_usec = 0};
  rpc_err error_{};
  // Of the call at hand.
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
  // Where the last call's results were adopted: to have the memory back.
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
