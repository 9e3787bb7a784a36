/* What the two verbs peers do, from their command lines: shared, so that both do the same. C, since
 * one of them is. */
#ifndef POLLUX_TESTS_INTEROP_PEER_SCRIPT_H_
#define POLLUX_TESTS_INTEROP_PEER_SCRIPT_H_

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PEER_REGION (256 * 1024) /* bytes that each side registers */
#define PEER_HALF (PEER_REGION / 2)
#define PEER_RECEIVES_AT (64 * 1024) /* in the lower half; the space below is for WRITEs */
#define PEER_GAP 16                  /* bytes between the elements of a work request */
#define PEER_ELEMENTS 4
#define PEER_QUEUE 32
#define PEER_PRIVATE 16 /* address 8, key 4, zeros 4; big-endian */

/* --op NAME:LENGTH:REMOTE_OFFSET[:IMM[:ELEMENTS[:KEY_XOR]]] */
struct peer_op {
  char name[16];
  enum ibv_wr_opcode opcode;
  uint32_t length;
  uint64_t remote_offset;
  uint32_t imm;
  uint32_t elements;
  uint32_t key_xor; /* of the remote key: not 0 makes it a wrong one */
};

struct peer_script {
  const char* address; /* --connect ADDR: the active side; else it listens */
  const char* service; /* --service-port PORT */
  uint8_t rnr_retry;   /* --rnr-retry N */
  int access;          /* --access FLAGS, ibv_access_flags of the region */
  int receives;        /* --receive LENGTH, each posted before the connection */
  uint32_t receive[PEER_QUEUE];
  int ops;
  struct peer_op op[PEER_QUEUE];
};

struct peer_memory {
  uint64_t address;
  uint32_t key;
};

/* One option; 0 when it was understood. */
int peer_take(struct peer_script* script, const char* option, const char* value);
/* A whole command line; prints what is wrong and returns non-zero. */
int peer_parse(int argc, char** argv, struct peer_script* script);
void peer_default(struct peer_script* script);

/* The active side's source (lower half) or the passive side's (upper half); the rest is zero. */
void peer_fill_memory(const struct peer_script* script, uint8_t* memory);
/* FNV-1a over the whole region. */
uint64_t peer_digest(const uint8_t* memory);
/* Where a receive's buffer begins in the region. */
uint32_t peer_receive_at(const struct peer_script* script, int receive);
/* Fills in all but wr_id and flags. Source bytes are taken one operation after the other from the
 * start of the region; what READs bring is put one after the other from its middle. */
void peer_fill_request(const struct peer_script* script, int number, uint64_t memory, uint32_t lkey,
                       const struct peer_memory* remote, struct ibv_send_wr* wr,
                       struct ibv_sge* sge);
void peer_put_memory(uint64_t address, uint32_t key, uint8_t* to);
struct peer_memory peer_get_memory(const uint8_t* from);

#ifdef __cplusplus
}
#endif

#endif /* POLLUX_TESTS_INTEROP_PEER_SCRIPT_H_ */
