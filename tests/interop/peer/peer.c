/* A verbs program for the guest: runs the operations it is told over one reliable connection and
 * prints what completed. tests/interop/pollux_peer.cc is its counterpart; tests/interop/verbs.py
 * knows what both must print. */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/peer/script.h"

static void die(const char* what) {
  printf("failed %s: %s\n", what, strerror(errno));
  exit(1);
}

static struct peer_script script;
static struct rdma_cm_id* id;
static struct ibv_mr* region;
static uint8_t* memory;

static void make_qp(void) {
  struct ibv_qp_init_attr init = {.cap = {.max_send_wr = PEER_QUEUE,
                                          .max_recv_wr = PEER_QUEUE,
                                          .max_send_sge = PEER_ELEMENTS,
                                          .max_recv_sge = PEER_ELEMENTS},
                                  .qp_type = IBV_QPT_RC,
                                  .sq_sig_all = 1};
  if (rdma_create_qp(id, NULL, &init) != 0) die("rdma_create_qp");
  region = ibv_reg_mr(id->pd, memory, PEER_REGION, script.access);
  if (region == NULL) die("ibv_reg_mr");
  for (int i = 0; i < script.receives; ++i) {
    struct ibv_sge sge = {.addr = (uintptr_t)memory + peer_receive_at(&script, i),
                          .length = script.receive[i],
                          .lkey = region->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(id->qp, &wr, &bad) != 0) die("ibv_post_recv");
  }
}

static void run_op(int number, const struct peer_op* op, const struct peer_memory* remote) {
  struct ibv_sge sge[PEER_ELEMENTS];
  struct ibv_send_wr wr = {.wr_id = (uint64_t)number, .sg_list = sge}, *bad;
  peer_fill_request(&script, number, (uintptr_t)memory, region->lkey, remote, &wr, sge);
  if (ibv_post_send(id->qp, &wr, &bad) != 0) die("ibv_post_send");
  struct ibv_wc wc;
  int found;
  while ((found = ibv_poll_cq(id->send_cq, 1, &wc)) == 0) usleep(1000);
  if (found < 0) die("ibv_poll_cq");
  printf("op %d %s %d\n", number, op->name, wc.status);
}

static void print_receives(void) {
  struct ibv_wc wc;
  while (ibv_poll_cq(id->recv_cq, 1, &wc) > 0) {
    /* The rest of the queue, flushed: both sides leave it out. */
    if (wc.status == IBV_WC_WR_FLUSH_ERR) continue;
    printf("receive %d %d %u %s %08x\n", (int)wc.wr_id, wc.status,
           wc.status == IBV_WC_SUCCESS ? wc.byte_len : 0,
           wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) ? "imm" : "-",
           wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) ? ntohl(wc.imm_data) : 0);
  }
}

static struct rdma_conn_param connection_param(uint8_t* private_data) {
  peer_put_memory((uintptr_t)memory, region->rkey, private_data);
  struct rdma_conn_param param = {.private_data = private_data,
                                  .private_data_len = PEER_PRIVATE,
                                  .responder_resources = 4,
                                  .initiator_depth = 4,
                                  .retry_count = 7,
                                  .rnr_retry_count = script.rnr_retry};
  return param;
}

static void be_active(void) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
  if (rdma_getaddrinfo(script.address, script.service, &hints, &found) != 0) die("address");
  if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0) die("rdma_create_id");
  if (rdma_resolve_addr(id, NULL, found->ai_dst_addr, 10000) != 0) die("rdma_resolve_addr");
  if (rdma_resolve_route(id, 10000) != 0) die("rdma_resolve_route");
  make_qp();
  uint8_t mine[PEER_PRIVATE];
  struct rdma_conn_param param = connection_param(mine);
  if (rdma_connect(id, &param) != 0) die("rdma_connect");
  struct peer_memory remote = peer_get_memory(id->event->param.conn.private_data);
  for (int i = 0; i < script.ops; ++i) run_op(i, &script.op[i], &remote);
  rdma_disconnect(id);
}

static void be_passive(void) {
  struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *found;
  struct rdma_cm_id* listener;
  if (rdma_getaddrinfo(NULL, script.service, &hints, &found) != 0) die("address");
  if (rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) != 0) die("rdma_create_id");
  if (rdma_bind_addr(listener, found->ai_src_addr) != 0) die("rdma_bind_addr");
  if (rdma_listen(listener, 1) != 0) die("rdma_listen");
  printf("listening\n");
  fflush(stdout);
  if (rdma_get_request(listener, &id) != 0) die("rdma_get_request");
  make_qp();
  uint8_t mine[PEER_PRIVATE];
  struct rdma_conn_param param = connection_param(mine);
  if (rdma_accept(id, &param) != 0) die("rdma_accept");
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(id->channel, &event) != 0) die("rdma_get_cm_event");
  printf("ended %s\n", rdma_event_str(event->event));
  rdma_ack_cm_event(event);
  rdma_disconnect(id);
}

int main(int argc, char** argv) {
  if (peer_parse(argc, argv, &script) != 0) return 2;
  memory = aligned_alloc(4096, PEER_REGION);
  if (memory == NULL) die("memory");
  peer_fill_memory(&script, memory);
  if (script.address != NULL) {
    be_active();
  } else {
    be_passive();
  }
  print_receives();
  printf("memory %016llx\n", (unsigned long long)peer_digest(memory));
  return 0;
}
