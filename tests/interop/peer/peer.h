/* The interface between the two parts of the guest's program: verbs (peer.c) and connections
 * (peer_cm.c). */
#ifndef POLLUX_TESTS_INTEROP_PEER_PEER_H_
#define POLLUX_TESTS_INTEROP_PEER_PEER_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "tests/interop/peer/words.h"

extern struct ibv_context* peer_context;
extern struct ibv_qp* peer_qp[PEER_OBJECTS];
extern struct ibv_ah* peer_ah[PEER_OBJECTS];

/* Answers `ok`, or `error` with the text of errno. */
void peer_answer(int failed);
struct ibv_pd* peer_pd(const struct peer_words* words);
struct ibv_qp_init_attr peer_qp_init(const struct peer_words* words);

int peer_open_channel(void); /* nonzero on error, which is in errno */
void peer_close_ids(void);
void peer_make_id(const struct peer_words* words);
void peer_listen(const struct peer_words* words);
void peer_resolve(const struct peer_words* words);
void peer_make_cm_qp(const struct peer_words* words);
void peer_connect(const struct peer_words* words);
void peer_accept(const struct peer_words* words);
void peer_reject(const struct peer_words* words);
void peer_disconnect(const struct peer_words* words);
void peer_event(const struct peer_words* words);

#endif /* POLLUX_TESTS_INTEROP_PEER_PEER_H_ */
