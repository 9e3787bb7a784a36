// Several queue pairs of several hosts on the same eight bytes, over a bad network: every atomic
// happens exactly once.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stack/engine/eal.h"
#include "tests/sim/connect.h"
#include "tests/sim/peer.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr int kClients = 3;
constexpr uint64_t kAdditions = 60;  // by each client
constexpr uint64_t kSwaps = 40;      // that each client brings about
constexpr uint64_t kDeadlineNs = 600 * Simulation::kSecond;

// Works on two words of the target: adds to the first, and increments the second by swaps that
// succeed only when nobody else was quicker.
class Contender : public engine::Poller {
 public:
  void Start(Node& node, uint64_t words, uint32_t rkey) {
    peer.Create(node);
    key_ =
        node.worker().RegMr(peer.pd, results_, sizeof results_, IBV_ACCESS_LOCAL_WRITE).value().key;
    words_ = words;
    rkey_ = rkey;
    node.worker().AddPoller(this);
  }
  ~Contender() override {
    if (peer.node != nullptr) peer.node->worker().RemovePoller(this);
  }

  bool Poll(uint64_t) override {
    bool worked = false;
    ibv_wc wc{};
    while (peer.cq->Poll(1, &wc) == 1) {
      failed |= wc.status != IBV_WC_SUCCESS;
      worked = true;
      busy_[wc.wr_id] = false;
      const uint64_t result = results_[wc.wr_id];
      if (wc.wr_id == 0) {
        found.push_back(result);
      } else if (result == seen_) {
        swapped.push_back(seen_++);
      } else {
        seen_ = result;
      }
    }
    if (failed) return worked;
    if (!busy_[0] && found.size() < kAdditions) {
      Post(0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
      worked = true;
    }
    if (!busy_[1] && swapped.size() < kSwaps) {
      Post(1, IBV_WR_ATOMIC_CMP_AND_SWP, seen_, seen_ + 1);
      worked = true;
    }
    return worked;
  }
  bool finished() const { return found.size() == kAdditions && swapped.size() == kSwaps; }

  Peer peer;
  bool failed = false;
  std::vector<uint64_t> found;    // by the additions, in order
  std::vector<uint64_t> swapped;  // what the swaps that succeeded replaced

 private:
  void Post(uint64_t word, ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap) {
    ibv_sge sge{reinterpret_cast<uint64_t>(&results_[word]), 8, key_};
    ibv_send_wr wr{};
    wr.wr_id = word;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic = {
        .remote_addr = words_ + 8 * word, .compare_add = compare_add, .swap = swap, .rkey = rkey_};
    failed |= peer.qp->PostSend(&wr, nullptr) != 0;
    busy_[word] = true;
  }

  uint64_t words_ = 0;
  uint32_t rkey_ = 0;
  uint32_t key_ = 0;
  uint64_t seen_ = 0;
  uint64_t results_[2] = {};
  bool busy_[2] = {};
};

void RunContention(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  alignas(8) uint64_t words[2] = {};
  Simulation simulation(seed, {.min_delay_ns = 2'000, .max_delay_ns = 30'000});
  std::vector<Node*> nodes;
  for (int i = 0; i <= kClients; ++i) nodes.push_back(&simulation.AddNode());
  for (int i = 1; i <= kClients; ++i) ASSERT_TRUE(FindEachOther(simulation, *nodes[0], *nodes[i]));
  {
    std::vector<std::unique_ptr<Contender>> clients;
    std::vector<Peer> servers(kClients);
    for (int i = 0; i < kClients; ++i) {
      servers[i].Create(*nodes[0]);
      // Each its own key for the same memory.
      const uint32_t key = nodes[0]
                               ->worker()
                               .RegMr(servers[i].pd, words, sizeof words,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
                               .value()
                               .key;
      clients.push_back(std::make_unique<Contender>());
      clients.back()->Start(*nodes[i + 1], reinterpret_cast<uint64_t>(words), key);
      servers[i].Connect(clients.back()->peer);
      clients.back()->peer.Connect(servers[i]);
    }
    simulation.fabric().SetConditions({.loss = 0.05,
                                       .duplication = 0.05,
                                       .reordering = 0.05,
                                       .min_delay_ns = 2'000,
                                       .max_delay_ns = 30'000,
                                       .reorder_delay_ns = 100'000});
    ASSERT_TRUE(simulation.RunUntil(
        [&] {
          return std::all_of(clients.begin(), clients.end(), [](const auto& client) {
            return client->failed || client->finished();
          });
        },
        simulation.now_ns() + kDeadlineNs));
    std::vector<uint64_t> found, swapped;
    for (const auto& client : clients) {
      ASSERT_FALSE(client->failed);
      EXPECT_TRUE(std::is_sorted(client->found.begin(), client->found.end()));
      found.insert(found.end(), client->found.begin(), client->found.end());
      swapped.insert(swapped.end(), client->swapped.begin(), client->swapped.end());
    }
    std::sort(found.begin(), found.end());
    std::sort(swapped.begin(), swapped.end());
    ASSERT_EQ(found.size(), kClients * kAdditions);
    ASSERT_EQ(swapped.size(), kClients * kSwaps);
    // Each value was found once: nothing was executed twice, nothing was left out.
    for (uint64_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i);
    for (uint64_t i = 0; i < swapped.size(); ++i) ASSERT_EQ(swapped[i], i);
    EXPECT_EQ(words[0], kClients * kAdditions);
    EXPECT_EQ(words[1], kClients * kSwaps);
    uint64_t duplicates = 0;
    duplicates += nodes[0]->worker().counters().duplicate_request;
    EXPECT_GT(duplicates, 0u) << "the network was too good to prove anything";
  }
  EXPECT_EQ(simulation.Leaks(), "");
}

TEST(AtomicSimTest, AtomicsStayAtomicOverALossyNetwork) {
  ASSERT_TRUE(engine::InitEal().ok());
  for (uint64_t seed = 1; seed <= 10; ++seed) RunContention(seed);
}

}  // namespace
}  // namespace pollux::sim
