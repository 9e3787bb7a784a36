/* WHO of block_store.x: how a procedure learns the caller's credential and address. */
#include <arpa/inet.h>
#include <rpc/rpcsec_gss.h>
#include <stdio.h>

#include "examples/rpcgen/block_store.h"

static void describe_credential(struct svc_req *request, char *text, size_t size) {
  static const char *const services[] = {"default", "none", "integrity", "privacy"};
  rpc_gss_rawcred_t *raw = NULL;
  switch (request->rq_cred.oa_flavor) {
    case AUTH_SYS: {
      const struct authunix_parms *who = (const struct authunix_parms *)request->rq_clntcred;
      snprintf(text, size, "uid %u gid %u", (unsigned)who->aup_uid, (unsigned)who->aup_gid);
      break;
    }
    case RPCSEC_GSS:
      if (!rpc_gss_getcred(request, &raw, NULL, NULL)) raw = NULL;
      snprintf(text, size, "%.*s by %s", raw == NULL ? 0 : raw->client_principal->len,
               raw == NULL ? "" : raw->client_principal->name,
               raw == NULL ? "nothing" : services[raw->service]);
      break;
    default:
      snprintf(text, size, "nobody");
      break;
  }
}

bool_t who_1_svc(void *nothing, char **result, struct svc_req *request) {
  static char text[512];
  char who[400], from[INET6_ADDRSTRLEN] = "nowhere";
  const struct netbuf *caller = svc_getrpccaller(request->rq_xprt);
  const struct sockaddr *address = caller->buf;
  (void)nothing;
  describe_credential(request, who, sizeof who);
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, from, sizeof from);
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, from, sizeof from);
  }
  snprintf(text, sizeof text, "%s from %s", who, from);
  *result = text;
  return TRUE;
}
