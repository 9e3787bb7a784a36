/* A client of block_store.x.
 *
 * usage: block_client HOST put NAME FILE    stores a file as the block NAME
 *        block_client HOST get NAME FILE    writes a block to a file
 *        block_client HOST list             prints the names of all blocks
 *
 * POLLUX_PORT holds the port options, such as "--netdev eth0". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/rpcgen/block_binding.h"
#include "examples/rpcgen/block_store.h"
#include "tools/tirpc/pollux_rpc.h"

static void check_call(CLIENT *client, enum clnt_stat status, const char *what) {
  if (status == RPC_SUCCESS) return;
  clnt_perror(client, what);
  exit(1);
}

static void check_file(int ok, const char *path) {
  if (ok) return;
  perror(path);
  exit(1);
}

static void put(CLIENT *client, char *name, const char *path) {
  static char bytes[BLOCK_MAX_BYTES];
  put_arguments arguments = {.name = name, .data = {0, bytes}};
  block_status result;
  FILE *file = fopen(path, "rb");
  check_file(file != NULL, path);
  arguments.data.data_len = (u_int)fread(bytes, 1, sizeof bytes, file);
  if (fgetc(file) != EOF) {
    fprintf(stderr, "put: %s is larger than a block, which has at most %d bytes\n", path,
            BLOCK_MAX_BYTES);
    exit(1);
  }
  check_file(!ferror(file), path);
  fclose(file);
  check_call(client, put_1(&arguments, &result, client), "put");
  if (result != BLOCK_OK) {
    fprintf(stderr, "put: the server answers status %d\n", (int)result);
    exit(1);
  }
}

static void get(CLIENT *client, char *name, const char *path) {
  get_result result;
  FILE *file;
  size_t written = 0;
  /* XDR allocates memory where a pointer is NULL. */
  memset(&result, 0, sizeof result);
  check_call(client, get_1(&name, &result, client), "get");
  if (result.status != BLOCK_OK) {
    fprintf(stderr, "get: %s\n", result.get_result_u.why);
    exit(1);
  }
  file = fopen(path, "wb");
  check_file(file != NULL, path);
  /* XDR allocates no memory for an empty block. */
  if (result.get_result_u.data.data_len > 0) {
    written = fwrite(result.get_result_u.data.data_val, 1, result.get_result_u.data.data_len, file);
  }
  check_file(fclose(file) == 0 && written == result.get_result_u.data.data_len, path);
  clnt_freeres(client, (xdrproc_t)xdr_get_result, &result);
}

static void list(CLIENT *client) {
  name_list names;
  memset(&names, 0, sizeof names);
  check_call(client, list_1(NULL, &names, client), "list");
  for (u_int i = 0; i < names.name_list_len; ++i) printf("%s\n", names.name_list_val[i]);
  clnt_freeres(client, (xdrproc_t)xdr_name_list, &names);
}

int main(int argc, char **argv) {
  const int is_put = argc == 5 && strcmp(argv[2], "put") == 0;
  const int is_get = argc == 5 && strcmp(argv[2], "get") == 0;
  const int is_list = argc == 3 && strcmp(argv[2], "list") == 0;
  CLIENT *client;
  if (!is_put && !is_get && !is_list) {
    fprintf(stderr, "usage: block_client HOST put NAME FILE | get NAME FILE | list\n");
    return 2;
  }
  if (pollux_rpc_bind(&block_binding) != 0) {
    fprintf(stderr, "block_client: %s\n", pollux_rpc_error());
    return 1;
  }
  client = clnt_pollux_create(argv[1], BLOCK_STORE, BLOCK_STORE_V1, NULL);
  if (client == NULL) {
    fprintf(stderr, "block_client: %s\n", pollux_rpc_error());
    return 1;
  }
  /* To authenticate the calls, a program replaces client->cl_auth here, as with libtirpc's own
   * transports. */
  if (is_put) put(client, argv[3], argv[4]);
  if (is_get) get(client, argv[3], argv[4]);
  if (is_list) list(client);
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  return 0;
}
