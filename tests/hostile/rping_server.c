/* A server for rdma-core's `rping -c` that any number of clients may use at once. However a
 * connection ends, the server releases what it has for it. `rping -s -P` of rdma-core 44 crashes if
 * two requests arrive together, and exits if a client sends no RTU.
 *
 * For each ping, the client sends the address of its data, which the server reads, and then the
 * address of a buffer, to which the server writes the data.
 *
 * The connections share a completion channel, so the program needs no descriptors for them. */
#include <endian.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMaxBytes = 4096, kMaxRequests = 2, kBacklog = 64, kCompletions = 16384 };

struct buffer {
  uint64_t address;
  uint32_t rkey, length;
};

struct connection {
  struct rdma_cm_id* id;
  struct ibv_mr* mr; /* of this structure */
  int has_read;
  struct buffer received, go_ahead; /* of the latter only the arrival matters */
  char data[kMaxBytes];
};

static struct ibv_pd* pd;
static struct ibv_cq* cq;

static int receive(struct connection* one) {
  struct ibv_sge sge = {(uintptr_t)&one->received, sizeof one->received, one->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = (uintptr_t)one, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad;
  return ibv_post_recv(one->id->qp, &wr, &bad);
}

static int send_request(struct connection* one, enum ibv_wr_opcode opcode, void* data,
                        uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)data, length, one->mr->lkey};
  struct ibv_send_wr wr = {
      .wr_id = (uintptr_t)one, .sg_list = &sge, .num_sge = 1, .opcode = opcode};
  struct ibv_send_wr* bad;
  wr.wr.rdma.remote_addr = be64toh(one->received.address);
  wr.wr.rdma.rkey = be32toh(one->received.rkey);
  return ibv_post_send(one->id->qp, &wr, &bad);
}

static int advance(struct connection* one, const struct ibv_wc* wc) {
  if (wc->status != IBV_WC_SUCCESS) return -1;
  if (wc->opcode == IBV_WC_SEND) return 0;
  if (wc->opcode != IBV_WC_RECV) {
    return send_request(one, IBV_WR_SEND, &one->go_ahead, sizeof one->go_ahead);
  }
  one->has_read = !one->has_read;
  /* The library checks the length. */
  return send_request(one, one->has_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, one->data,
                      be32toh(one->received.length)) != 0 ||
         receive(one) != 0;
}

static void handle_completions(void) {
  struct ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) > 0) {
    struct connection* one = (struct connection*)(uintptr_t)wc.wr_id;
    /* Its event DISCONNECTED comes later. Another failure changes nothing. */
    if (one->id->qp != NULL && advance(one, &wc) != 0) rdma_disconnect(one->id);
  }
}

static void release(struct connection* one) {
  if (one->id->qp != NULL) rdma_destroy_qp(one->id);
  handle_completions(); /* which name `one` */
  if (one->mr != NULL) ibv_dereg_mr(one->mr);
  rdma_destroy_id(one->id);
  free(one);
}

static void serve(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr attr = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {kMaxRequests, kMaxRequests, 1, 1, 0},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1,
  };
  struct connection* one = calloc(1, sizeof *one);
  if (one == NULL) abort();
  one->id = id;
  id->context = one;
  one->mr = ibv_reg_mr(pd, one, sizeof *one, IBV_ACCESS_LOCAL_WRITE);
  if (one->mr == NULL || rdma_create_qp(id, pd, &attr) != 0 || receive(one) != 0 ||
      rdma_accept(id, NULL) != 0) {
    perror("a request is not served");
    release(one);
  }
}

static void handle_cm_event(struct rdma_event_channel* channel) {
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(channel, &event) != 0) return;
  struct rdma_cm_id* const id = event->id;
  const enum rdma_cm_event_type type = event->event;
  rdma_ack_cm_event(event);
  switch (type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return serve(id);
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
      return release(id->context);
    default:
      return;
  }
}

static void check(int succeeded, const char* what) {
  if (succeeded) return;
  perror(what);
  exit(1);
}

int main(int argc, char** argv) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  struct rdma_cm_id* listener;
  if (argc != 2) return 2;
  any.sin_port = htons(atoi(argv[1]));
  struct rdma_event_channel* const cm_events = rdma_create_event_channel();
  check(cm_events != NULL && rdma_create_id(cm_events, &listener, NULL, RDMA_PS_TCP) == 0, "CM");
  check(rdma_bind_addr(listener, (struct sockaddr*)&any) == 0, "bind");
  struct ibv_context** const devices = rdma_get_devices(NULL);
  check(devices != NULL && devices[0] != NULL, "device");
  struct ibv_comp_channel* const completed = ibv_create_comp_channel(devices[0]);
  pd = ibv_alloc_pd(devices[0]);
  cq = ibv_create_cq(devices[0], kCompletions, NULL, completed, 0);
  check(pd != NULL && completed != NULL && cq != NULL && ibv_req_notify_cq(cq, 0) == 0, "verbs");
  check(rdma_listen(listener, kBacklog) == 0, "listen");
  struct pollfd ready[] = {{.fd = cm_events->fd, .events = POLLIN},
                           {.fd = completed->fd, .events = POLLIN}};
  while (poll(ready, 2, -1) > 0) {
    struct ibv_cq* which;
    void* context;
    if (ready[1].revents != 0 && ibv_get_cq_event(completed, &which, &context) == 0) {
      ibv_ack_cq_events(cq, 1);
      ibv_req_notify_cq(cq, 0);
      handle_completions();
    }
    if (ready[0].revents != 0) handle_cm_event(cm_events);
  }
  return 1;
}
