// Whole lives of connections, drawn from seeds: both sides connect, accept, reject, disconnect,
// destroy and are killed at random, while messages are lost, come twice, late and in any order. A
// host has one manager or several.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cm/connection/fake_network.h"
#include "cm/manager.h"
#include "cm/manager_impl.h"

namespace pollux::cm {
namespace {

constexpr uint64_t kSecond = FakeNetwork::kSecond;
constexpr uint64_t kMillisecond = kSecond / 1000;
constexpr uint16_t kPort = 20049;
constexpr int kSeeds = 1000;
constexpr uint64_t kBusyNs = 200 * kSecond;  // while things are begun and go wrong
// Then everything comes to an end by itself: 16 sendings, each put off by an MRA.
constexpr uint64_t kQuietNs = 1500 * kSecond;
constexpr uint64_t kMaxManagers = 3;  // of a host

class Machine;

// One identifier as its user sees it.
struct User {
  Machine* machine = nullptr;
  Id* id = nullptr;
  bool active = false;
  bool ud = false;
  bool asked = false;  // Connect was called
  bool gone = false;   // destroyed, or its machine was killed
  bool answered = false;
  std::unique_ptr<FakeQp> qp;
  std::vector<rdma_cm_event_type> events;
  SocketAddress local, peer;

  bool Saw(rdma_cm_event_type type) const {
    return std::ranges::find(events, type) != events.end();
  }
  bool Connected() const {
    return !gone && !ud && Saw(RDMA_CM_EVENT_ESTABLISHED) && !Saw(RDMA_CM_EVENT_DISCONNECTED) &&
           !Saw(RDMA_CM_EVENT_REJECTED);
  }
};

// Whether `next` may follow what an identifier was told before.
bool MayFollow(const User& user, rdma_cm_event_type next) {
  if (user.Saw(next)) return false;
  const bool decided = user.Saw(RDMA_CM_EVENT_REJECTED) || user.Saw(RDMA_CM_EVENT_UNREACHABLE) ||
                       user.Saw(RDMA_CM_EVENT_CONNECT_ERROR);
  switch (next) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return user.active;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return user.Saw(RDMA_CM_EVENT_ADDR_RESOLVED);
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return !user.active && user.events.empty();
    case RDMA_CM_EVENT_ESTABLISHED:
      // Of a DREQ that overtook the RTU the user hears without this.
      return (user.active ? user.asked : user.answered && !user.ud) && !decided &&
             !user.Saw(RDMA_CM_EVENT_DISCONNECTED);
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return !decided && !user.Saw(RDMA_CM_EVENT_ESTABLISHED) &&
             !user.Saw(RDMA_CM_EVENT_DISCONNECTED);
    case RDMA_CM_EVENT_DISCONNECTED:
      return !decided && (user.Saw(RDMA_CM_EVENT_ESTABLISHED) || user.answered);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return user.Saw(RDMA_CM_EVENT_DISCONNECTED) || (!user.active && decided);
    default:
      return false;
  }
}

class Life {
 public:
  explicit Life(uint64_t seed);
  ~Life();
  void Run();
  // Whether something of each kind came about, so that the test tests something.
  std::map<std::string, int> happened;

 private:
  friend class Machine;
  void At(uint64_t after_ns, std::function<void()> action) {
    actions_.emplace(network_.now_ns + after_ns, std::move(action));
  }
  uint64_t Some(uint64_t most_ns) { return network_.random.Below(most_ns) + 1; }
  bool Chance(double p) { return network_.random.Chance(p); }
  void RunFor(uint64_t ns);
  void Disturb();
  void Meddle();
  void CheckSettled();
  const User* PartnerOf(const User& user) const;
  Machine& SomeOf(size_t host) { return *hosts_[host][network_.random.Below(hosts_[host].size())]; }
  std::vector<Machine*> AllMachines() const;

  FakeNetwork network_;
  double loss_;
  double duplication_;
  bool reliable_ = false;
  std::multimap<uint64_t, std::function<void()>> actions_;
  std::vector<std::unique_ptr<User>> users_;
  std::vector<std::vector<std::unique_ptr<Machine>>> hosts_;
  bool killed_ = false;
};

// A manager of a host.
class Machine {
 public:
  Machine(Life* life, uint8_t number, Shard shard) : life_(life), number_(number), shard_(shard) {
    Start();
  }
  uint8_t number() const { return number_; }

  void Start() {
    auto environment = std::make_unique<FakeEnvironment>(
        &life_->network_, Gid::FromIpv4(0xC0000200 + number_), shard_);
    env = environment.get();
    if (life_->Chance(0.3)) env->mtu = IBV_MTU_1024;
    ManagerConfig config;
    if (life_->Chance(0.3)) config.max_pending_requests = 1;
    env->owns_qps = life_->Chance(0.5);
    manager = std::make_unique<ManagerImpl>(std::move(environment), config);
    qpn_ = number_ * 0x1000u + shard_.index * 0x100u;
    for (const rdma_port_space port_space : {RDMA_PS_TCP, RDMA_PS_UDP}) {
      Id* listener = *manager->CreateId(port_space, [this](const Event& e) { OnEvent(e); });
      const Placement placement = number_ == 1 ? Placement::kByClient : Placement::kByConnection;
      ASSERT_TRUE(manager->Listen(listener, kPort, 0, placement).ok());
    }
  }
  // Nothing is said to anyone.
  void Kill() {
    for (const auto& user : life_->users_) user->gone |= user->machine == this;
    by_id_.clear();
    manager.reset();
    Start();
  }

  void Connect(const Gid& to) {
    const bool ud = life_->Chance(0.2);
    Id* id =
        *manager->CreateId(ud ? RDMA_PS_UDP : RDMA_PS_TCP, [this](const Event& e) { OnEvent(e); });
    User& user = Add(id, true);
    user.ud = ud;
    user.peer = {to, kPort};
    ASSERT_TRUE(manager->ResolveAddr(id, user.peer, 1000).ok());
    user.local = id->local();
  }
  void Destroy(User& user) {
    if (user.gone) return;
    user.gone = true;
    by_id_.erase(user.id);
    manager->DestroyId(user.id);
    user.qp.reset();
  }
  void Decide(User& user) {
    if (user.gone) return;
    if (life_->Chance(0.1)) return Destroy(user);
    if (life_->Chance(0.2)) {
      manager->Reject(user.id, {}).IgnoreError();  // the peer may have given up
      return;
    }
    Bind(user, [this, &user] {
      if (user.gone) return;
      user.answered = true;
      if (!manager->Accept(user.id, {}).ok()) user.answered = false;
    });
  }

  FakeEnvironment* env = nullptr;
  std::unique_ptr<ManagerImpl> manager;

 private:
  User& Add(Id* id, bool active) {
    life_->users_.push_back(std::make_unique<User>());
    User& user = *life_->users_.back();
    user.machine = this;
    user.id = id;
    user.active = active;
    by_id_[id] = &user;
    return user;
  }
  void Bind(User& user, std::function<void()> done) {
    user.qp = std::make_unique<FakeQp>(qpn_++, user.ud ? IBV_QPT_UD : IBV_QPT_RC);
    manager->BindQp(user.id, nullptr, &user.qp->qp, 0, [done](absl::Status status) {
      if (status.ok()) done();
    });
  }
  void OnEvent(const Event& event) {
    ++life_->happened[rdma_event_str(event.type)];
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      User& user = Add(event.id, false);
      user.ud = event.id->port_space() == RDMA_PS_UDP;
      user.local = event.id->local();
      user.peer = event.id->peer();
    }
    const auto it = by_id_.find(event.id);
    ASSERT_NE(it, by_id_.end()) << rdma_event_str(event.type) << " after the end";
    User& user = *it->second;
    ASSERT_TRUE(MayFollow(user, event.type)) << rdma_event_str(event.type);
    user.events.push_back(event.type);
    if (event.type == RDMA_CM_EVENT_REJECTED) {
      ++life_->happened["REJ " + std::to_string(event.status)];
    }
    if (life_->Chance(0.03)) return Destroy(user);
    Act(user, event.type);
  }
  void Act(User& user, rdma_cm_event_type type) {
    switch (type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        ASSERT_TRUE(manager->ResolveRoute(user.id, 1000).ok());
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        Bind(user, [this, &user] {
          if (user.gone) return;
          user.asked = manager->Connect(user.id, {}).ok();
          ASSERT_TRUE(user.asked);
        });
        break;
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        if (life_->Chance(0.5)) return Decide(user);
        life_->At(life_->Some(60 * kSecond), [this, &user] { Decide(user); });
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
        if (life_->Chance(0.3)) manager->Disconnect(user.id).IgnoreError();
        break;
      default:
        break;
    }
  }

  Life* life_;
  const uint8_t number_;
  const Shard shard_;
  uint32_t qpn_ = 0;
  std::map<Id*, User*> by_id_;
};

Life::Life(uint64_t seed) : network_(seed) {
  // Not so much that all 16 sendings of a message could be lost.
  loss_ = Chance(0.3) ? 0 : 0.25 * static_cast<double>(network_.random.Below(100)) / 100;
  duplication_ = Chance(0.3) ? 0 : 0.3;
  network_.copies_of = [this](const Datagram&) {
    if (reliable_) return 1;
    return Chance(loss_) ? 0 : Chance(duplication_) ? 2 : 1;
  };
  network_.delay = [this](const Datagram&) {
    if (reliable_ || Chance(0.5)) return uint64_t{0};
    return Some(Chance(0.02) ? 10 * kSecond : 100 * kMillisecond);
  };
  for (const uint8_t number : {1, 2}) {
    const auto count = static_cast<uint32_t>(1 + network_.random.Below(kMaxManagers));
    hosts_.emplace_back();
    for (uint32_t index = 0; index < count; ++index) {
      hosts_.back().push_back(std::make_unique<Machine>(this, number, Shard{index, count}));
    }
  }
  for (uint64_t n = 1 + network_.random.Below(16); n > 0; --n) {
    At(Some(kBusyNs * 2 / 3), [this] {
      const size_t from = network_.random.Below(2);
      SomeOf(from).Connect(SomeOf(1 - from).env->address());
    });
  }
  for (uint64_t n = network_.random.Below(20); n > 0; --n) At(Some(kBusyNs), [this] { Disturb(); });
  for (uint64_t n = network_.random.Below(40); n > 0; --n) At(Some(kBusyNs), [this] { Meddle(); });
}

Life::~Life() {
  // Queue pairs outlive what moves them.
  for (Machine* machine : AllMachines()) machine->manager.reset();
}

std::vector<Machine*> Life::AllMachines() const {
  std::vector<Machine*> all;
  for (const auto& host : hosts_) {
    for (const auto& machine : host) all.push_back(machine.get());
  }
  return all;
}

void Life::RunFor(uint64_t ns) {
  const uint64_t end_ns = network_.now_ns + ns;
  while (!actions_.empty() && actions_.begin()->first <= end_ns && !testing::Test::HasFailure()) {
    const auto [at_ns, action] = *actions_.begin();
    actions_.erase(actions_.begin());
    if (at_ns > network_.now_ns) network_.Run(at_ns - network_.now_ns);
    network_.now_ns = std::max(network_.now_ns, at_ns);
    action();
  }
  if (end_ns > network_.now_ns) network_.Run(end_ns - network_.now_ns);
  network_.now_ns = std::max(network_.now_ns, end_ns);
}

// A machine does not send, does not move queue pairs, does not reach its siblings, or its host is
// killed.
void Life::Disturb() {
  const size_t host = network_.random.Below(2);
  Machine& machine = SomeOf(host);
  switch (network_.random.Below(5)) {
    case 0:
      machine.env->queue_full = true;
      At(Some(10 * kSecond), [&machine] { machine.env->queue_full = false; });
      break;
    case 1:
      machine.env->moves_held = true;
      At(Some(30 * kSecond), [&machine] { machine.env->moves_held = false; });
      break;
    case 2:
      machine.env->moves_fail = true;
      At(Some(10 * kSecond), [&machine] { machine.env->moves_fail = false; });
      break;
    case 3:
      machine.env->posts_full = true;
      At(Some(10 * kSecond), [&machine] { machine.env->posts_full = false; });
      break;
    default:
      if (killed_ || !Chance(0.3)) return;
      killed_ = true;
      for (const auto& one : hosts_[host]) one->Kill();
  }
}

// Some user does what comes to his mind.
void Life::Meddle() {
  std::vector<User*> alive;
  for (const auto& user : users_) {
    if (!user->gone) alive.push_back(user.get());
  }
  if (alive.empty()) return;
  User& user = *alive[network_.random.Below(alive.size())];
  ManagerImpl& manager = *user.machine->manager;
  switch (network_.random.Below(4)) {
    case 0:
      return user.machine->Destroy(user);
    case 1:
      return manager.Disconnect(user.id).IgnoreError();
    case 2:
      return manager.SendMra(user.id, 20).IgnoreError();
    default: {
      // Data came, which the other side sends only when it is connected.
      const User* partner = PartnerOf(user);
      if (partner != nullptr && partner->Connected()) manager.Notify(user.id, IBV_EVENT_COMM_EST);
    }
  }
}

const User* Life::PartnerOf(const User& user) const {
  const User* found = nullptr;
  for (const auto& other : users_) {
    if (other->machine->number() == user.machine->number() || other->active == user.active ||
        other->ud)
      continue;
    if (other->local != user.peer || other->peer != user.local) continue;
    if (found == nullptr || other->Connected()) found = other.get();
  }
  return found;
}

void Life::CheckSettled() {
  for (const auto& user : users_) {
    if (user->gone) continue;
    if (user->asked) {
      EXPECT_TRUE(user->Saw(RDMA_CM_EVENT_ESTABLISHED) || user->Saw(RDMA_CM_EVENT_REJECTED) ||
                  user->Saw(RDMA_CM_EVENT_UNREACHABLE) || user->Saw(RDMA_CM_EVENT_CONNECT_ERROR))
          << "a call of Connect did not end";
    }
    if (user->ud) continue;
    if (user->Saw(RDMA_CM_EVENT_DISCONNECTED)) {
      EXPECT_EQ(user->qp->qp.attr.qp_state, IBV_QPS_ERR);
      EXPECT_TRUE(user->Saw(RDMA_CM_EVENT_TIMEWAIT_EXIT));
    }
    if (!user->Connected()) continue;
    EXPECT_EQ(user->qp->qp.attr.qp_state, IBV_QPS_RTS);
    // What was connected to a machine that was killed finds out by other means.
    if (killed_) continue;
    const User* partner = PartnerOf(*user);
    ASSERT_NE(partner, nullptr);
    EXPECT_TRUE(partner->Connected()) << (user->active ? "active" : "passive") << " alone";
    if (!partner->Connected()) continue;
    EXPECT_EQ(user->qp->qp.attr.dest_qp_num, partner->qp->qp.qpn().value);
    EXPECT_EQ(user->qp->qp.attr.rq_psn, partner->qp->qp.attr.sq_psn);
    EXPECT_EQ(user->qp->qp.attr.path_mtu, partner->qp->qp.attr.path_mtu);
    ++happened["both connected at the end"];
  }
}

void Life::Run() {
  RunFor(kBusyNs);
  reliable_ = true;
  for (Machine* machine : AllMachines()) {
    machine->env->queue_full = machine->env->moves_held = machine->env->moves_fail = false;
    machine->env->posts_full = false;
  }
  RunFor(kQuietNs);
  if (testing::Test::HasFailure()) return;
  CheckSettled();
  for (size_t i = 0; i < users_.size(); ++i) users_[i]->machine->Destroy(*users_[i]);
  RunFor(kQuietNs);
  for (const Machine* machine : AllMachines()) {
    EXPECT_EQ(machine->manager->size(), 2u) << "more than the listeners";
    EXPECT_EQ(machine->manager->pending(), 0u);
    EXPECT_EQ(machine->env->wheel().NextDeadline(), UINT64_MAX) << "a timer is left";
  }
}

TEST(RandomTest, RandomConnectionHistoriesKeepTheInvariants) {
  std::map<std::string, int> happened;
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Life life(seed);
    life.Run();
    for (const auto& [what, count] : life.happened) happened[what] += count;
  }
  for (const char* what :
       {"both connected at the end", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
        "RDMA_CM_EVENT_TIMEWAIT_EXIT", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_CONNECT_ERROR",
        "REJ 3", "REJ 4", "REJ 6", "REJ 10", "REJ 28"}) {
    EXPECT_GE(happened[what], 10) << what;
  }
}

}  // namespace
}  // namespace pollux::cm
