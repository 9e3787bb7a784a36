/* What tests do with the server of examples/rpcgen beyond the commands of its client.
 *
 * usage: block_driver [-s sys|krb5|krb5i|krb5p] [-p PRINCIPAL] [-t MS] HOST COMMAND [ARGUMENT...]
 *
 *   put NAME TEXT    stores the text as a block
 *   get NAME         prints a block
 *   block BYTES      puts a block of that size, gets it, and compares
 *   names N          puts N empty blocks, and prints the names of all blocks
 *   changes    who    wait MS
 *   calls N          NULL, N times
 *   threads T N      T threads with a CLIENT each put and get N blocks, and compare
 *   again N MS       puts and gets N blocks, one every MS milliseconds, over whatever connections
 *   unknown          calls a procedure, a version and a program that do not exist
 *   garbage          sends arguments that cannot be decoded
 *   fork             calls from a child that it forks, which must fail, and then by itself
 *
 * POLLUX_PORT holds the port options, such as "--netdev eth0". */
#include <pthread.h>
#include <rpc/rpcsec_gss.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/rpcgen/block_binding.h"
#include "examples/rpcgen/block_store.h"
#include "tools/tirpc/pollux_rpc.h"

static const char *host, *security, *principal = "store@localhost";
static long timeout_ms = -1;

static void set_security(CLIENT *client) {
  if (security == NULL) return;
  if (strcmp(security, "sys") == 0) {
    client->cl_auth = authunix_create_default();
  } else {
    const rpc_gss_service_t service = strcmp(security, "krb5p") == 0   ? rpcsec_gss_svc_privacy
                                      : strcmp(security, "krb5i") == 0 ? rpcsec_gss_svc_integrity
                                                                       : rpcsec_gss_svc_none;
    client->cl_auth = rpc_gss_seccreate(client, (char *)(uintptr_t)principal, "kerberos_v5",
                                        service, NULL, NULL, NULL);
  }
  if (client->cl_auth == NULL) {
    fprintf(stderr, "block_driver: no security context with %s\n", principal);
    exit(1);
  }
}

/* A restarted server does not know the old security context; with libtirpc the program itself must
 * create a new one. */
static int renewed(CLIENT *client, enum clnt_stat status) {
  if (status != RPC_AUTHERROR || security == NULL) return 0;
  auth_destroy(client->cl_auth);
  set_security(client);
  return 1;
}

static CLIENT *connect_or_exit(void) {
  CLIENT *client = clnt_pollux_create(host, BLOCK_STORE, BLOCK_STORE_V1, NULL);
  if (client == NULL) {
    clnt_pcreateerror("block_driver");
    fprintf(stderr, "block_driver: %s\n", pollux_rpc_error());
    exit(1);
  }
  if (timeout_ms >= 0) {
    struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    clnt_control(client, CLSET_TIMEOUT, (char *)&timeout);
  }
  set_security(client);
  return client;
}

static void must(CLIENT *client, enum clnt_stat status, const char *what) {
  if (status == RPC_SUCCESS) return;
  clnt_perror(client, what);
  exit(1);
}

static void must_be(block_status status, const char *what) {
  if (status == BLOCK_OK) return;
  fprintf(stderr, "%s: the server says %d\n", what, (int)status);
  exit(1);
}

static void put(CLIENT *client, char *name, char *bytes, u_int size) {
  put_arguments arguments = {.name = name, .data = {size, bytes}};
  block_status result;
  enum clnt_stat status = put_1(&arguments, &result, client);
  if (renewed(client, status)) status = put_1(&arguments, &result, client);
  must(client, status, "put");
  must_be(result, "put");
}

/* To be freed with clnt_freeres(). */
static get_result get(CLIENT *client, char *name) {
  get_result result;
  enum clnt_stat status;
  memset(&result, 0, sizeof result);
  status = get_1(&name, &result, client);
  if (renewed(client, status)) status = get_1(&name, &result, client);
  must(client, status, "get");
  must_be(result.status, "get");
  return result;
}

static void print_block(CLIENT *client, char *name) {
  get_result got = get(client, name);
  if (got.get_result_u.data.data_len > 0) {
    fwrite(got.get_result_u.data.data_val, 1, got.get_result_u.data.data_len, stdout);
  }
  clnt_freeres(client, (xdrproc_t)xdr_get_result, &got);
}

static void put_and_get(CLIENT *client, unsigned seed, u_int size) {
  char name[32];
  char *bytes = malloc(size + 1);
  get_result got;
  if (bytes == NULL) exit(1);
  snprintf(name, sizeof name, "block-%u", seed);
  for (u_int i = 0; i < size; ++i) bytes[i] = (char)((i * 7 + seed) >> 2);
  put(client, name, bytes, size);
  got = get(client, name);
  /* For an empty block XDR allocates no bytes. */
  if (got.get_result_u.data.data_len != size ||
      (size > 0 && memcmp(got.get_result_u.data.data_val, bytes, size) != 0)) {
    fprintf(stderr, "block %u came back with other bytes\n", seed);
    exit(1);
  }
  clnt_freeres(client, (xdrproc_t)xdr_get_result, &got);
  free(bytes);
}

/* From one byte to the largest block. */
static u_int size_of_block(unsigned seed) { return 1 + seed * 104729u % BLOCK_MAX_BYTES; }

static void put_names(CLIENT *client, u_int count) {
  static char text[NAMES_MAX][16];
  static block_name names[NAMES_MAX];
  name_list arguments = {count, names}, listed;
  block_status result;
  for (u_int i = 0; i < count && i < NAMES_MAX; ++i) {
    snprintf(text[i], sizeof text[i], "name-%u", i);
    names[i] = text[i];
  }
  must(client, put_names_1(&arguments, &result, client), "names");
  must_be(result, "names");
  memset(&listed, 0, sizeof listed);
  must(client, list_1(NULL, &listed, client), "list");
  for (u_int i = 0; i < listed.name_list_len; ++i) printf("%s\n", listed.name_list_val[i]);
  clnt_freeres(client, (xdrproc_t)xdr_name_list, &listed);
}

static void null_calls(CLIENT *client, int count) {
  const struct timeval timeout = {25, 0};
  for (int i = 0; i < count; ++i) {
    must(client,
         clnt_call(client, NULLPROC, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, timeout),
         "NULL");
  }
  printf("%d calls\n", count);
}

struct share {
  pthread_t thread;
  unsigned first;
  unsigned count;
};

static void *run_share(void *context) {
  const struct share *share = context;
  CLIENT *client = connect_or_exit();
  for (unsigned i = 0; i < share->count; ++i) {
    const unsigned seed = share->first + i;
    put_and_get(client, seed, size_of_block(seed));
  }
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  return NULL;
}

static void run_threads(unsigned threads, unsigned count) {
  struct share *shares = calloc(threads, sizeof *shares);
  for (unsigned i = 0; i < threads; ++i) {
    shares[i].first = i * count;
    shares[i].count = count;
    if (pthread_create(&shares[i].thread, NULL, run_share, &shares[i]) != 0) exit(1);
  }
  for (unsigned i = 0; i < threads; ++i) pthread_join(shares[i].thread, NULL);
  free(shares);
  printf("%u blocks\n", threads * count);
}

static void put_again(CLIENT *client, unsigned count, unsigned pause_ms) {
  for (unsigned i = 0; i < count; ++i) {
    put_and_get(client, i % 8, size_of_block(i % 8));
    printf("block %u\n", i);
    fflush(stdout);
    usleep(pause_ms * 1000);
  }
}

/* Prints the result of a call without arguments. */
static void print_status(CLIENT *client, const char *what, rpcproc_t procedure) {
  const struct timeval timeout = {25, 0};
  struct rpc_err error;
  const enum clnt_stat status =
      clnt_call(client, procedure, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, timeout);
  printf("%s: %s", what, clnt_sperrno(status));
  clnt_geterr(client, &error);
  if (status == RPC_PROGVERSMISMATCH) {
    printf(" (%u to %u)", (unsigned)error.re_vers.low, (unsigned)error.re_vers.high);
  }
  printf("\n");
}

static void call_unknown(CLIENT *client) {
  u_int version = 9, program = BLOCK_STORE + 1;
  print_status(client, "procedure 99", 99);
  clnt_control(client, CLSET_VERS, (char *)&version);
  print_status(client, "version 9", NULLPROC);
  clnt_control(client, CLSET_PROG, (char *)&program);
  print_status(client, "another program", NULLPROC);
}

static void send_garbage(CLIENT *client) {
  const struct timeval timeout = {25, 0};
  u_int too_long = NAME_MAX_BYTES + 1;
  block_status result;
  const enum clnt_stat status = clnt_call(client, PUT, (xdrproc_t)xdr_u_int, (caddr_t)&too_long,
                                          (xdrproc_t)xdr_block_status, (caddr_t)&result, timeout);
  printf("garbage: %s\n", clnt_sperrno(status));
}

static void call_from_child(CLIENT *client) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    print_status(client, "child", NULLPROC);
    if (clnt_pollux_create(host, BLOCK_STORE, BLOCK_STORE_V1, NULL) == NULL) {
      printf("child: %s\n", pollux_rpc_error());
    }
    clnt_destroy(client);
    exit(0);
  }
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    fprintf(stderr, "block_driver: no child, or one that ended with %d\n", status);
    exit(1);
  }
  null_calls(client, 1);
}

static void run(CLIENT *client, const char *command, char **arguments, int count) {
  u_int number = 0;
  char *text = NULL;
  if (strcmp(command, "put") == 0 && count == 2) {
    put(client, arguments[0], arguments[1], (u_int)strlen(arguments[1]));
  } else if (strcmp(command, "get") == 0 && count == 1) {
    print_block(client, arguments[0]);
  } else if (strcmp(command, "block") == 0 && count == 1) {
    put_and_get(client, 0, (u_int)atoi(arguments[0]));
  } else if (strcmp(command, "names") == 0 && count == 1) {
    put_names(client, (u_int)atoi(arguments[0]));
  } else if (strcmp(command, "calls") == 0 && count == 1) {
    null_calls(client, atoi(arguments[0]));
  } else if (strcmp(command, "changes") == 0) {
    must(client, changes_1(NULL, &number, client), "changes");
    printf("%u changes\n", number);
  } else if (strcmp(command, "who") == 0) {
    must(client, who_1(NULL, &text, client), "who");
    printf("%s\n", text);
    clnt_freeres(client, (xdrproc_t)xdr_wrapstring, &text);
  } else if (strcmp(command, "wait") == 0 && count == 1) {
    number = (u_int)atoi(arguments[0]);
    must(client, wait_1(&number, NULL, client), "wait");
  } else if (strcmp(command, "again") == 0 && count == 2) {
    put_again(client, (unsigned)atoi(arguments[0]), (unsigned)atoi(arguments[1]));
  } else if (strcmp(command, "unknown") == 0) {
    call_unknown(client);
  } else if (strcmp(command, "garbage") == 0) {
    send_garbage(client);
  } else if (strcmp(command, "fork") == 0) {
    call_from_child(client);
  } else {
    fprintf(stderr, "block_driver: no command '%s' with %d arguments\n", command, count);
    exit(2);
  }
}

int main(int argc, char **argv) {
  int option;
  while ((option = getopt(argc, argv, "+s:p:t:")) != -1) {
    if (option == 's') {
      security = optarg;
    } else if (option == 'p') {
      principal = optarg;
    } else if (option == 't') {
      timeout_ms = atol(optarg);
    } else {
      argc = 0;
    }
  }
  if (argc - optind < 2) {
    fprintf(stderr,
            "usage: block_driver [-s sys|krb5|krb5i|krb5p] [-p PRINCIPAL] [-t MS] HOST "
            "COMMAND [ARGUMENT...]\n");
    return 2;
  }
  if (pollux_rpc_bind(&block_binding) != 0) {
    fprintf(stderr, "block_driver: %s\n", pollux_rpc_error());
    return 1;
  }
  host = argv[optind];
  if (strcmp(argv[optind + 1], "threads") == 0 && argc - optind == 4) {
    run_threads((unsigned)atoi(argv[optind + 2]), (unsigned)atoi(argv[optind + 3]));
    return 0;
  }
  CLIENT *client = connect_or_exit();
  run(client, argv[optind + 1], argv + optind + 2, argc - optind - 2);
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  return 0;
}
