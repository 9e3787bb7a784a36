#include "tests/interop/peer/script.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char* name;
  enum ibv_wr_opcode opcode;
} kOpcodes[] = {{"send", IBV_WR_SEND},
                {"send_imm", IBV_WR_SEND_WITH_IMM},
                {"write", IBV_WR_RDMA_WRITE},
                {"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
                {"read", IBV_WR_RDMA_READ}};

static int take_op(struct peer_script* script, const char* value) {
  if (script->ops == PEER_QUEUE) return -1;
  struct peer_op* op = &script->op[script->ops];
  memset(op, 0, sizeof *op);
  op->elements = 1;
  unsigned long long offset = 0;
  const int fields = sscanf(value, "%15[a-z_]:%u:%llu:%x:%u:%x", op->name, &op->length, &offset,
                            &op->imm, &op->elements, &op->key_xor);
  op->remote_offset = offset;
  if (fields < 3 || op->elements < 1 || op->elements > PEER_ELEMENTS) return -1;
  for (size_t i = 0; i < sizeof kOpcodes / sizeof *kOpcodes; ++i) {
    if (strcmp(op->name, kOpcodes[i].name) == 0) {
      op->opcode = kOpcodes[i].opcode;
      ++script->ops;
      return 0;
    }
  }
  return -1;
}

void peer_default(struct peer_script* script) {
  memset(script, 0, sizeof *script);
  script->service = "7175";
  script->rnr_retry = 7;
  script->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
}

int peer_take(struct peer_script* script, const char* option, const char* value) {
  if (strcmp(option, "connect") == 0) {
    script->address = value;
  } else if (strcmp(option, "service-port") == 0) {
    script->service = value;
  } else if (strcmp(option, "rnr-retry") == 0) {
    script->rnr_retry = (uint8_t)atoi(value);
  } else if (strcmp(option, "access") == 0) {
    script->access = atoi(value);
  } else if (strcmp(option, "receive") == 0 && script->receives < PEER_QUEUE) {
    script->receive[script->receives++] = (uint32_t)atoi(value);
  } else if (strcmp(option, "op") == 0) {
    return take_op(script, value);
  } else {
    return -1;
  }
  return 0;
}

int peer_parse(int argc, char** argv, struct peer_script* script) {
  peer_default(script);
  for (int i = 1; i < argc; i += 2) {
    if (strncmp(argv[i], "--", 2) != 0 || i + 1 == argc ||
        peer_take(script, argv[i] + 2, argv[i + 1]) != 0) {
      printf("failed at %s\n", argv[i]);
      return -1;
    }
  }
  return 0;
}

void peer_fill_memory(const struct peer_script* script, uint8_t* memory) {
  memset(memory, 0, PEER_REGION);
  const uint32_t from = script->address != NULL ? 0 : PEER_HALF;
  /* A period longer than any path MTU, so that a packet in another's place shows. */
  for (uint32_t i = from; i < from + PEER_HALF; ++i) {
    memory[i] = (uint8_t)(i * 31 + (i >> 8) * 13 + 7);
  }
}

uint64_t peer_digest(const uint8_t* memory) {
  uint64_t digest = 0xCBF29CE484222325u;
  for (uint32_t i = 0; i < PEER_REGION; ++i) digest = (digest ^ memory[i]) * 0x100000001B3u;
  return digest;
}

uint32_t peer_receive_at(const struct peer_script* script, int receive) {
  uint32_t at = PEER_RECEIVES_AT;
  for (int i = 0; i < receive; ++i) at += script->receive[i];
  return at;
}

static uint32_t piece(const struct peer_op* op, uint32_t element) {
  const uint32_t each = op->length / op->elements;
  return element + 1 == op->elements ? op->length - each * (op->elements - 1) : each;
}

void peer_fill_request(const struct peer_script* script, int number, uint64_t memory, uint32_t lkey,
                       const struct peer_memory* remote, struct ibv_send_wr* wr,
                       struct ibv_sge* sge) {
  const struct peer_op* op = &script->op[number];
  uint64_t at = memory + (op->opcode == IBV_WR_RDMA_READ ? PEER_HALF : 0);
  for (int i = 0; i < number; ++i) {
    const struct peer_op* before = &script->op[i];
    if ((before->opcode == IBV_WR_RDMA_READ) == (op->opcode == IBV_WR_RDMA_READ)) {
      at += before->length + before->elements * PEER_GAP;
    }
  }
  for (uint32_t i = 0; i < op->elements; ++i) {
    sge[i].addr = at;
    sge[i].length = piece(op, i);
    sge[i].lkey = lkey;
    at += sge[i].length + PEER_GAP;
  }
  wr->opcode = op->opcode;
  wr->num_sge = op->length == 0 ? 0 : (int)op->elements;
  wr->imm_data = htonl(op->imm);
  wr->wr.rdma.remote_addr = remote->address + op->remote_offset;
  wr->wr.rdma.rkey = remote->key ^ op->key_xor;
}

void peer_put_memory(uint64_t address, uint32_t key, uint8_t* to) {
  memset(to, 0, PEER_PRIVATE);
  for (int i = 0; i < 8; ++i) to[i] = (uint8_t)(address >> 8 * (7 - i));
  for (int i = 0; i < 4; ++i) to[8 + i] = (uint8_t)(key >> 8 * (3 - i));
}

struct peer_memory peer_get_memory(const uint8_t* from) {
  struct peer_memory memory = {0, 0};
  for (int i = 0; i < 8; ++i) memory.address = memory.address << 8 | from[i];
  for (int i = 8; i < 12; ++i) memory.key = memory.key << 8 | from[i];
  return memory;
}
