/* RPC-over-RDMA version 1 for programs of libtirpc and rpcgen. One line changes on each side:
 *
 *   clnt_create(host, PROGRAM, VERSION, "tcp")    clnt_pollux_create(host, PROGRAM, VERSION, NULL)
 *   svc_create(dispatch, PROGRAM, VERSION, "tcp") svc_pollux_create(dispatch, PROGRAM, VERSION,
 * NULL)
 *
 * rpcrdma/tirpc/client_handle.h and service_link.h describe what the CLIENT and the SVCXPRT
 * support. No RDMA hardware is needed; docs/nics.md lists the kinds of ports. */
#ifndef POLLUX_TOOLS_TIRPC_POLLUX_RPC_H_
#define POLLUX_TOOLS_TIRPC_POLLUX_RPC_H_

#include <rpc/rpc.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The argument `port` below holds the port options of the pollux command, separated by blanks, such
 * as "--netdev eth0" or "--port net_tap0,iface=plx0 --address 192.0.2.2/24", and these:
 *   --service-port N   port of the service (20049)
 *   --rpcbind          a server registers with its host's rpcbind, a client asks the server's
 *   --max-connections N  limit of a service's connections (1,024); the first program that names the
 *                        port sets it
 *   --max-connections-per-client N  limit per client address. 0, the default: an address can open
 *                        another connection while it has fewer than are free
 *
 * NULL stands for the environment variable POLLUX_PORT. All CLIENTs and SVCXPRTs of a process with
 * the same `port` share one open port. A thread of its own polls it until the last of them is
 * destroyed. */

/* As clnt_create(). `host` is a name or an address. Tries to connect for at most 25 seconds.
 * Returns a CLIENT that clnt_destroy() frees, or NULL and sets rpc_createerr and
 * pollux_rpc_error(). Any thread may call it. */
CLIENT* clnt_pollux_create(const char* host, rpcprog_t program, rpcvers_t version,
                           const char* port);

/* As svc_create(), for svc_run() on the calling thread. Further programs on the same port and
 * service port share the SVCXPRT, which svc_destroy() frees. Like all of libtirpc's svc_ functions,
 * it must be called on the thread of svc_run(). Returns NULL on failure and sets
 * pollux_rpc_error(); the program is then not served, and the call may be repeated. If the service
 * has other programs, the repeated call needs the same binding. */
SVCXPRT* svc_pollux_create(void (*dispatch)(struct svc_req*, SVCXPRT*), rpcprog_t program,
                           rpcvers_t version, const char* port);

/* The reason why this thread's last call of a function of this header failed, as a sentence. Valid
 * until the thread's next such call. */
const char* pollux_rpc_error(void);

/* A program's upper-layer binding (RFC 8166 section 6): which opaque fields may be transferred by
 * RDMA READ and WRITE, and how large messages can be. It is optional. Without it no field is
 * transferred separately, and arguments and results have at most 1 MiB each. Both sides must agree
 * on the eligible fields.
 *
 * An eligible item is an opaque NAME<> directly in the structure of the arguments or results, or in
 * a union of that structure, as rpcgen declares and decodes it. */
#define POLLUX_MAX_ITEMS 8

struct pollux_items {
  unsigned count;                   /* at most POLLUX_MAX_ITEMS */
  size_t offsets[POLLUX_MAX_ITEMS]; /* of the NAME_val pointers, in the order of the .x file */
  unsigned max_bytes;               /* per item, at most 1 GiB */
};

/* One eligible item of a structure: POLLUX_ITEM(put_args, data.data_val, BLOCK_MAX). */
#define POLLUX_ITEM(type, pointer, bytes) \
  { 1, {offsetof(type, pointer)}, bytes }

struct pollux_procedure {
  unsigned procedure;
  unsigned max_argument_bytes; /* of XDR, without eligible items; 0: 1 MiB */
  unsigned max_result_bytes;   /* the same */
  struct pollux_items arguments;
  struct pollux_items results;
  int idempotent; /* running it twice has the effect of running it once: replies are not cached */
};

struct pollux_program {
  unsigned program;
  unsigned version;
  unsigned procedure_count; /* for others: 1 MiB of arguments and of results, no items */
  const struct pollux_procedure* procedures;
};

/* Sets the binding of CLIENTs and SVCXPRTs that are created later; `program` is copied. Returns 0,
 * or -1 and sets pollux_rpc_error(). Any thread may call it. */
int pollux_rpc_bind(const struct pollux_program* program);

#ifdef __cplusplus
}
#endif

#endif /* POLLUX_TOOLS_TIRPC_POLLUX_RPC_H_ */
