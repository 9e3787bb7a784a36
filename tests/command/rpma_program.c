/* Remote memory by librpma. The server registers a file in memory. The client writes all of it in
 * pieces of many sizes, flushes each, and reads it again. Each compares all bytes. */
#include <fcntl.h>
#include <librpma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 4 << 20, kLargest = 64 << 10, kWord = 8 };

#define CHECK(call)                                              \
  do {                                                           \
    int failed = (call);                                         \
    if (failed != 0) {                                           \
      fprintf(stderr, "%s: %s\n", #call, rpma_err_2str(failed)); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

static struct rpma_peer* peer;
static struct rpma_conn* conn;

static void fill(unsigned char* bytes) {
  uint32_t seed = 1;
  for (int i = 0; i < kBytes; ++i) {
    seed = seed * 1664525 + 1013904223;
    bytes[i] = seed >> 24;
  }
}

static void compare(const unsigned char* found, const char* what) {
  unsigned char* expected = malloc(kBytes);
  if (expected == NULL) exit(1);
  fill(expected);
  if (memcmp(found, expected, kBytes) != 0) {
    fprintf(stderr, "wrong bytes %s\n", what);
    exit(1);
  }
  free(expected);
}

static void await(enum rpma_conn_event wanted) {
  enum rpma_conn_event event;
  CHECK(rpma_conn_next_event(conn, &event));
  if (event != wanted) {
    fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
    exit(1);
  }
}

/* Waits for the only operation that is signaled. */
static void complete(void) {
  struct rpma_cq* cq;
  struct ibv_wc wc;
  CHECK(rpma_conn_get_cq(conn, &cq));
  CHECK(rpma_cq_wait(cq));
  CHECK(rpma_cq_get_wc(cq, 1, &wc, NULL));
  if (wc.status != IBV_WC_SUCCESS) {
    fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
    exit(1);
  }
}

static void serve(const char* address, const char* port, const char* file) {
  struct rpma_ep* endpoint;
  struct rpma_conn_req* request;
  struct rpma_mr_local* region;
  uint8_t descriptor[UINT8_MAX];
  struct rpma_conn_private_data data = {.ptr = descriptor};
  size_t size;
  int fd = open(file, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, kBytes) != 0) exit(1);
  void* memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) exit(1);
  CHECK(rpma_mr_reg(
      peer, memory, kBytes,
      RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
      &region));
  CHECK(rpma_mr_get_descriptor_size(region, &size));
  CHECK(rpma_mr_get_descriptor(region, descriptor));
  data.len = size;
  CHECK(rpma_ep_listen(peer, address, port, &endpoint));
  CHECK(rpma_ep_next_conn_req(endpoint, NULL, &request));
  CHECK(rpma_conn_req_connect(&request, &data, &conn));
  await(RPMA_CONN_ESTABLISHED);
  await(RPMA_CONN_CLOSED);
  compare(memory, "in the server's file");
  CHECK(rpma_conn_disconnect(conn));
  CHECK(rpma_conn_delete(&conn));
  CHECK(rpma_ep_shutdown(&endpoint));
  CHECK(rpma_mr_dereg(&region));
}

static void use(const char* address, const char* port) {
  struct rpma_conn_req* request;
  struct rpma_conn_private_data data;
  struct rpma_mr_local *source, *destination;
  struct rpma_mr_remote* there;
  unsigned char *out = malloc(kBytes), *in = calloc(1, kBytes);
  if (out == NULL || in == NULL) exit(1);
  fill(out);
  CHECK(rpma_mr_reg(peer, out, kBytes, RPMA_MR_USAGE_WRITE_SRC, &source));
  CHECK(rpma_mr_reg(peer, in, kBytes, RPMA_MR_USAGE_READ_DST, &destination));
  CHECK(rpma_conn_req_new(peer, address, port, NULL, &request));
  CHECK(rpma_conn_req_connect(&request, NULL, &conn));
  await(RPMA_CONN_ESTABLISHED);
  CHECK(rpma_conn_get_private_data(conn, &data));
  CHECK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &there));
  size_t size = 1;
  for (size_t at = kWord; at < kBytes; at += size) {
    size = at % kLargest + 1 < kBytes - at ? at % kLargest + 1 : kBytes - at;
    CHECK(rpma_write(conn, there, at, source, at, size, RPMA_F_COMPLETION_ON_ERROR, NULL));
    /* It READs this many bytes, whatever it is to flush. */
    CHECK(rpma_flush(conn, there, at / kWord * kWord, kWord, RPMA_FLUSH_TYPE_VISIBILITY,
                     RPMA_F_COMPLETION_ALWAYS, NULL));
    complete();
  }
  CHECK(rpma_atomic_write(conn, there, 0, (const char*)out, RPMA_F_COMPLETION_ALWAYS, NULL));
  complete();
  for (size_t at = 0; at < kBytes; at += kLargest) {
    CHECK(rpma_read(conn, destination, at, there, at, kLargest, RPMA_F_COMPLETION_ALWAYS, NULL));
    complete();
  }
  compare(in, "read from the server");
  CHECK(rpma_conn_disconnect(conn));
  await(RPMA_CONN_CLOSED);
  CHECK(rpma_conn_delete(&conn));
  CHECK(rpma_mr_remote_delete(&there));
  CHECK(rpma_mr_dereg(&source));
  CHECK(rpma_mr_dereg(&destination));
}

/* Arguments: ADDRESS PORT and, for the server, FILE. */
int main(int argc, char** argv) {
  struct ibv_context* context;
  int serves = argc == 4;
  if (!serves && argc != 3) return 1;
  CHECK(rpma_utils_get_ibv_context(
      argv[1], serves ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &context));
  CHECK(rpma_peer_new(context, &peer));
  if (serves) {
    serve(argv[1], argv[2], argv[3]);
  } else {
    use(argv[1], argv[2]);
  }
  CHECK(rpma_peer_delete(&peer));
  puts("all as expected");
  return 0;
}
