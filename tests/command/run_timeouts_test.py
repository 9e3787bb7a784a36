"""Tests `pollux run` with a program that has short timeouts, like Valkey's client."""

import shutil
import subprocess
import sys

from tests.command.run_test import RunTest

PORT = "7481"
BUSY = 4

# With an address the program connects to it, with timeouts of 100 ms for resolving and 1 s for
# connecting; without one it serves all clients.
PROGRAM = """#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

static struct rdma_event_channel* channel;
static struct rdma_cm_id* last;

static int await(enum rdma_cm_event_type type, int timeout_ms) {
  struct pollfd wanted = {.events = POLLIN};
  struct rdma_cm_event* event;
  int found;
  wanted.fd = channel->fd;
  if (poll(&wanted, 1, timeout_ms) != 1 || rdma_get_cm_event(channel, &event) != 0) {
    fprintf(stderr, "no %s\\n", rdma_event_str(type));
    return 0;
  }
  found = event->event == type;
  if (!found) fprintf(stderr, "%s %d\\n", rdma_event_str(event->event), event->status);
  last = event->id;
  rdma_ack_cm_event(event);
  return found;
}

static int make_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr init = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  return rdma_create_qp(id, NULL, &init) == 0;
}

static int ask(struct rdma_cm_id* id, struct sockaddr* server) {
  return rdma_resolve_addr(id, NULL, server, 100) == 0 &&
         await(RDMA_CM_EVENT_ADDR_RESOLVED, -1) && rdma_resolve_route(id, 100) == 0 &&
         await(RDMA_CM_EVENT_ROUTE_RESOLVED, -1) && make_qp(id) && rdma_connect(id, NULL) == 0 &&
         await(RDMA_CM_EVENT_ESTABLISHED, 1000) && rdma_disconnect(id) == 0;
}

static int serve(struct rdma_cm_id* listener, struct sockaddr* any) {
  if (rdma_bind_addr(listener, any) != 0 || rdma_listen(listener, 1) != 0) return 0;
  while (await(RDMA_CM_EVENT_CONNECT_REQUEST, -1)) {
    if (!make_qp(last) || rdma_accept(last, NULL) != 0) return 0;
    if (!await(RDMA_CM_EVENT_ESTABLISHED, -1) || !await(RDMA_CM_EVENT_DISCONNECTED, -1)) return 0;
    rdma_destroy_qp(last);
    if (rdma_destroy_id(last) != 0) return 0;
  }
  return 0;
}

int main(int argc, char** argv) {
  struct sockaddr_in server = {.sin_family = AF_INET};
  struct rdma_cm_id* id;
  server.sin_port = htons(atoi(argv[1]));
  if (argc > 2) inet_pton(AF_INET, argv[2], &server.sin_addr);
  channel = rdma_create_event_channel();
  if (channel == NULL || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0) return 2;
  return (argc > 2 ? ask : serve)(id, (struct sockaddr*)&server) ? 0 : 1;
}
"""


class ShortTimeoutsTest(RunTest):
    clients, clients_beside_busy_processes = 25, 8

    def setUp(self):
        super().setUp()
        if shutil.which("gcc") is None:
            self.skipTest("needs the command gcc")
        source, self.program = self.directory / "program.c", self.directory / "program"
        source.write_text(PROGRAM)
        subprocess.run(["gcc", source, "-o", self.program, "-lrdmacm", "-libverbs"], check=True)

    def connect(self, times):
        server = self.start_server(self.program, PORT)
        for number in range(times):
            client = self.finish_program(self.client_host, self.program, PORT, self.address)
            self.assertEqual(client.process.returncode, 0,
                             f"client {number}: {client.stdout}{client.stderr}\n{server.stderr}")

    def test_short_timeouts_suffice_for_first_calls(self):
        self.connect(self.clients)

    def test_short_timeouts_suffice_beside_busy_processes(self):
        for _ in range(BUSY):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.addCleanup(busy.wait)
            self.addCleanup(busy.kill)
        self.connect(self.clients_beside_busy_processes)
