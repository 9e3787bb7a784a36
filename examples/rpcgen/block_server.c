/* A server of block_store.x.
 *
 * usage: block_server [-p PRINCIPAL]     e.g. POLLUX_PORT="--netdev eth0" block_server
 *
 * PRINCIPAL is the service's for RPCSEC_GSS, as in store@server.example. */
#include <rpc/rpcsec_gss.h>
#include <stdio.h>
#include <unistd.h>

#include "examples/rpcgen/block_binding.h"
#include "examples/rpcgen/block_store.h"
#include "tools/tirpc/pollux_rpc.h"

/* Of rpcgen -m. */
extern void block_store_1(struct svc_req *request, SVCXPRT *transport);

int main(int argc, char **argv) {
  int option;
  while ((option = getopt(argc, argv, "p:")) != -1) {
    if (option != 'p') {
      fprintf(stderr, "usage: block_server [-p PRINCIPAL]\n");
      return 2;
    }
    if (!rpc_gss_set_svc_name(optarg, "kerberos_v5", 0, BLOCK_STORE, BLOCK_STORE_V1)) {
      fprintf(stderr, "block_server: no principal '%s'\n", optarg);
      return 1;
    }
  }
  if (pollux_rpc_bind(&block_binding) != 0) {
    fprintf(stderr, "block_server: %s\n", pollux_rpc_error());
    return 1;
  }
  if (svc_pollux_create(block_store_1, BLOCK_STORE, BLOCK_STORE_V1, NULL) == NULL) {
    fprintf(stderr, "block_server: cannot serve: %s\n", pollux_rpc_error());
    return 1;
  }
  fprintf(stderr, "serving blocks\n");
  svc_run();
  fprintf(stderr, "block_server: svc_run returned\n");
  return 1;
}
