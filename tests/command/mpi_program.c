/* An even number of ranks. Each and its peer in the other half exchange messages of all sizes, and
 * read and write each other's memory; all reduce. Each checks what it gets. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxBytes = 8 << 20, kMany = 64, kEach = 20000 };

static unsigned char out[kMaxBytes], in[kMaxBytes], expected[kMaxBytes];
static int size, rank, peer;

static void fill(unsigned char* bytes, int count, uint32_t seed) {
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    bytes[i] = seed >> 24;
  }
}

static void check(int good, const char* what, int count) {
  if (good) return;
  fprintf(stderr, "rank %d: wrong %s (%d)\n", rank, what, count);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void exchange(int count) {
  fill(out, count, count + rank);
  fill(expected, count, count + peer);
  memset(in, 0, count);
  MPI_Sendrecv(out, count, MPI_BYTE, peer, 1, in, count, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check(memcmp(in, expected, count) == 0, "MPI_Sendrecv", count);
}

/* Many at once, received from the last to the first. */
static void exchange_many(void) {
  MPI_Request requests[2 * kMany];
  MPI_Status statuses[2 * kMany];
  fill(out, kMany * kEach, rank);
  fill(expected, kMany * kEach, peer);
  for (int i = 0; i < kMany; ++i) {
    int tag = kMany - 1 - i;
    MPI_Irecv(in + tag * kEach, kEach, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[i]);
    MPI_Isend(out + i * kEach, kEach, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[kMany + i]);
  }
  MPI_Waitall(2 * kMany, requests, statuses);
  check(memcmp(in, expected, kMany * kEach) == 0, "MPI_Isend", kEach);
}

static void reduce(int count) {
  int64_t* numbers = (int64_t*)out;
  int64_t* sums = (int64_t*)in;
  for (int i = 0; i < count; ++i) numbers[i] = (int64_t)i * (rank + 1);
  MPI_Allreduce(numbers, sums, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    check(sums[i] == (int64_t)i * size * (size + 1) / 2, "MPI_Allreduce", count);
  }
}

static void access_memory(void) {
  const int half = kMaxBytes / 2, times = 100;
  int64_t one = 1, before, counted;
  MPI_Win window;
  memset(in, 0, kMaxBytes);
  MPI_Win_create(in, kMaxBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  fill(out, half, 77 + rank);
  fill(expected, half, 77 + peer);
  MPI_Win_fence(0, window);
  MPI_Put(out, half, MPI_BYTE, peer, 0, half, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check(memcmp(in, expected, half) == 0, "MPI_Put", half);
  MPI_Get(out + half, half, MPI_BYTE, peer, 0, half, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check(memcmp(out + half, out, half) == 0, "MPI_Get", half);
  for (int i = 0; i < times; ++i) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, kMaxBytes - 8, MPI_SUM, window);
    MPI_Win_unlock(0, window);
  }
  MPI_Win_fence(0, window);
  memcpy(&counted, in + kMaxBytes - 8, sizeof counted);
  check(counted == (rank == 0 ? size * times : 0), "MPI_Fetch_and_op", times);
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  check(argc == 2 && size == atoi(argv[1]), "MPI_Comm_size", size);
  peer = (rank + size / 2) % size;
  for (int count = 0; count <= kMaxBytes; count = count * 7 + 1) exchange(count);
  exchange(kMaxBytes);
  exchange_many();
  for (int count = 1; count <= kMaxBytes / 8; count *= 32) reduce(count);
  access_memory();
  if (rank == 0) puts("all as expected");
  MPI_Finalize();
  return 0;
}
