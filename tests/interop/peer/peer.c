/* A verbs program for the guest that does what it is told (words.h); ../pollux_peer.cc is its
 * counterpart. usage: peer COMMAND_FILE OWN_ADDRESS */
#include "tests/interop/peer/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/peer/words.h"

enum { kTries = 10 };

struct ibv_context* peer_context;
struct ibv_cq* peer_cq;
struct ibv_qp* peer_qp[PEER_OBJECTS];
struct ibv_srq* peer_srq[PEER_OBJECTS];
struct ibv_ah* peer_ah[PEER_OBJECTS];
static struct ibv_pd* pd[2];
static struct ibv_mr* mr[PEER_OBJECTS];
static struct ibv_mw* mw[PEER_OBJECTS];
static uint8_t* memory;
static union ibv_gid own_gid;

void peer_answer(int failed) {
  if (failed) return peer_error("%s", strerror(errno));
  peer_ok("done");
}

struct ibv_pd* peer_pd(const struct peer_words* words) {
  return pd[peer_number(words, "pd", 0) & 1];
}

static union ibv_gid gid_of(const char* address) {
  union ibv_gid gid;
  memset(&gid, 0, sizeof gid);
  if (inet_pton(AF_INET6, address, gid.raw) == 1) return gid;
  gid.raw[10] = gid.raw[11] = 0xFF;
  inet_pton(AF_INET, address, gid.raw + 12);
  return gid;
}

static uint8_t own_gid_index(void) {
  union ibv_gid gid;
  for (int i = 0; ibv_query_gid(peer_context, 1, i, &gid) == 0; ++i) {
    if (memcmp(&gid, &own_gid, sizeof gid) == 0) return (uint8_t)i;
  }
  return 0;
}

static struct ibv_ah_attr path_to(const char* address) {
  struct ibv_ah_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = gid_of(address);
  attr.grh.sgid_index = own_gid_index();
  attr.grh.hop_limit = 64;
  return attr;
}

static void register_memory(const struct peer_words* words) {
  struct ibv_mr** region = &mr[peer_object(words, "n")];
  *region =
      ibv_reg_mr(peer_pd(words), memory + peer_number(words, "at", 0),
                 peer_number(words, "len", PEER_REGION), (int)peer_number(words, "access", 15));
  if (*region == NULL) return peer_answer(1);
  peer_ok("%u %llu", (*region)->rkey, (unsigned long long)(uintptr_t)memory);
}

static void deregister_memory(const struct peer_words* words) {
  struct ibv_mr** region = &mr[peer_object(words, "n")];
  errno = ibv_dereg_mr(*region);
  peer_answer(errno != 0);
  *region = NULL;
}

static void make_window(const struct peer_words* words) {
  struct ibv_mw** window = &mw[peer_object(words, "n")];
  *window = ibv_alloc_mw(peer_pd(words), IBV_MW_TYPE_2);
  if (*window == NULL) return peer_answer(1);
  peer_ok("%u", (*window)->rkey);
}

static void make_srq(const struct peer_words* words) {
  struct ibv_srq_init_attr init = {.attr = {.max_wr = PEER_QUEUE, .max_sge = PEER_ELEMENTS}};
  struct ibv_srq** srq = &peer_srq[peer_object(words, "n")];
  *srq = ibv_create_srq(peer_pd(words), &init);
  peer_answer(*srq == NULL);
}

static void limit_srq(const struct peer_words* words) {
  struct ibv_srq_attr attr = {.srq_limit = (uint32_t)peer_number(words, "limit", 0)};
  errno = ibv_modify_srq(peer_srq[peer_object(words, "n")], &attr, IBV_SRQ_LIMIT);
  peer_answer(errno != 0);
}

struct ibv_qp_init_attr peer_qp_init(const struct peer_words* words) {
  struct ibv_qp_init_attr init = {.send_cq = peer_cq,
                                  .recv_cq = peer_cq,
                                  .cap = {.max_send_wr = PEER_QUEUE,
                                          .max_recv_wr = PEER_QUEUE,
                                          .max_send_sge = PEER_ELEMENTS,
                                          .max_recv_sge = PEER_ELEMENTS},
                                  .qp_type = peer_qp_type(words)};
  if (peer_text(words, "srq", NULL) != NULL) init.srq = peer_srq[peer_object(words, "srq")];
  return init;
}

static void make_qp(const struct peer_words* words) {
  struct ibv_qp_init_attr init = peer_qp_init(words);
  struct ibv_qp** qp = &peer_qp[peer_object(words, "n")];
  const uint64_t ops =
      (peer_number(words, "atomic_write", 0) != 0 ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0) |
      (peer_number(words, "flush", 0) != 0 ? PEER_WITH_FLUSH : 0);
  if (ops != 0) {
    struct ibv_qp_init_attr_ex extended = {
        .send_cq = init.send_cq,
        .recv_cq = init.recv_cq,
        .cap = init.cap,
        .qp_type = init.qp_type,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = peer_pd(words),
        .send_ops_flags = ops | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE};
    *qp = ibv_create_qp_ex(peer_context, &extended);
  } else {
    *qp = ibv_create_qp(peer_pd(words), &init);
  }
  if (*qp == NULL) return peer_answer(1);
  peer_ok("%u", (*qp)->qp_num);
}

static void modify_qp(const struct peer_words* words, enum ibv_qp_state state) {
  struct ibv_qp_attr attr;
  const int mask = peer_qp_attr(words, state, &attr);
  if (state == IBV_QPS_RTR) attr.ah_attr = path_to(peer_text(words, "to", ""));
  /* The kernel asks for the neighbour's address once; on a bad wire that may be lost. */
  for (int tries = 0; tries < kTries; ++tries) {
    errno = ibv_modify_qp(peer_qp[peer_object(words, "n")], &attr, mask);
    if (errno != ETIMEDOUT) break;
  }
  peer_answer(errno != 0);
}

static void to_init(const struct peer_words* words) { modify_qp(words, IBV_QPS_INIT); }
static void to_rtr(const struct peer_words* words) { modify_qp(words, IBV_QPS_RTR); }
static void to_rts(const struct peer_words* words) { modify_qp(words, IBV_QPS_RTS); }

static void query_state(const struct peer_words* words) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  errno = ibv_query_qp(peer_qp[peer_object(words, "n")], &attr, IBV_QP_STATE, &init);
  if (errno != 0) return peer_answer(1);
  peer_ok("%d", attr.qp_state);
}

static void make_ah(const struct peer_words* words) {
  struct ibv_ah_attr attr = path_to(peer_text(words, "to", ""));
  struct ibv_ah** ah = &peer_ah[peer_object(words, "n")];
  for (int tries = 0; tries < kTries; ++tries) {
    *ah = ibv_create_ah(peer_pd(words), &attr);
    if (*ah != NULL || errno != ETIMEDOUT) break;
  }
  peer_answer(*ah == NULL);
}

/* attach n= group=, detach n= group=: of a UD queue pair */
static void attach(const struct peer_words* words) {
  const union ibv_gid group = gid_of(peer_text(words, "group", ""));
  errno = ibv_attach_mcast(peer_qp[peer_object(words, "n")], &group, 0);
  peer_answer(errno != 0);
}

static void detach(const struct peer_words* words) {
  const union ibv_gid group = gid_of(peer_text(words, "group", ""));
  errno = ibv_detach_mcast(peer_qp[peer_object(words, "n")], &group, 0);
  peer_answer(errno != 0);
}

static uint32_t lkey_of(const struct peer_words* words) {
  struct ibv_mr* region = mr[peer_object(words, "mr")];
  return region == NULL ? 0 : region->lkey;
}

static void post_recv(const struct peer_words* words) {
  struct ibv_sge sge[PEER_ELEMENTS];
  struct ibv_recv_wr wr, *bad;
  peer_recv_request(words, memory, lkey_of(words), &wr, sge);
  errno = peer_text(words, "srq", NULL) != NULL
              ? ibv_post_srq_recv(peer_srq[peer_object(words, "srq")], &wr, &bad)
              : ibv_post_recv(peer_qp[peer_object(words, "qp")], &wr, &bad);
  peer_answer(errno != 0);
}

/* ibv_post_send() has no FLUSH, and the headers of rdma-core 44 end ibv_qp_ex before wr_flush. The
 * queue pair must be made with flush=1. */
static int post_flush(int qp, const struct ibv_send_wr* wr) {
  void (*flush)(struct ibv_qp_ex*, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
  const size_t offset = offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void));
  struct ibv_qp_ex* extended = ibv_qp_to_qp_ex(peer_qp[qp]);
  if (extended == NULL) return EOPNOTSUPP;
  memcpy(&flush, (const char*)extended + offset, sizeof flush);
  ibv_wr_start(extended);
  extended->wr_id = wr->wr_id;
  extended->wr_flags = IBV_SEND_SIGNALED;
  const uint32_t feth = ntohl(wr->imm_data);
  flush(extended, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, peer_flush_bytes(wr),
        (uint8_t)(feth & 0x0F), (uint8_t)(feth >> 4));
  return ibv_wr_complete(extended);
}

static int post(int qp, struct ibv_send_wr* wr) {
  struct ibv_send_wr* bad;
  if (wr->opcode == PEER_WR_FLUSH) return post_flush(qp, wr);
  return ibv_post_send(peer_qp[qp], wr, &bad);
}

/* With op=bind: window= of region mr=, at= len= of memory, access=; the new key. */
static void bind_window(const struct peer_words* words, struct ibv_send_wr* wr) {
  struct ibv_mw* window = mw[peer_object(words, "window")];
  wr->num_sge = 0;
  wr->bind_mw.mw = window;
  wr->bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wr->bind_mw.bind_info.mr = mr[peer_object(words, "mr")];
  wr->bind_mw.bind_info.addr = (uintptr_t)memory + peer_number(words, "at", 0);
  wr->bind_mw.bind_info.length = peer_number(words, "len", 0);
  wr->bind_mw.bind_info.mw_access_flags = (unsigned)peer_number(words, "access", 14);
  errno = post(peer_object(words, "qp"), wr);
  if (errno != 0) return peer_answer(1);
  window->rkey = wr->bind_mw.rkey;
  peer_ok("%u", window->rkey);
}

/* ibv_post_send() has no ATOMIC WRITE. The queue pair must be made with atomic_write=1. */
static int post_atomic_write(int qp, const struct ibv_send_wr* wr) {
  struct ibv_qp_ex* extended = ibv_qp_to_qp_ex(peer_qp[qp]);
  if (extended == NULL) return EOPNOTSUPP;
  ibv_wr_start(extended);
  extended->wr_id = wr->wr_id;
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_write(extended, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
                      (const void*)(uintptr_t)wr->sg_list->addr);
  return ibv_wr_complete(extended);
}

static void post_send(const struct peer_words* words) {
  struct ibv_sge sge[PEER_ELEMENTS];
  struct ibv_send_wr wr;
  if (peer_send_request(words, memory, lkey_of(words), &wr, sge) != 0) {
    return peer_error("no such op");
  }
  if (wr.opcode == IBV_WR_BIND_MW) return bind_window(words, &wr);
  if (wr.opcode == IBV_WR_ATOMIC_WRITE) {
    errno = post_atomic_write(peer_object(words, "qp"), &wr);
    return peer_answer(errno != 0);
  }
  if (peer_text(words, "ah", NULL) != NULL) wr.wr.ud.ah = peer_ah[peer_object(words, "ah")];
  errno = post(peer_object(words, "qp"), &wr);
  peer_answer(errno != 0);
}

static int poll_cq(int count, struct ibv_wc* wc) {
  const int found = ibv_poll_cq(peer_cq, count, wc);
  return found < 0 ? 0 : found;
}

/* async type= ms=: whether an asynchronous event of this type (enum ibv_event_type) comes; others
 * are passed over. */
static void async_event(const struct peer_words* words) {
  struct ibv_async_event event;
  for (uint64_t left = peer_number(words, "ms", 0);; --left) {
    if (ibv_get_async_event(peer_context, &event) == 0) {
      ibv_ack_async_event(&event);
      if (event.event_type == peer_number(words, "type", 0)) return peer_ok("came");
      continue;
    }
    if (left == 0) return peer_ok("none");
    usleep(1000);
  }
}

static const struct peer_command kCommands[] = {
    {"mr", register_memory},   {"dereg", deregister_memory},
    {"mw", make_window},       {"srq", make_srq},
    {"srqlimit", limit_srq},   {"qp", make_qp},
    {"init", to_init},         {"rtr", to_rtr},
    {"rts", to_rts},           {"state", query_state},
    {"ah", make_ah},           {"recv", post_recv},
    {"attach", attach},        {"detach", detach},
    {"send", post_send},       {"async", async_event},
    {"id", peer_make_id},      {"listen", peer_listen},
    {"resolve", peer_resolve}, {"cmqp", peer_make_cm_qp},
    {"connect", peer_connect}, {"accept", peer_accept},
    {"reject", peer_reject},   {"disconnect", peer_disconnect},
    {"event", peer_event},     {NULL, NULL}};

/* In the order in which one hangs on the other; a window that is bound holds its queue pair, on
 * whose end rxe would wait a minute. */
static void take_down(void) {
  for (int i = 0; i < PEER_OBJECTS; ++i) {
    if (mw[i] != NULL) ibv_dealloc_mw(mw[i]);
  }
  peer_close_ids(); /* and their queue pairs */
  for (int i = 0; i < PEER_OBJECTS; ++i) {
    if (peer_qp[i] != NULL) ibv_destroy_qp(peer_qp[i]);
    if (peer_ah[i] != NULL) ibv_destroy_ah(peer_ah[i]);
  }
  for (int i = 0; i < PEER_OBJECTS; ++i) {
    if (mr[i] != NULL) ibv_dereg_mr(mr[i]);
    if (peer_srq[i] != NULL) ibv_destroy_srq(peer_srq[i]);
  }
  ibv_destroy_cq(peer_cq);
  for (int i = 0; i < 2; ++i) ibv_dealloc_pd(pd[i]);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  own_gid = gid_of(argv[2]);
  int devices = 0;
  /* The same context as the connection manager's, so that its queue pairs fit to our objects. */
  struct ibv_context** list = rdma_get_devices(&devices);
  memory = aligned_alloc(4096, PEER_REGION);
  if (list == NULL || devices == 0 || memory == NULL) {
    peer_error("no device");
    return 1;
  }
  memset(memory, 0, PEER_REGION);
  peer_context = list[0];
  fcntl(peer_context->async_fd, F_SETFL, fcntl(peer_context->async_fd, F_GETFL) | O_NONBLOCK);
  for (int i = 0; i < 2; ++i) pd[i] = ibv_alloc_pd(peer_context);
  peer_cq = ibv_create_cq(peer_context, PEER_COMPLETIONS, NULL, NULL, 0);
  if (pd[0] == NULL || pd[1] == NULL || peer_cq == NULL || peer_open_channel() != 0) {
    peer_answer(1);
    return 1;
  }
  const struct peer_queues queues = {.poll = poll_cq, .post = post, .lkey = lkey_of};
  const int end = peer_serve(argv[1], memory, kCommands, &queues);
  take_down();
  return end;
}
