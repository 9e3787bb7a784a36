/* Uses DPDK and verbs: starts its own EAL before ("eal") or after ("verbs") it opens the device,
   then passes 1,000 frames through its own port, and after each a SEND between two queue pairs. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 1000, BYTES = 64 };

#define CHECK(condition)                                    \
  if (!(condition)) {                                       \
    fprintf(stderr, "line %d: " #condition "\n", __LINE__); \
    return 1;                                               \
  }

static struct rte_mempool* pool;
static struct ibv_cq* cq;
static struct ibv_qp* qps[2];
static struct ibv_mr* mr;
static char memory[2 * BYTES];

static int other_core(void* argument) {
  (void)argument;
  return (int)rte_lcore_id();
}

static int has_nic_drivers(void) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    found |= strstr(line, "librte_net_i40e") != NULL;
  }
  return maps == NULL || fclose(maps) != 0 || found;
}

static int start_dpdk(void) {
  char cores[32];
  char* arguments[] = {"program",
                       "--no-huge",
                       "--no-shconf",
                       "-m",
                       "64",
                       "--no-pci",
                       "--lcores",
                       cores,
                       "--file-prefix",
                       "program",
                       "--vdev=net_ring0",
                       "--log-level=4"};
  const struct rte_eth_conf conf = {0};
  unsigned lcore;
  snprintf(cores, sizeof cores, "0@%d,1@%d", sched_getcpu(), sched_getcpu());
  CHECK(rte_eal_init(sizeof arguments / sizeof arguments[0], arguments) > 0);
  pool = rte_pktmbuf_pool_create("program", 511, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  CHECK(pool != NULL);
  CHECK(rte_eth_dev_count_avail() == 1);
  CHECK(rte_eth_dev_configure(0, 1, 1, &conf) == 0);
  CHECK(rte_eth_rx_queue_setup(0, 0, 64, 0, NULL, pool) == 0);
  CHECK(rte_eth_tx_queue_setup(0, 0, 64, 0, NULL) == 0);
  CHECK(rte_eth_dev_start(0) == 0);
  RTE_LCORE_FOREACH_WORKER(lcore) {
    CHECK(rte_eal_remote_launch(other_core, NULL, lcore) == 0);
    CHECK(rte_eal_wait_lcore(lcore) == (int)lcore);
  }
  return 0;
}

static int start_verbs(void) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  CHECK(count == 1);
  struct ibv_context* context = ibv_open_device(list[0]);
  CHECK(context != NULL);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  CHECK(pd != NULL);
  mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  CHECK(mr != NULL);
  cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  CHECK(cq != NULL);
  union ibv_gid gid;
  CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_init_attr init = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {4, 4, 1, 1, 0},
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1};
    qps[i] = ibv_create_qp(pd, &init);
    CHECK(qps[i] != NULL);
  }
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    CHECK(ibv_modify_qp(qps[i], &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = qps[1 - i]->qp_num,
        .max_dest_rd_atomic = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}};
    CHECK(ibv_modify_qp(qps[i], &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    CHECK(ibv_modify_qp(qps[i], &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  }
  return 0;
}

static int pass_frame(int round) {
  struct rte_mbuf* frame = rte_pktmbuf_alloc(pool);
  struct rte_mbuf* got = NULL;
  CHECK(frame != NULL);
  memset(rte_pktmbuf_append(frame, BYTES), round, BYTES);
  CHECK(rte_eth_tx_burst(0, 0, &frame, 1) == 1);
  CHECK(rte_eth_rx_burst(0, 0, &got, 1) == 1);
  CHECK(*rte_pktmbuf_mtod(got, char*) == (char)round);
  rte_pktmbuf_free(got);
  return 0;
}

static int pass_message(int round) {
  struct ibv_sge from = {(uintptr_t)memory, BYTES, mr->lkey};
  struct ibv_sge into = {(uintptr_t)memory + BYTES, BYTES, mr->lkey};
  struct ibv_recv_wr receive = {.sg_list = &into, .num_sge = 1};
  struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND};
  struct ibv_recv_wr* bad_receive;
  struct ibv_send_wr* bad_send;
  struct ibv_wc wc;
  memset(memory, round, BYTES);
  CHECK(ibv_post_recv(qps[1], &receive, &bad_receive) == 0);
  CHECK(ibv_post_send(qps[0], &send, &bad_send) == 0);
  for (int completed = 0; completed < 2;) {
    const int polled = ibv_poll_cq(cq, 1, &wc);
    CHECK(polled >= 0 && (polled == 0 || wc.status == IBV_WC_SUCCESS));
    completed += polled;
  }
  CHECK(memcmp(memory, memory + BYTES, BYTES) == 0);
  return 0;
}

int main(int argc, char** argv) {
  const int dpdk_first = argc == 2 && strcmp(argv[1], "eal") == 0;
  if (dpdk_first && start_dpdk() != 0) return 1;
  if (start_verbs() != 0) return 1;
  if (!dpdk_first) {
    CHECK(!has_nic_drivers()); /* Pollux must not have loaded any */
    if (start_dpdk() != 0) return 1;
  }
  for (int round = 0; round < ROUNDS; ++round) {
    if (pass_frame(round) != 0 || pass_message(round) != 0) return 1;
  }
  if (rte_eal_cleanup() != 0) return 1;
  puts("all as expected");
  return 0;
}
