/* The commands by which a test case controls a verbs program: one command per line, `NAME
 * KEY=VALUE...`, answered by one line, `ok ...` or `error ...`. Shared by the program in the guest
 * (peer.c) and the one on Pollux (../pollux_peer.cc). Written in C, as is the former. ../peers.py
 * sends the commands. */
#ifndef POLLUX_TESTS_INTEROP_PEER_WORDS_H_
#define POLLUX_TESTS_INTEROP_PEER_WORDS_H_

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PEER_REGION (256 * 1024) /* bytes of memory that each program has, page-aligned */
#define PEER_OBJECTS 128         /* of each kind, numbered from 0 */
#define PEER_ELEMENTS 4          /* scatter/gather elements of a work request */
#define PEER_QUEUE 64            /* work requests */
#define PEER_COMPLETIONS 4096    /* one queue for all */
#define PEER_LINE 2048
#define PEER_DATA 256 /* bytes of private data that are reported */
/* Values of rdma-core 45 and later, which the headers of 44 do not have. */
#define PEER_WR_FLUSH ((enum ibv_wr_opcode)14)
#define PEER_WITH_FLUSH (1 << 11) /* of ibv_qp_init_attr_ex::send_ops_flags */

struct peer_words {
  const char* name;
  int count;
  const char* key[32];
  const char* value[32];
};

/* A command of a program. `run` answers once, by peer_ok() or peer_error(). */
struct peer_command {
  const char* name;
  void (*run)(const struct peer_words* words);
};

void peer_ok(const char* format, ...) __attribute__((format(printf, 1, 2)));
void peer_error(const char* format, ...) __attribute__((format(printf, 1, 2)));

/* The value of a key; a number is decimal or 0x... `otherwise` if the command does not have it. */
uint64_t peer_number(const struct peer_words* words, const char* key, uint64_t otherwise);
const char* peer_text(const struct peer_words* words, const char* key, const char* otherwise);
/* The number of an object; ends the program if it is too large. */
int peer_object(const struct peer_words* words, const char* key);
/* Decodes a value in hexadecimal; returns the number of bytes. */
size_t peer_bytes(const struct peer_words* words, const char* key, uint8_t* to, size_t room);

/* Type of `qp type=`, port space of `id ps=`. */
enum ibv_qp_type peer_qp_type(const struct peer_words* words);
int peer_port_space(const struct peer_words* words);

/* Sets the attributes of a queue pair that is moved without CM, except the address. Returns the
 * mask, or 0 on error. */
int peer_qp_attr(const struct peer_words* words, enum ibv_qp_state state, struct ibv_qp_attr* attr);

/* Sets a work request except its address handle and its window. Returns nonzero if its op is
 * unknown. `lkey` is that of the region named by `mr=`. With op=flush, imm= holds the placement,
 * and 16 for the whole region; peer_flush_bytes() is the length. */
int peer_send_request(const struct peer_words* words, const uint8_t* memory, uint32_t lkey,
                      struct ibv_send_wr* wr, struct ibv_sge* sge);
uint32_t peer_flush_bytes(const struct ibv_send_wr* wr);
void peer_recv_request(const struct peer_words* words, const uint8_t* memory, uint32_t lkey,
                       struct ibv_recv_wr* wr, struct ibv_sge* sge);

/* A program's functions for `poll` and `burst`. */
struct peer_queues {
  int (*poll)(int count, struct ibv_wc* wc);        /* returns how many; never waits */
  int (*post)(int qp, struct ibv_send_wr* wr);      /* returns 0 or an errno */
  uint32_t (*lkey)(const struct peer_words* words); /* of the region named by `mr=` */
};

/* Reads commands that are appended to the file at `path`, and runs them, until `exit`.
 * `memory` is PEER_REGION bytes. `commands` end with a null name. */
int peer_serve(const char* path, uint8_t* memory, const struct peer_command* commands,
               const struct peer_queues* queues);

#ifdef __cplusplus
}
#endif

#endif /* POLLUX_TESTS_INTEROP_PEER_WORDS_H_ */
