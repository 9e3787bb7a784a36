// A host that does nothing but ask for connections, to a listener whose application is slow.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "cm/gsi/gsi.h"
#include "cm/node_fixture.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/mad.h"
#include "cm/wire/service_id.h"

namespace pollux::cm {
namespace {

constexpr int kRequests = 20'000;
constexpr ManagerConfig kBounds = {.max_ids = 600, .max_pending_requests = 500};

// Every request is another connection of another machine, as far as one can tell from it.
class Flooder : public engine::Poller {
 public:
  Flooder(sim::Node* node, const Gid& victim) : node_(node), victim_(victim) {
    gsi_ = *Gsi::Create(&node->worker(), &counters_);
    EXPECT_TRUE(gsi_->StartResolve(0, victim).ok());
    node->worker().AddPoller(this);
  }
  ~Flooder() override { node_->worker().RemovePoller(this); }
  int sent() const { return sent_; }
  int answers() const { return answers_; }

 private:
  bool Poll(uint64_t now_ns) override {
    bool busy =
        gsi_->Poll([this](const Gid&, const Gid&, std::span<const uint8_t>) { ++answers_; });
    // A burst at every moment, so that time goes on.
    if (now_ns == last_ns_ || !gsi_->IsResolved(0, victim_)) return busy;
    last_ns_ = now_ns;
    for (int burst = 0; burst < 2 && sent_ < kRequests && Send(); ++burst) ++sent_;
    return busy;
  }
  bool Send() {
    Req req;
    req.local_comm_id = static_cast<uint32_t>(sent_ + 1);
    req.local_ca_guid = random_.Next64();
    req.local_qpn = 2 + random_.Next32() % 0xFFFF00;
    req.service_id = ServiceId{RDMA_PS_TCP, kPort}.ToWire();
    req.path_mtu = IBV_MTU_1024;
    req.primary.local_gid = node_->gid();
    req.primary.remote_gid = victim_;
    const CmaHeader cma{
        .version = 0, .source_port = 1, .source = node_->gid(), .destination = victim_};
    cma.Emit(std::span(req.private_data).first<kCmaHeaderBytes>());
    MadBuffer mad;
    EmitMad({}, req, mad);
    return gsi_->Send(0, victim_, mad);
  }

  sim::Node* node_;
  Gid victim_;
  Counters counters_;
  std::unique_ptr<Gsi> gsi_;
  Random random_{5};
  uint64_t last_ns_ = 0;
  int sent_ = 0;
  int answers_ = 0;
};

TEST_F(EndToEndTest, AFloodIsBoundedAndDoesNotDisturbOtherConnections) {
  Start(1, {}, kBounds);
  client->StartConnect(server->address);
  ASSERT_TRUE(RunUntilBothSaw(RDMA_CM_EVENT_ESTABLISHED));
  std::vector<Id*> asked;
  server->manager->SetHandler(server->listener, [&](const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) asked.push_back(event.id);
  });
  {
    Flooder flooder(&world->AddNode(), server->address);
    // Message after message, as long as the flood goes on.
    int messages = 0;
    for (; flooder.sent() < kRequests; ++messages) {
      client->PostSend("ping");
      server->PostSend("pong");
      int sent = 0;
      const auto poll = [&](NodeHost& host) {
        ibv_wc wc{};
        while (host.cq->Poll(1, &wc) == 1) {
          EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
          if ((wc.opcode & IBV_WC_RECV) != 0) {
            host.PostReceive();
          } else {
            ++sent;
          }
        }
      };
      ASSERT_TRUE(RunUntil([&] {
        poll(*client);
        poll(*server);
        return sent == 2;
      }));
    }
    EXPECT_GT(messages, 100);
    EXPECT_EQ(client->worker->counters().retransmitted(), 0u);
    world->RunFor(kSecond / 100);
    const Counters& counters = server->manager->counters();
    EXPECT_EQ(asked.size(), kBounds.max_pending_requests);
    EXPECT_EQ(counters.drop(MadDrop::kBacklogFull), kRequests - asked.size());
    EXPECT_EQ(flooder.answers(), 0);  // nobody's traffic is multiplied
    for (Id* id : asked) server->manager->DestroyId(id);
    world->RunFor(kSecond / 100);
    EXPECT_GT(flooder.answers(), 0);
  }
  // As before.
  server->manager->SetHandler(server->listener, server->Accepting());
  ASSERT_TRUE(client->manager->Disconnect(client->id).ok());
  ASSERT_TRUE(RunUntilBothSaw(RDMA_CM_EVENT_DISCONNECTED));
  client->Release();
  server->Release();
  OneConnection(true);
  Stop();
}

}  // namespace
}  // namespace pollux::cm
