/* The language in which a case tells a verbs program what to do: one command a line, `NAME
 * KEY=VALUE...`, answered by one line, `ok ...` or `error ...`. Shared by the program in the guest
 * (peer.c) and the one on Pollux (../pollux_peer.cc), so that both understand the same. C, since
 * one of them is. ../peers.py is who speaks it. */
#ifndef POLLUX_TESTS_INTEROP_PEER_WORDS_H_
#define POLLUX_TESTS_INTEROP_PEER_WORDS_H_

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PEER_REGION (256 * 1024) /* bytes of memory that each program has, page-aligned */
#define PEER_OBJECTS 128         /* of each kind, named by a number from 0 */
#define PEER_ELEMENTS 4          /* scatter/gather elements of a work request */
#define PEER_QUEUE 64            /* work requests */
#define PEER_COMPLETIONS 4096    /* one queue for all */
#define PEER_LINE 2048
#define PEER_DATA 256 /* private data that is handed on */

struct peer_words {
  const char* name;
  int count;
  const char* key[32];
  const char* value[32];
};

/* A command of a program's: answers by peer_ok() or peer_error(), once. */
struct peer_command {
  const char* name;
  void (*run)(const struct peer_words* words);
};

void peer_ok(const char* format, ...) __attribute__((format(printf, 1, 2)));
void peer_error(const char* format, ...) __attribute__((format(printf, 1, 2)));

/* Decimal or 0x...; `otherwise` when the command does not say. */
uint64_t peer_number(const struct peer_words* words, const char* key, uint64_t otherwise);
const char* peer_text(const struct peer_words* words, const char* key, const char* otherwise);
/* The number of an object; ends the program when it is too large. */
int peer_object(const struct peer_words* words, const char* key);
/* The bytes of a value in hexadecimal; how many. */
size_t peer_bytes(const struct peer_words* words, const char* key, uint8_t* to, size_t room);

/* Type of `qp type=`, port space of `id ps=`. */
enum ibv_qp_type peer_qp_type(const struct peer_words* words);
int peer_port_space(const struct peer_words* words);

/* Attributes of a queue pair that no CM moves, less the address; the mask, or 0. */
int peer_qp_attr(const struct peer_words* words, enum ibv_qp_state state, struct ibv_qp_attr* attr);

/* All of a work request but its address handle and its window; nonzero when its op is none. `lkey`
 * is of the region that `mr=` names. */
int peer_send_request(const struct peer_words* words, const uint8_t* memory, uint32_t lkey,
                      struct ibv_send_wr* wr, struct ibv_sge* sge);
void peer_recv_request(const struct peer_words* words, const uint8_t* memory, uint32_t lkey,
                       struct ibv_recv_wr* wr, struct ibv_sge* sge);

/* What a program does for `poll` and `burst`. */
struct peer_queues {
  int (*poll)(int count, struct ibv_wc* wc);        /* how many; never waits */
  int (*post)(int qp, struct ibv_send_wr* wr);      /* an errno, or 0 */
  uint32_t (*lkey)(const struct peer_words* words); /* of the region that `mr=` names */
};

/* Reads commands from the file at `path` as they are appended to it, and runs them, until `exit`.
 * `memory` is PEER_REGION bytes. `commands` end with a null name. */
int peer_serve(const char* path, uint8_t* memory, const struct peer_command* commands,
               const struct peer_queues* queues);

#ifdef __cplusplus
}
#endif

#endif /* POLLUX_TESTS_INTEROP_PEER_WORDS_H_ */
