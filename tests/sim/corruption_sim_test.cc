// A network that flips bits, of headers as well: no packet with a wrong ICRC changes memory that an
// application can see as written. WRITEs, of UC too, and atomics are looked at after each turn of
// the host whose memory they name, SENDs and READs at each completion.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "stack/base/planted_fault.h"
#include "stack/base/random.h"
#include "stack/engine/eal.h"
#include "tests/sim/connect.h"
#include "tests/sim/peer.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {
namespace {

constexpr uint32_t kAreaBytes = 1 << 16;  // a flipped bit of an address often stays inside
constexpr uint32_t kMaxBytes = 2500;      // three packets
constexpr uint32_t kWords = 64;           // atomics are of the first
constexpr uint64_t kOperations = 300;
constexpr uint64_t kReceives = 4;
constexpr uint32_t kUcDepth = 4;
constexpr uint64_t kDeadlineNs = 600 * Simulation::kSecond;

// What is written to, read from or sent with this number there; never zero, and hardly ever what
// belongs elsewhere.
uint8_t Pattern(uint64_t number, uint64_t at) {
  const uint64_t mixed = (number * kAreaBytes + at + 1) * 0x9E3779B97F4A7C15;
  return static_cast<uint8_t>(mixed >> 56 | 1);
}
bool Holds(const uint8_t* memory, uint64_t number, uint64_t first, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) {
    if (memory[i] != Pattern(number, first + i)) return false;
  }
  return true;
}

uint64_t Address(const void* at) { return reinterpret_cast<uint64_t>(at); }

uint32_t Key(const Peer& peer, void* memory, size_t bytes, int access) {
  return peer.node->worker()
      .RegMr(peer.pd, memory, bytes, access | IBV_ACCESS_LOCAL_WRITE)
      .value()
      .key;
}

// Whose memory is named.
class Target : public engine::Poller {
 public:
  void Start(Node& node) {
    peer.Create(node);
    uc.Create(node, kUcDepth, IBV_QPT_UC);
    for (uint32_t i = 0; i < kAreaBytes; ++i) source[i] = Pattern(0, i);
    source_before_ = source;
    written_key = Key(peer, written.data(), kAreaBytes, IBV_ACCESS_REMOTE_WRITE);
    uc_written_key = Key(uc, written.data(), kAreaBytes, IBV_ACCESS_REMOTE_WRITE);
    source_key = Key(peer, source.data(), kAreaBytes, IBV_ACCESS_REMOTE_READ);
    words_key = Key(peer, words.data(), sizeof words, IBV_ACCESS_REMOTE_ATOMIC);
    received_key_ = Key(peer, received_.data(), received_.size(), 0);
    node.worker().AddPoller(this);
  }
  ~Target() override {
    if (peer.node != nullptr) peer.node->worker().RemovePoller(this);
  }
  void PostReceives() {
    while (receives_posted_ < received + kReceives) {
      uint8_t* const at = Buffer(receives_posted_);
      std::fill_n(at, kMaxBytes, uint8_t{0});
      ibv_sge sge{Address(at), kMaxBytes, received_key_};
      ibv_recv_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      if (peer.qp->PostRecv(&wr, nullptr) != 0) {
        violation = "a receive was refused";
        return;
      }
      ++receives_posted_;
    }
  }

  bool Poll(uint64_t) override {
    CheckWritten();
    CheckWords();
    if (source != source_before_) violation = "memory that is only read has changed";
    bool worked = false;
    ibv_wc wc{};
    while (peer.cq->Poll(1, &wc) == 1) {
      worked = true;
      if (wc.status != IBV_WC_SUCCESS) {
        violation = "a receive failed";
      } else if (received >= sent_bytes.size() || wc.byte_len != sent_bytes[received] ||
                 !Holds(Buffer(received), received, 0, wc.byte_len)) {
        violation = "a receive completed with what was not sent";
      }
      ++received;
    }
    PostReceives();
    return worked;
  }

  Peer peer, uc;
  std::vector<uint8_t> written = std::vector<uint8_t>(kAreaBytes);
  std::vector<uint8_t> source = std::vector<uint8_t>(kAreaBytes);
  alignas(8) std::array<uint64_t, kWords> words{};
  uint32_t written_key = 0, uc_written_key = 0, source_key = 0, words_key = 0;
  // What the other end has asked for.
  std::vector<bool> may_be_written = std::vector<bool>(kAreaBytes);
  uint64_t additions = 0;
  std::vector<uint32_t> sent_bytes;
  uint64_t received = 0;
  std::string violation;

 private:
  uint8_t* Buffer(uint64_t number) {
    return received_.data() + number % kReceives * size_t{kMaxBytes};
  }
  void CheckWritten() {
    if (written == written_before_) return;
    for (uint32_t i = 0; i < kAreaBytes; ++i) {
      if (written[i] == written_before_[i]) continue;
      if (written_before_[i] != 0 || !may_be_written[i] || written[i] != Pattern(0, i)) {
        violation = "byte " + std::to_string(i) + " was written wrongly";
      }
    }
    written_before_ = written;
  }
  void CheckWords() {
    if (words[0] < first_word_before_ || words[0] > additions) {
      violation = "the word became " + std::to_string(words[0]);
    }
    first_word_before_ = words[0];
    if (std::any_of(words.begin() + 1, words.end(), [](uint64_t word) { return word != 0; })) {
      violation = "an atomic changed another word";
    }
  }

  std::vector<uint8_t> written_before_ = std::vector<uint8_t>(kAreaBytes);
  std::vector<uint8_t> source_before_;
  uint64_t first_word_before_ = 0;
  std::vector<uint8_t> received_ = std::vector<uint8_t>(kReceives * kMaxBytes);
  uint32_t received_key_ = 0;
  uint64_t receives_posted_ = 0;
};

// Asks for one thing after the other, a few at a time.
class Source : public engine::Poller {
 public:
  void Start(Node& node, Target* target, Random* random) {
    peer.Create(node);
    uc.Create(node, kUcDepth, IBV_QPT_UC);
    target_ = target;
    random_ = random;
    for (uint32_t i = 0; i < kAreaBytes; ++i) written_[i] = Pattern(0, i);
    written_key_ = Key(peer, written_.data(), kAreaBytes, 0);
    uc_written_key_ = Key(uc, written_.data(), kAreaBytes, 0);
    slots_key_ = Key(peer, slots_.data(), slots_.size(), 0);
  }
  void Begin() { peer.node->worker().AddPoller(this); }
  ~Source() override {
    if (peer.node != nullptr) peer.node->worker().RemovePoller(this);
  }

  bool Poll(uint64_t) override {
    bool worked = false;
    ibv_wc wc{};
    while (uc.cq->Poll(1, &wc) == 1) {
      worked = true;
      --uc_under_way_;
      if (wc.status != IBV_WC_SUCCESS) violation = "a WRITE of UC failed";
    }
    while (peer.cq->Poll(1, &wc) == 1) {
      worked = true;
      ++completed_;
      if (wc.status != IBV_WC_SUCCESS) violation = "a request failed";
      if (violation.empty() && wc.opcode == IBV_WC_RDMA_READ) CheckRead(wc.wr_id);
      if (violation.empty() && wc.opcode == IBV_WC_FETCH_ADD) CheckAddition(wc.wr_id);
    }
    while (violation.empty() && posted_ < kOperations && posted_ < completed_ + kSlots) {
      Post();
      if (random_->Below(8) == 0 && uc_under_way_ < kUcDepth) PostUcWrite();
      worked = true;
    }
    return worked;
  }
  bool finished() const { return completed_ == kOperations; }

  Peer peer, uc;
  std::string violation;

 private:
  static constexpr uint64_t kSlots = 4;

  uint8_t* Slot(uint64_t number) { return slots_.data() + number % kSlots * size_t{kMaxBytes}; }

  void CheckRead(uint64_t number) {
    const auto& [first, bytes] = reads_[number % kSlots];
    if (!Holds(Slot(number), 0, first, bytes)) {
      violation = "a READ completed with what was not there";
    }
  }
  void CheckAddition(uint64_t number) {
    uint64_t found;
    std::memcpy(&found, Slot(number), sizeof found);
    if (found != additions_found_++) violation = "an addition found what was not there";
  }

  void Post() {
    const uint64_t number = posted_++;
    const uint32_t bytes = DrawBytes();
    ibv_sge sge{Address(Slot(number)), bytes, slots_key_};
    ibv_send_wr wr{};
    wr.wr_id = number;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    switch (random_->Below(4)) {
      case 0:
        if (NextWrite(bytes, written_key_, target_->written_key, &wr)) break;
        [[fallthrough]];
      case 1:
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        sge.length = sizeof(uint64_t);
        wr.wr.atomic = {.remote_addr = Address(target_->words.data()),
                        .compare_add = 1,
                        .rkey = target_->words_key};
        ++target_->additions;
        break;
      case 2: {
        const auto first = static_cast<uint32_t>(random_->Below(kAreaBytes - kMaxBytes));
        wr.opcode = IBV_WR_RDMA_READ;
        wr.wr.rdma = {.remote_addr = Address(&target_->source[first]), .rkey = target_->source_key};
        reads_[number % kSlots] = {first, bytes};
        break;
      }
      default:
        wr.opcode = IBV_WR_SEND;
        for (uint32_t i = 0; i < bytes; ++i) {
          Slot(number)[i] = Pattern(target_->sent_bytes.size(), i);
        }
        target_->sent_bytes.push_back(bytes);
    }
    if (peer.qp->PostSend(&wr, nullptr) != 0) violation = "a request was refused";
  }

  // Short ones, of which the headers are half, and long ones.
  uint32_t DrawBytes() {
    return static_cast<uint32_t>(1 + random_->Below(random_->Below(2) == 0 ? 64 : kMaxBytes));
  }
  // Makes `wr` a WRITE of the next of the area. False when there is none.
  bool NextWrite(uint32_t bytes, uint32_t own_key, uint32_t key, ibv_send_wr* wr) {
    const uint32_t end = written_end_ + bytes;
    if (end > kAreaBytes) return false;
    wr->opcode = IBV_WR_RDMA_WRITE;
    *wr->sg_list = {Address(&written_[written_end_]), bytes, own_key};
    wr->wr.rdma = {.remote_addr = Address(&target_->written[written_end_]), .rkey = key};
    std::fill(target_->may_be_written.begin() + written_end_, target_->may_be_written.begin() + end,
              true);
    written_end_ = end + static_cast<uint32_t>(random_->Below(32));
    return true;
  }
  // What of it is lost stays unwritten.
  void PostUcWrite() {
    ibv_sge sge{};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (!NextWrite(DrawBytes(), uc_written_key_, target_->uc_written_key, &wr)) return;
    if (uc.qp->PostSend(&wr, nullptr) != 0) violation = "a WRITE of UC was refused";
    ++uc_under_way_;
  }

  Target* target_ = nullptr;
  Random* random_ = nullptr;
  std::vector<uint8_t> written_ = std::vector<uint8_t>(kAreaBytes);
  std::vector<uint8_t> slots_ = std::vector<uint8_t>(kSlots * kMaxBytes);
  uint32_t written_key_ = 0, uc_written_key_ = 0, slots_key_ = 0;
  uint32_t written_end_ = 0;
  uint32_t uc_under_way_ = 0;
  std::array<std::pair<uint32_t, uint32_t>, kSlots> reads_;  // from where, and how much
  uint64_t posted_ = 0, completed_ = 0, additions_found_ = 0;
};

struct Outcome {
  std::string violation;
  uint64_t bad_icrc = 0;
};

Outcome RunCorrupted(uint64_t seed) {
  Outcome outcome;
  Simulation simulation(seed, {.min_delay_ns = 2'000, .max_delay_ns = 30'000});
  Node& a = simulation.AddNode();
  Node& b = simulation.AddNode();
  EXPECT_TRUE(FindEachOther(simulation, a, b));
  Random random(seed);
  {
    Target target;
    Source source;
    target.Start(b);
    source.Start(a, &target, &random);
    target.peer.Connect(source.peer);
    source.peer.Connect(target.peer);
    target.uc.Connect(source.uc);
    source.uc.Connect(target.uc);
    target.PostReceives();
    source.Begin();
    simulation.fabric().SetConditions({.loss = 0.01,
                                       .duplication = 0.02,
                                       .reordering = 0.02,
                                       .corruption = 0.15,
                                       .min_delay_ns = 2'000,
                                       .max_delay_ns = 30'000,
                                       .reorder_delay_ns = 100'000});
    const bool ended = simulation.RunUntil(
        [&] { return !source.violation.empty() || !target.violation.empty() || source.finished(); },
        simulation.now_ns() + kDeadlineNs);
    outcome.violation = !target.violation.empty() ? target.violation : source.violation;
    if (outcome.violation.empty() && !ended) outcome.violation = "it did not finish";
    if (outcome.violation.empty() && target.words[0] != target.additions) {
      outcome.violation = "an addition is missing";
    }
    for (Node* node : {&a, &b}) {
      outcome.bad_icrc += node->worker().counters().drop(transport::Drop::kBadIcrc);
    }
  }
  const std::string leaks = simulation.Leaks();
  if (outcome.violation.empty()) outcome.violation = leaks;
  return outcome;
}

class CorruptionSimTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal().ok()); }
};

TEST_F(CorruptionSimTest, CorruptedDataIsNeverDelivered) {
  uint64_t bad_icrc = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = RunCorrupted(seed);
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    bad_icrc += outcome.bad_icrc;
  }
  EXPECT_GT(bad_icrc, 500u) << "the network was too good to prove anything";
}

#ifdef POLLUX_PLANTED_FAULTS
TEST_F(CorruptionSimTest, AnUncheckedIcrcIsFound) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    planted_fault = Fault::kIcrcUnchecked;
    found += static_cast<int>(!RunCorrupted(seed).violation.empty());
    planted_fault = Fault::kNone;
  }
  EXPECT_EQ(found, 5);
}
#endif

}  // namespace
}  // namespace pollux::sim
