/* Connections of the guest's verbs program. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/peer/peer.h"

/* The kernel may miss the neighbour's answer and look again only when its time is over. */
enum { kResolveMs = 1000, kResolveTries = 10 };

static struct rdma_event_channel* channel;
static struct rdma_cm_id* ids[PEER_OBJECTS];

int peer_open_channel(void) {
  channel = rdma_create_event_channel();
  if (channel == NULL) return -1;
  return fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

/* id n= ps= */
void peer_make_id(const struct peer_words* words) {
  peer_answer(rdma_create_id(channel, &ids[peer_object(words, "n")], NULL,
                             (enum rdma_port_space)peer_port_space(words)) != 0);
}

void peer_close_ids(void) {
  for (int i = 0; i < PEER_OBJECTS; ++i) {
    if (ids[i] == NULL) continue;
    for (int j = 0; j < PEER_OBJECTS; ++j) {
      if (ids[i]->qp != NULL && peer_qp[j] == ids[i]->qp) peer_qp[j] = NULL;
    }
    if (ids[i]->qp != NULL) rdma_destroy_qp(ids[i]);
    rdma_destroy_id(ids[i]);
  }
}

/* listen id= port= */
void peer_listen(const struct peer_words* words) {
  struct sockaddr_in any = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)peer_number(words, "port", 0))};
  struct rdma_cm_id* id = ids[peer_object(words, "id")];
  peer_answer(rdma_bind_addr(id, (struct sockaddr*)&any) != 0 || rdma_listen(id, 16) != 0);
}

/* Waits for the event that ends a step; -1: another, or none. */
static int step(enum rdma_cm_event_type wanted) {
  struct rdma_cm_event* event;
  for (int left = 2 * kResolveMs; left > 0; --left) {
    if (rdma_get_cm_event(channel, &event) == 0) {
      const enum rdma_cm_event_type found = event->event;
      rdma_ack_cm_event(event);
      errno = EHOSTUNREACH;
      return found == wanted ? 0 : -1;
    }
    usleep(1000);
  }
  errno = ETIMEDOUT;
  return -1;
}

static int resolve(struct rdma_cm_id* id, struct sockaddr* peer) {
  for (int tries = 0; tries < kResolveTries; ++tries) {
    if (rdma_resolve_addr(id, NULL, peer, kResolveMs) != 0) return -1;
    if (step(RDMA_CM_EVENT_ADDR_RESOLVED) != 0) continue;
    if (rdma_resolve_route(id, kResolveMs) != 0) return -1;
    return step(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }
  return -1;
}

/* resolve id= to= port=: address and route */
void peer_resolve(const struct peer_words* words) {
  struct sockaddr_in peer = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)peer_number(words, "port", 0))};
  inet_pton(AF_INET, peer_text(words, "to", ""), &peer.sin_addr);
  peer_answer(resolve(ids[peer_object(words, "id")], (struct sockaddr*)&peer) != 0);
}

/* cmqp n= id= type= srq= pd= */
void peer_make_cm_qp(const struct peer_words* words) {
  struct ibv_qp_init_attr init = peer_qp_init(words);
  struct rdma_cm_id* id = ids[peer_object(words, "id")];
  if (rdma_create_qp(id, peer_pd(words), &init) != 0) return peer_answer(1);
  peer_qp[peer_object(words, "n")] = id->qp;
  peer_ok("%u", id->qp->qp_num);
}

static struct rdma_conn_param param_of(const struct peer_words* words, uint8_t* data) {
  struct rdma_conn_param param = {
      .private_data = data,
      .private_data_len = (uint8_t)peer_bytes(words, "data", data, PEER_DATA - 1),
      .responder_resources = (uint8_t)peer_number(words, "rd", 4),
      .initiator_depth = (uint8_t)peer_number(words, "rd", 4),
      .retry_count = (uint8_t)peer_number(words, "retry", 7),
      .rnr_retry_count = (uint8_t)peer_number(words, "rnr", 7)};
  const struct rdma_cm_id* id = ids[peer_object(words, "id")];
  if (id->qp != NULL) param.qp_num = id->qp->qp_num;
  return param;
}

/* connect id= data= rd= retry= rnr= */
void peer_connect(const struct peer_words* words) {
  uint8_t data[PEER_DATA];
  struct rdma_conn_param param = param_of(words, data);
  peer_answer(rdma_connect(ids[peer_object(words, "id")], &param) != 0);
}

/* accept, as connect */
void peer_accept(const struct peer_words* words) {
  uint8_t data[PEER_DATA];
  struct rdma_conn_param param = param_of(words, data);
  peer_answer(rdma_accept(ids[peer_object(words, "id")], &param) != 0);
}

/* reject id= data= */
void peer_reject(const struct peer_words* words) {
  uint8_t data[PEER_DATA];
  const size_t length = peer_bytes(words, "data", data, PEER_DATA - 1);
  peer_answer(rdma_reject(ids[peer_object(words, "id")], data, (uint8_t)length) != 0);
}

void peer_disconnect(const struct peer_words* words) {
  peer_answer(rdma_disconnect(ids[peer_object(words, "id")]) != 0);
}

static int number_of(const struct rdma_cm_id* id) {
  for (int i = 0; i < PEER_OBJECTS; ++i) {
    if (ids[i] == id) return i;
  }
  return -1;
}

static int new_number(struct rdma_cm_id* id) {
  for (int i = 0; i < PEER_OBJECTS; ++i) {
    if (ids[i] == NULL) {
      ids[i] = id;
      return i;
    }
  }
  return -1;
}

/* With the answer of SIDR comes whom to send to: address handle of the identifier's number. */
static void print_datagram_peer(const struct rdma_cm_event* event) {
  struct ibv_ah_attr attr = event->param.ud.ah_attr;
  struct ibv_pd* pd = event->id->pd;
  const int number = number_of(event->id);
  if (number >= 0 && pd != NULL) peer_ah[number] = ibv_create_ah(pd, &attr);
  printf("%u/%u", event->param.ud.qp_num, event->param.ud.qkey);
}

static void print_event(const struct rdma_cm_event* event) {
  const int is_new = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  printf("ok %s %d %d ", rdma_event_str(event->event), event->status,
         is_new ? new_number(event->id) : number_of(event->id));
  const int is_ud = event->id->ps == RDMA_PS_UDP;
  if (is_ud && event->event == RDMA_CM_EVENT_ESTABLISHED) {
    print_datagram_peer(event);
  } else {
    printf("-");
  }
  const uint8_t* data = is_ud ? event->param.ud.private_data : event->param.conn.private_data;
  const uint8_t length =
      is_ud ? event->param.ud.private_data_len : event->param.conn.private_data_len;
  printf(" -");
  for (uint8_t i = 0; data != NULL && i < length; ++i) printf("%02x", data[i]);
  printf("\n");
  fflush(stdout);
}

/* event ms=: NAME STATUS ID QPN/QKEY -PRIVATE_DATA, or none. */
void peer_event(const struct peer_words* words) {
  struct rdma_cm_event* event;
  for (uint64_t left = peer_number(words, "ms", 0);; --left) {
    if (rdma_get_cm_event(channel, &event) == 0) {
      print_event(event);
      /* The kernel answers a DREQ only when it is told to. */
      if (event->event == RDMA_CM_EVENT_DISCONNECTED) rdma_disconnect(event->id);
      rdma_ack_cm_event(event);
      return;
    }
    if (left == 0) return peer_ok("none");
    usleep(1000);
  }
}
