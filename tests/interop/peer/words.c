#include "tests/interop/peer/words.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kPauseUs = 1000 };

static void answer(const char* word, const char* format, va_list arguments) {
  printf("%s ", word);
  vprintf(format, arguments);
  printf("\n");
  fflush(stdout);
}

void peer_ok(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  answer("ok", format, arguments);
  va_end(arguments);
}

void peer_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  answer("error", format, arguments);
  va_end(arguments);
}

const char* peer_text(const struct peer_words* words, const char* key, const char* otherwise) {
  for (int i = 0; i < words->count; ++i) {
    if (strcmp(words->key[i], key) == 0) return words->value[i];
  }
  return otherwise;
}

uint64_t peer_number(const struct peer_words* words, const char* key, uint64_t otherwise) {
  const char* text = peer_text(words, key, NULL);
  return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

int peer_object(const struct peer_words* words, const char* key) {
  const uint64_t number = peer_number(words, key, 0);
  if (number >= PEER_OBJECTS) {
    peer_error("%s=%llu: there are %d", key, (unsigned long long)number, PEER_OBJECTS);
    exit(1);
  }
  return (int)number;
}

size_t peer_bytes(const struct peer_words* words, const char* key, uint8_t* to, size_t room) {
  const char* text = peer_text(words, key, "");
  size_t count = 0;
  while (count < room && text[2 * count] != '\0' && text[2 * count + 1] != '\0') {
    const char digits[3] = {text[2 * count], text[2 * count + 1], '\0'};
    to[count++] = (uint8_t)strtoul(digits, NULL, 16);
  }
  return count;
}

enum ibv_qp_type peer_qp_type(const struct peer_words* words) {
  const char* type = peer_text(words, "type", "rc");
  if (strcmp(type, "uc") == 0) return IBV_QPT_UC;
  return strcmp(type, "ud") == 0 ? IBV_QPT_UD : IBV_QPT_RC;
}

int peer_port_space(const struct peer_words* words) {
  const char* space = peer_text(words, "ps", "tcp");
  if (strcmp(space, "ib") == 0) return RDMA_PS_IB;
  return strcmp(space, "udp") == 0 ? RDMA_PS_UDP : RDMA_PS_TCP;
}

static int init_attr(const struct peer_words* words, enum ibv_qp_type type,
                     struct ibv_qp_attr* attr) {
  attr->port_num = 1;
  attr->qkey = (uint32_t)peer_number(words, "qkey", 0);
  attr->qp_access_flags = (unsigned)peer_number(words, "access", 15);
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  return mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static int rtr_attr(const struct peer_words* words, enum ibv_qp_type type,
                    struct ibv_qp_attr* attr) {
  if (type == IBV_QPT_UD) return IBV_QP_STATE;
  attr->path_mtu = (enum ibv_mtu)peer_number(words, "mtu", IBV_MTU_1024);
  attr->dest_qp_num = (uint32_t)peer_number(words, "dest", 0);
  attr->rq_psn = (uint32_t)peer_number(words, "psn", 0);
  attr->max_dest_rd_atomic = (uint8_t)peer_number(words, "rd", 4);
  attr->min_rnr_timer = (uint8_t)peer_number(words, "min_rnr", 12);
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  return mask | (type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
}

static int rts_attr(const struct peer_words* words, enum ibv_qp_type type,
                    struct ibv_qp_attr* attr) {
  attr->sq_psn = (uint32_t)peer_number(words, "psn", 0);
  attr->timeout = (uint8_t)peer_number(words, "timeout", 17);
  attr->retry_cnt = (uint8_t)peer_number(words, "retry", 7);
  attr->rnr_retry = (uint8_t)peer_number(words, "rnr", 7);
  attr->max_rd_atomic = (uint8_t)peer_number(words, "rd", 4);
  const int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  return mask | (type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                          IBV_QP_MAX_QP_RD_ATOMIC
                                    : 0);
}

int peer_qp_attr(const struct peer_words* words, enum ibv_qp_state state,
                 struct ibv_qp_attr* attr) {
  memset(attr, 0, sizeof *attr);
  attr->qp_state = state;
  const enum ibv_qp_type type = peer_qp_type(words);
  if (state == IBV_QPS_INIT) return init_attr(words, type, attr);
  if (state == IBV_QPS_RTR) return rtr_attr(words, type, attr);
  return rts_attr(words, type, attr);
}

static const struct {
  const char* name;
  enum ibv_wr_opcode opcode;
} kOpcodes[] = {{"send", IBV_WR_SEND},
                {"send_imm", IBV_WR_SEND_WITH_IMM},
                {"send_inv", IBV_WR_SEND_WITH_INV},
                {"write", IBV_WR_RDMA_WRITE},
                {"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
                {"read", IBV_WR_RDMA_READ},
                {"cas", IBV_WR_ATOMIC_CMP_AND_SWP},
                {"fadd", IBV_WR_ATOMIC_FETCH_AND_ADD},
                {"atomic_write", IBV_WR_ATOMIC_WRITE},
                {"flush", PEER_WR_FLUSH},
                {"bind", IBV_WR_BIND_MW},
                {"local_inv", IBV_WR_LOCAL_INV}};

static int find_opcode(const char* name, enum ibv_wr_opcode* opcode) {
  for (size_t i = 0; i < sizeof kOpcodes / sizeof *kOpcodes; ++i) {
    if (strcmp(name, kOpcodes[i].name) == 0) {
      *opcode = kOpcodes[i].opcode;
      return 0;
    }
  }
  return -1;
}

/* `len` bytes at `at` in `elements` pieces with `gap` bytes between them; how many. */
static int fill_elements(const struct peer_words* words, const uint8_t* memory, uint32_t lkey,
                         struct ibv_sge* sge) {
  const uint32_t length = (uint32_t)peer_number(words, "len", 0);
  const uint32_t count = (uint32_t)peer_number(words, "elements", length == 0 ? 0 : 1);
  uint64_t at = (uintptr_t)memory + peer_number(words, "at", 0);
  for (uint32_t i = 0; i < count && i < PEER_ELEMENTS; ++i) {
    sge[i].addr = at;
    sge[i].length = i + 1 == count ? length - length / count * (count - 1) : length / count;
    sge[i].lkey = lkey;
    at += sge[i].length + peer_number(words, "gap", 0);
  }
  return (int)count;
}

int peer_send_request(const struct peer_words* words, const uint8_t* memory, uint32_t lkey,
                      struct ibv_send_wr* wr, struct ibv_sge* sge) {
  memset(wr, 0, sizeof *wr);
  if (find_opcode(peer_text(words, "op", ""), &wr->opcode) != 0) return -1;
  wr->wr_id = peer_number(words, "wr", 0);
  wr->send_flags = (unsigned)peer_number(words, "flags", IBV_SEND_SIGNALED);
  wr->sg_list = sge;
  wr->num_sge = fill_elements(words, memory, lkey, sge);
  const uint64_t remote = peer_number(words, "remote", 0);
  const uint32_t rkey = (uint32_t)peer_number(words, "rkey", 0);
  if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr->wr.atomic.remote_addr = remote;
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.compare_add = peer_number(words, "compare", peer_number(words, "add", 0));
    wr->wr.atomic.swap = peer_number(words, "swap", 0);
  } else if (peer_text(words, "qpn", NULL) != NULL) {
    wr->wr.ud.remote_qpn = (uint32_t)peer_number(words, "qpn", 0);
    wr->wr.ud.remote_qkey = (uint32_t)peer_number(words, "qkey", 0);
  } else if (wr->opcode != IBV_WR_BIND_MW) {
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = rkey;
  }
  if (wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_LOCAL_INV) {
    wr->invalidate_rkey = (uint32_t)peer_number(words, "inv", 0);
  } else {
    wr->imm_data = htonl((uint32_t)peer_number(words, "imm", 0));
  }
  return 0;
}

uint32_t peer_flush_bytes(const struct ibv_send_wr* wr) {
  return wr->num_sge == 0 ? 0 : wr->sg_list[0].length;
}

void peer_recv_request(const struct peer_words* words, const uint8_t* memory, uint32_t lkey,
                       struct ibv_recv_wr* wr, struct ibv_sge* sge) {
  memset(wr, 0, sizeof *wr);
  wr->wr_id = peer_number(words, "wr", 0);
  wr->sg_list = sge;
  wr->num_sge = fill_elements(words, memory, lkey, sge);
}

static uint8_t* the_memory;
static const struct peer_queues* the_queues;

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* fill at= len= seed=: a pattern whose period is longer than any path MTU, so that a packet in
 * another's place shows. */
static void fill(const struct peer_words* words) {
  const uint64_t at = peer_number(words, "at", 0), length = peer_number(words, "len", 0);
  const uint64_t seed = peer_number(words, "seed", 0);
  for (uint64_t i = at; i < at + length && i < PEER_REGION; ++i) {
    the_memory[i] = (uint8_t)(i * 31 + (i >> 8) * 13 + seed);
  }
  peer_ok("%llu", (unsigned long long)(uintptr_t)the_memory);
}

/* digest at= len=: FNV-1a. */
static void digest(const struct peer_words* words) {
  const uint64_t at = peer_number(words, "at", 0), length = peer_number(words, "len", PEER_REGION);
  uint64_t value = 0xCBF29CE484222325u;
  for (uint64_t i = at; i < at + length && i < PEER_REGION; ++i) {
    value = (value ^ the_memory[i]) * 0x100000001B3u;
  }
  peer_ok("%016llx", (unsigned long long)value);
}

/* peek at= len=: the bytes; poke at= data=: sets them. */
static void peek(const struct peer_words* words) {
  const uint64_t at = peer_number(words, "at", 0), length = peer_number(words, "len", 0);
  printf("ok ");
  for (uint64_t i = at; i < at + length && i < PEER_REGION; ++i) printf("%02x", the_memory[i]);
  printf("\n");
  fflush(stdout);
}

static void poke(const struct peer_words* words) {
  const uint64_t at = peer_number(words, "at", 0);
  if (at < PEER_REGION) peer_bytes(words, "data", the_memory + at, PEER_REGION - at);
  peer_ok("poked");
}

static void print_completion(const struct ibv_wc* wc) {
  const int good = wc->status == IBV_WC_SUCCESS;
  printf(" %llu/%d/%d/%u/%u/%x/%x/%x", (unsigned long long)wc->wr_id, wc->status,
         good ? (int)wc->opcode : -1, good ? wc->byte_len : 0, good ? wc->wc_flags : 0,
         !good                              ? 0
         : (wc->wc_flags & IBV_WC_WITH_INV) ? wc->invalidated_rkey
         : (wc->wc_flags & IBV_WC_WITH_IMM) ? ntohl(wc->imm_data)
                                            : 0,
         wc->qp_num, good ? wc->src_qp : 0);
}

/* poll count= ms=: waits for so many completions, so long; those that came, as
 * wr_id/status/opcode/byte_len/wc_flags/immediate or invalidated key/qp_num/src_qp. */
static void poll_queue(const struct peer_words* words) {
  const uint64_t end = now_ms() + peer_number(words, "ms", 0);
  const int count = (int)peer_number(words, "count", 1);
  struct ibv_wc wc[PEER_QUEUE];
  int found = 0;
  printf("ok");
  for (;;) {
    const int left = count - found;
    const int more = the_queues->poll(left < PEER_QUEUE ? left : PEER_QUEUE, wc);
    for (int i = 0; i < more; ++i) print_completion(&wc[i]);
    found += more;
    if (found >= count || (more == 0 && now_ms() >= end)) break;
    if (more == 0) usleep(kPauseUs);
  }
  printf("\n");
  fflush(stdout);
}

/* Increments of one remote word by several queue pairs at once; or as many FLUSHes of it. */
struct burst {
  const struct peer_words* words;
  int first, qps;
  uint32_t count, lkey;
  uint32_t posted[PEER_OBJECTS], done[PEER_OBJECTS];
  uint64_t expected[PEER_OBJECTS], total;
};

static uint64_t result_at(const struct burst* burst, int qp, uint32_t number) {
  return peer_number(burst->words, "at", 0) + 8 * ((uint64_t)qp * burst->count + number);
}

static int post_one(struct burst* burst, int qp, uint32_t number) {
  struct ibv_send_wr wr;
  struct ibv_sge sge[PEER_ELEMENTS];
  if (peer_send_request(burst->words, the_memory, burst->lkey, &wr, sge) != 0) return -1;
  sge[0].addr = (uintptr_t)the_memory + result_at(burst, qp, number);
  sge[0].length = 8;
  sge[0].lkey = burst->lkey;
  wr.num_sge = 1;
  wr.wr_id = (uint64_t)qp << 32 | number;
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    wr.wr.atomic.compare_add = burst->expected[qp];
    wr.wr.atomic.swap = burst->expected[qp] + 1;
  }
  ++burst->total;
  return the_queues->post(burst->first + qp, &wr);
}

/* A compare-and-swap that failed is tried again with what it has found. */
static int on_result(struct burst* burst, const struct ibv_wc* wc) {
  const int qp = (int)(wc->wr_id >> 32);
  const uint32_t number = (uint32_t)wc->wr_id;
  uint64_t found;
  memcpy(&found, the_memory + result_at(burst, qp, number), sizeof found);
  if (strcmp(peer_text(burst->words, "op", ""), "cas") == 0 && found != burst->expected[qp]) {
    burst->expected[qp] = found;
    return post_one(burst, qp, number);
  }
  burst->expected[qp] = found + 1;
  ++burst->done[qp];
  return burst->posted[qp] < burst->count ? post_one(burst, qp, burst->posted[qp]++) : 0;
}

/* burst op=cas|fadd|flush qp=FIRST qps= count= depth= at= mr= remote= rkey=: so many increments by
 * each queue pair, `depth` under way on each (one for cas); what each found stands at `at`. How
 * many operations that took. */
static void run_burst(const struct peer_words* words) {
  static struct burst burst;
  memset(&burst, 0, sizeof burst);
  burst.words = words;
  burst.first = peer_object(words, "qp");
  burst.qps = (int)peer_number(words, "qps", 1);
  burst.count = (uint32_t)peer_number(words, "count", 1);
  burst.lkey = the_queues->lkey(words);
  const uint32_t depth = (uint32_t)peer_number(words, "depth", 1);
  uint64_t left = (uint64_t)burst.qps * burst.count;
  if (burst.qps > PEER_OBJECTS || result_at(&burst, burst.qps, 0) > PEER_REGION) {
    return peer_error("the results do not fit");
  }
  int error = 0;
  for (int qp = 0; qp < burst.qps; ++qp) {
    while (error == 0 && burst.posted[qp] < depth && burst.posted[qp] < burst.count) {
      error = post_one(&burst, qp, burst.posted[qp]++);
    }
  }
  while (left > 0 && error == 0) {
    struct ibv_wc wc;
    if (the_queues->poll(1, &wc) == 0) {
      usleep(kPauseUs / 10);
      continue;
    }
    if (wc.status != IBV_WC_SUCCESS) return peer_error("status %d", wc.status);
    const uint32_t before = burst.done[wc.wr_id >> 32];
    error = on_result(&burst, &wc);
    left -= burst.done[wc.wr_id >> 32] - before;
  }
  if (error != 0) return peer_error("posting: %d", error);
  peer_ok("%llu", (unsigned long long)burst.total);
}

static const struct peer_command kCommon[] = {{"fill", fill},       {"digest", digest},
                                              {"peek", peek},       {"poke", poke},
                                              {"poll", poll_queue}, {"burst", run_burst}};

static int split(char* line, struct peer_words* words) {
  memset(words, 0, sizeof *words);
  char* rest = line;
  words->name = strtok_r(line, " \n", &rest);
  for (char* word; (word = strtok_r(NULL, " \n", &rest)) != NULL;) {
    char* equals = strchr(word, '=');
    if (equals == NULL || words->count == 32) return -1;
    *equals = '\0';
    words->key[words->count] = word;
    words->value[words->count++] = equals + 1;
  }
  return words->name == NULL ? -1 : 0;
}

static void dispatch(char* line, const struct peer_command* commands) {
  struct peer_words words;
  if (split(line, &words) != 0) return peer_error("not NAME KEY=VALUE...");
  for (size_t i = 0; i < sizeof kCommon / sizeof *kCommon; ++i) {
    if (strcmp(kCommon[i].name, words.name) == 0) return kCommon[i].run(&words);
  }
  for (; commands->name != NULL; ++commands) {
    if (strcmp(commands->name, words.name) == 0) return commands->run(&words);
  }
  peer_error("no command %s", words.name);
}

int peer_serve(const char* path, uint8_t* memory, const struct peer_command* commands,
               const struct peer_queues* queues) {
  the_memory = memory;
  the_queues = queues;
  FILE* file = fopen(path, "r");
  if (file == NULL) {
    peer_error("%s cannot be read", path);
    return 1;
  }
  char line[PEER_LINE];
  size_t length = 0;
  for (;;) {
    const int byte = fgetc(file);
    if (byte == EOF) {
      clearerr(file); /* it grows */
      usleep(kPauseUs);
    } else if (byte != '\n') {
      if (length + 1 < sizeof line) line[length++] = (char)byte;
    } else {
      line[length] = '\0';
      length = 0;
      if (strcmp(line, "exit") == 0) break;
      dispatch(line, commands);
    }
  }
  fclose(file);
  return 0;
}
