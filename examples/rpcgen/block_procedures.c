/* The procedures of block_store.x, except WHO: block_who.c. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/rpcgen/block_store.h"

struct stored {
  char *name;
  char *data;
  u_int bytes;
};
static struct stored store[NAMES_MAX];
static u_int stored_count;
static u_int changes;

static struct stored *find(const char *name) {
  for (u_int i = 0; i < stored_count; ++i) {
    if (strcmp(store[i].name, name) == 0) return &store[i];
  }
  return NULL;
}

static block_status put(const char *name, const char *data, u_int bytes) {
  struct stored *block = find(name);
  char *copy = malloc(bytes + 1);
  if (copy == NULL || (block == NULL && stored_count == NAMES_MAX)) {
    free(copy);
    return BLOCK_NO_SPACE;
  }
  if (bytes > 0) memcpy(copy, data, bytes);
  if (block == NULL) {
    block = &store[stored_count++];
    block->name = strdup(name);
    block->data = NULL;
  }
  free(block->data);
  block->data = copy;
  block->bytes = bytes;
  return BLOCK_OK;
}

bool_t put_1_svc(put_arguments *arguments, block_status *result, struct svc_req *request) {
  (void)request;
  *result = put(arguments->name, arguments->data.data_val, arguments->data.data_len);
  ++changes;
  return TRUE;
}

bool_t get_1_svc(block_name *name, get_result *result, struct svc_req *request) {
  const struct stored *block = find(*name);
  (void)request;
  memset(result, 0, sizeof *result);
  if (block == NULL) {
    result->status = BLOCK_NOT_FOUND;
    result->get_result_u.why = "there is no block of that name";
    return TRUE;
  }
  /* The reply is sent from the block's memory, without a copy here. */
  result->status = BLOCK_OK;
  result->get_result_u.data.data_val = block->data;
  result->get_result_u.data.data_len = block->bytes;
  return TRUE;
}

bool_t list_1_svc(void *nothing, name_list *result, struct svc_req *request) {
  static block_name names[NAMES_MAX];
  (void)nothing;
  (void)request;
  for (u_int i = 0; i < stored_count; ++i) names[i] = store[i].name;
  result->name_list_val = names;
  result->name_list_len = stored_count;
  return TRUE;
}

bool_t put_names_1_svc(name_list *names, block_status *result, struct svc_req *request) {
  (void)request;
  *result = BLOCK_OK;
  for (u_int i = 0; i < names->name_list_len && *result == BLOCK_OK; ++i) {
    *result = put(names->name_list_val[i], NULL, 0);
  }
  ++changes;
  return TRUE;
}

bool_t changes_1_svc(void *nothing, u_int *result, struct svc_req *request) {
  (void)nothing;
  (void)request;
  *result = changes;
  return TRUE;
}

bool_t wait_1_svc(u_int *milliseconds, void *nothing, struct svc_req *request) {
  (void)nothing;
  (void)request;
  usleep(*milliseconds * 1000);
  return TRUE;
}

/* Frees nothing: results are in the store, or in static memory. */
int block_store_1_freeresult(SVCXPRT *transport, xdrproc_t xdr_result, caddr_t result) {
  (void)transport;
  (void)xdr_result;
  (void)result;
  return TRUE;
}
