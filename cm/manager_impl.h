// The manager. It passes received messages, calls of its user and expired timers to the part that
// handles them. The parts are in connection/, one for each stage of a connection.
#ifndef POLLUX_CM_MANAGER_IMPL_H_
#define POLLUX_CM_MANAGER_IMPL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cm/connection/active_side.h"
#include "cm/connection/address_resolution.h"
#include "cm/connection/connection.h"
#include "cm/connection/environment.h"
#include "cm/connection/multicast.h"
#include "cm/connection/parts.h"
#include "cm/connection/passive_side.h"
#include "cm/connection/sidr.h"
#include "cm/connection/stats.h"
#include "cm/manager.h"
#include "cm/wire/mad.h"

namespace pollux::cm {

class ManagerImpl final : public Manager, private Environment::Client, private TimerHandler {
 public:
  ManagerImpl(std::unique_ptr<Environment> environment, const ManagerConfig& config);
  ~ManagerImpl() override;

  absl::StatusOr<Id*> CreateId(rdma_port_space port_space, EventHandler handler) override;
  void SetHandler(Id* id, EventHandler handler) override;
  void DestroyId(Id* id) override;
  absl::Status BindAddr(Id* id, const SocketAddress& local) override {
    return addresses_.BindAddr(Of(id), local);
  }
  absl::Status SetReuseAddress(Id* id, bool reuse) override {
    return addresses_.SetReuseAddress(Of(id), reuse);
  }
  absl::Status SetIpv6Only(Id* id, bool only) override {
    return addresses_.SetIpv6Only(Of(id), only);
  }
  absl::Status ResolveAddr(Id* id, const SocketAddress& destination, uint32_t timeout_ms) override {
    return addresses_.ResolveAddr(Of(id), destination, timeout_ms);
  }
  absl::Status ResolveRoute(Id* id, uint32_t /*timeout_ms*/) override {
    return addresses_.ResolveRoute(Of(id));
  }
  absl::Status SetTypeOfService(Id* id, uint8_t type_of_service) override {
    return addresses_.SetTypeOfService(Of(id), type_of_service);
  }
  using Manager::Listen;
  absl::Status Listen(Id* id, uint16_t port, uint32_t backlog, Placement placement) override {
    return addresses_.Listen(Of(id), port, backlog, placement);
  }
  void SetMaxHalfOpen(Id* listener, uint32_t max) override { Of(listener).max_half_open = max; }
  void LeaveBacklog(Id* request) override { parts_.backlog.Leave(Of(request)); }
  void BindQp(Id* id, engine::Worker* owner, verbs::QueuePair* qp, int access,
              absl::AnyInvocable<void(absl::Status)> done) override {
    parts_.queue_pairs.Bind(Of(id), owner, qp, access, std::move(done));
  }
  void ReleaseQp(Id* id) override;
  Path QueryPath(const Id& id) const override { return addresses_.QueryPath(Of(id)); }
  absl::Status QueryQpAttr(const Id& id, ibv_qp_attr* attr, int* mask) const override {
    return parts_.queue_pairs.QueryAttr(Of(id), attr, mask);
  }
  absl::Status Connect(Id* id, const ConnectionParam& param) override {
    return IsUd(id) ? sidr_.Connect(Of(id), param) : active_side_.Connect(Of(id), param);
  }
  absl::Status Establish(Id* id) override { return active_side_.Establish(Of(id)); }
  absl::Status Accept(Id* id, const ConnectionParam& param) override {
    return IsUd(id) ? sidr_.Accept(Of(id), param) : passive_side_.Accept(Of(id), param);
  }
  using Manager::Reject;
  absl::Status Reject(Id* id, absl::Span<const uint8_t> private_data,
                      RejectReason reason) override {
    return IsUd(id) ? sidr_.Reply(Of(id), SidrStatus::kReject, 0, private_data)
                    : passive_side_.Reject(Of(id), private_data, reason);
  }
  absl::Status SendMra(Id* id, uint8_t service_timeout) override {
    return parts_.mra.Ask(Of(id), service_timeout);
  }
  absl::Status Disconnect(Id* id) override { return parts_.teardown.Disconnect(Of(id)); }
  size_t unanswered_disconnects() const override {
    return parts_.teardown.unanswered_disconnects();
  }
  void RepeatDisconnects() override { parts_.sender.RepeatAll(State::kDreqSent, Attribute::kDreq); }
  bool SendWaitingDisconnects() override { return parts_.sender.SendWaitingDisconnects(); }
  void RepeatAnswers() override { parts_.sender.RepeatAll(State::kTimeWait, Attribute::kDrep); }
  absl::Status JoinMulticast(Id* id, const Gid& group) override {
    return multicast_.Join(Of(id), group);
  }
  absl::Status LeaveMulticast(Id* id, const Gid& group) override {
    return multicast_.Leave(Of(id), group);
  }
  void Notify(Id* id, ibv_event_type event) override { passive_side_.Notify(Of(id), event); }
  const Counters& counters() const override { return context().environment->counters(); }
  void SetDreqKeeper(DreqKeeper* keeper) override { context().dreq_keeper = keeper; }
  void SetTrace(Trace trace) override { parts_.sender.SetTrace(std::move(trace)); }
  void SetFailureHandler(FailureHandler handler) override {
    parts_.events.SetFailureHandler(std::move(handler));
  }
  std::string FlightLog(const Id& id) const override { return statistics_.FlightLog(Of(id)); }

  // Environment::Client; public for the tests
  bool OnStatsQuery(const StatsQuery& query, Stats* stats) override {
    return statistics_.Collect(query, stats);
  }
  void OnDeviceGone() override;
  void OnQpFailed(Qpn qpn, ibv_wc_status status,
                  std::vector<transport::FlightEntry> flight) override {
    parts_.events.OnQpFailed(qpn, status, std::move(flight));
  }
  void OnHandover(const Handover& handover) override;
  void OnPeerQpTaken(const PeerQpTaken& taken) override { parts_.established.OnPeerQpTaken(taken); }

  // The number of connections of any kind, including those whose identifier was destroyed.
  size_t size() const { return context().table.size(); }
  uint32_t pending() const { return parts_.backlog.pending(); }  // requests in backlogs

 private:
  // Environment::Client
  void OnMad(const Gid& from, const Gid& to, std::span<const uint8_t> mad) override;
  bool OnPoll() override { return HasWork() && Work(); }
  // Whether Work() would do anything: in most turns there is nothing to do.
  bool HasWork() const override {
    return context().table.has_removed() || parts_.backlog.AwaitsListeners() ||
           !parts_.events.empty() || addresses_.resolves() || parts_.sender.HasWaiting();
  }
  bool Work();
  bool ServeEarlyRequests();  // returns whether there were any
  // TimerHandler
  void OnTimer(CmConnection& connection) override;

  // Rejects a REQ with another class version. Ignores everything else.
  void RejectClassVersion(const Origin& origin, const MadHeader& header,
                          std::span<const uint8_t> mad);
  // Adds the message to the flight recorder of the connection that it names, if that is a
  // connection with `peer`.
  void RecordReceived(const Gid& peer, const Message& message);
  void Dispatch(const Origin& origin, const Message& message);
  void Handle(const Origin& origin, const Req& req) { passive_side_.Handle(origin, req); }
  void Handle(const Origin& origin, const Rep& rep) { active_side_.Handle(origin, rep); }
  void Handle(const Origin& origin, const Rtu& rtu) { passive_side_.Handle(origin, rtu); }
  void Handle(const Origin& origin, const Rej& rej);
  void Handle(const Origin& origin, const Mra& mra) { parts_.mra.Handle(origin, mra); }
  void Handle(const Origin& origin, const Dreq& dreq) { parts_.teardown.Handle(origin, dreq); }
  void Handle(const Origin& origin, const Drep& drep) { parts_.teardown.Handle(origin, drep); }
  void Handle(const Origin& origin, const Lap& lap) { parts_.established.Handle(origin, lap); }
  void Handle(const Origin&, const Apr&) { context().CountDrop(MadDrop::kWrongState); }
  void Handle(const Origin& origin, const SidrReq& req) { sidr_.Handle(origin, req); }
  void Handle(const Origin& origin, const SidrRep& rep) { sidr_.Handle(origin, rep); }
  // As Context::FindFor(); a REJ may name its connection by the CA GUID.
  CmConnection* FindRejected(const Origin& origin, const Rej& rej);

  static CmConnection& Of(Id* id) { return *static_cast<CmConnection*>(id); }
  static const CmConnection& Of(const Id& id) { return static_cast<const CmConnection&>(id); }
  static bool IsUd(const Id* id) { return id->port_space() == RDMA_PS_UDP; }
  Context& context() { return parts_.context; }
  const Context& context() const { return parts_.context; }

  Parts parts_;
  AddressResolution addresses_{&parts_};
  ActiveSide active_side_{&parts_};
  PassiveSide passive_side_{&parts_};
  Sidr sidr_{&parts_};
  Multicast multicast_{&parts_};
  Statistics statistics_{&parts_.context};
  bool device_gone_ = false;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_MANAGER_IMPL_H_
