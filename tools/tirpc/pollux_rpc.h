/* RPC-over-RDMA version 1 for programs of libtirpc and rpcgen. One line changes on each side:
 *
 *   clnt_create(host, PROGRAM, VERSION, "tcp")    clnt_pollux_create(host, PROGRAM, VERSION, NULL)
 *   svc_create(dispatch, PROGRAM, VERSION, "tcp") svc_pollux_create(dispatch, PROGRAM, VERSION,
 * NULL)
 *
 * What the CLIENT and the SVCXPRT can do stands in rpcrdma/tirpc/client_handle.h and
 * service_link.h. No RDMA hardware is needed; docs/nics.md says what a port can be. */
#ifndef POLLUX_TOOLS_TIRPC_POLLUX_RPC_H_
#define POLLUX_TOOLS_TIRPC_POLLUX_RPC_H_

#include <rpc/rpc.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a program is on the network: the text of the pollux command's port options, as in
 * "--netdev eth0" or "--port net_tap0,iface=plx0 --address 192.0.2.2/24", words separated by
 * blanks; and
 *   --service-port N   port of the service (20049)
 *   --rpcbind          a server registers with its host's rpcbind, a client asks the server's
 *   --max-connections N              of a service, as the first program there says (1,024)
 *   --max-connections-per-client N   of one address (0, the default: as long as it has fewer than
 * are left for all) NULL: the environment variable POLLUX_PORT. A port is opened once and polled by
 * a thread of its own, for all CLIENTs and SVCXPRTs of the process that name it, until the last of
 * them goes. */

/* As clnt_create(). `host`: a name or an address. Connects, for at most 25 seconds. NULL with
 * rpc_createerr and pollux_rpc_error(). Any thread. */
CLIENT* clnt_pollux_create(const char* host, rpcprog_t program, rpcvers_t version,
                           const char* port);

/* As svc_create(), for svc_run() on the calling thread. A program more on the same port and service
 * port shares the SVCXPRT, which svc_destroy() ends. Calls of other threads than svc_run()'s are
 * not allowed, as with all of libtirpc's svc_ functions. NULL with pollux_rpc_error(). */
SVCXPRT* svc_pollux_create(void (*dispatch)(struct svc_req*, SVCXPRT*), rpcprog_t program,
                           rpcvers_t version, const char* port);

/* Why this thread's last call of a function here failed: a sentence for people, until the next. */
const char* pollux_rpc_error(void);

/* A program's upper-layer binding (RFC 8166 section 6): which opaques may travel by RDMA READ and
 * WRITE, and how large messages are. Optional: without it nothing is moved by itself, and arguments
 * and results have up to 1 MiB. Both sides must agree on what is eligible.
 *
 * An eligible item is an opaque NAME<> directly in the structure of the arguments or of the results
 * (in a union of it, too), as rpcgen declares and decodes it. */
#define POLLUX_MAX_ITEMS 8

struct pollux_items {
  unsigned count;                   /* at most POLLUX_MAX_ITEMS */
  size_t offsets[POLLUX_MAX_ITEMS]; /* of the NAME_val pointers, in the order of the .x file */
  unsigned max_bytes;               /* of each, at most 1 GiB */
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
  int idempotent; /* running it twice does no more than once: no reply is cached */
};

struct pollux_program {
  unsigned program;
  unsigned version;
  unsigned procedure_count; /* others: up to 1 MiB each way, no items */
  const struct pollux_procedure* procedures;
};

/* For CLIENTs and SVCXPRTs that are made from now on; copied. 0, or -1 with pollux_rpc_error(). Any
 * thread. */
int pollux_rpc_bind(const struct pollux_program* program);

#ifdef __cplusplus
}
#endif

#endif /* POLLUX_TOOLS_TIRPC_POLLUX_RPC_H_ */
