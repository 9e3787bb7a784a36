// The connection state machines. One file for each part of a connection's life: manager_impl.cc
// (identifiers, events), queue_pair.cc (what they connect), address.cc, dispatch.cc (what comes
// in), active.cc, passive.cc, mra.cc, teardown.cc, sidr.cc, multicast.cc, handover.cc (what other
// managers of the device have to do with), and report.cc, which tells of it.
#ifndef POLLUX_CM_CONNECTION_MANAGER_IMPL_H_
#define POLLUX_CM_CONNECTION_MANAGER_IMPL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cm/connection/connection.h"
#include "cm/connection/connection_table.h"
#include "cm/connection/early_requests.h"
#include "cm/connection/environment.h"
#include "cm/connection/request_window.h"
#include "cm/manager.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/mad.h"

namespace pollux::cm {

class ManagerImpl final : public Manager, private Environment::Client {
 public:
  ManagerImpl(std::unique_ptr<Environment> environment, const ManagerConfig& config);
  ~ManagerImpl() override;

  absl::StatusOr<Id*> CreateId(rdma_port_space port_space, EventHandler handler) override;
  void SetHandler(Id* id, EventHandler handler) override;
  void DestroyId(Id* id) override;
  absl::Status BindAddr(Id* id, const SocketAddress& local) override;
  absl::Status SetReuseAddress(Id* id, bool reuse) override;
  absl::Status SetIpv6Only(Id* id, bool only) override;
  absl::Status ResolveAddr(Id* id, const SocketAddress& destination, uint32_t timeout_ms) override;
  absl::Status ResolveRoute(Id* id, uint32_t timeout_ms) override;
  absl::Status SetTypeOfService(Id* id, uint8_t type_of_service) override;
  using Manager::Listen;
  absl::Status Listen(Id* id, uint16_t port, uint32_t backlog, Placement placement) override;
  void LeaveBacklog(Id* request) override { LeavePending(Of(request)); }
  void ReleaseQp(Id* id) override;
  void BindQp(Id* id, engine::Worker* owner, verbs::QueuePair* qp, int access,
              absl::AnyInvocable<void(absl::Status)> done) override;
  Path QueryPath(const Id& id) const override;
  absl::Status QueryQpAttr(const Id& id, ibv_qp_attr* attr, int* mask) const override;
  absl::Status Connect(Id* id, const ConnectionParam& param) override;
  absl::Status Establish(Id* id) override;
  absl::Status Accept(Id* id, const ConnectionParam& param) override;
  using Manager::Reject;
  absl::Status Reject(Id* id, absl::Span<const uint8_t> private_data, RejectReason reason) override;
  absl::Status Disconnect(Id* id) override;
  size_t unanswered_disconnects() const override;
  void RepeatDisconnects() override;
  bool SendWaitingDisconnects() override;
  void RepeatAnswers() override;
  absl::Status SendMra(Id* id, uint8_t service_timeout) override;
  absl::Status JoinMulticast(Id* id, const Gid& group) override;
  absl::Status LeaveMulticast(Id* id, const Gid& group) override;
  void Notify(Id* id, ibv_event_type event) override;
  uint64_t time_wait_ns() const override;
  const Counters& counters() const override { return environment_->counters(); }
  void SetTrace(Trace trace) override { trace_ = std::move(trace); }
  void SetFailureHandler(FailureHandler handler) override { on_failure_ = std::move(handler); }
  std::string FlightLog(const Id& id) const override;

  // Environment::Client, for the tests too; report.cc
  bool OnQuestion(const Question& question, Report* report) override;
  void OnDeviceGone() override;
  void OnQpFailed(Qpn qpn, ibv_wc_status status,
                  std::vector<transport::FlightEntry> flight) override;
  void OnHandover(const Handover& handover) override;     // handover.cc
  void OnPeerQpTaken(const PeerQpTaken& taken) override;  // handover.cc

  // Connections of any kind that still take room: identifiers, and what outlives them.
  size_t size() const { return table_.size(); }
  uint32_t pending() const { return pending_; }  // requests in backlogs

 private:
  struct Deferred {
    uint32_t comm_id;
    rdma_cm_event_type type;
    int status;
    Gid group{};  // of RDMA_CM_EVENT_MULTICAST_JOIN
  };
  // Where a received message comes from, which of our addresses it was for, and the exchange that
  // its answer belongs to.
  struct Origin {
    const Gid& from;
    const Gid& to;
    uint64_t transaction_id;
    Route route{};
  };

  // Environment::Client
  void OnMad(const Gid& from, const Gid& to, std::span<const uint8_t> mad) override;
  bool OnPoll() override { return HasWork() && Work(); }
  // All that Work() looks for; most turns find nothing of it.
  bool HasWork() const {
    return table_.has_removed() || !early_requests_.empty() || !deferred_.empty() ||
           !resolving_.empty() || window_.waiting() > 0;
  }
  bool Work();
  bool DeliverDeferred();

  // dispatch.cc
  void Handle(const Origin& origin, const Req& req);    // passive.cc
  void Handle(const Origin& origin, const Rep& rep);    // active.cc
  void Handle(const Origin& origin, const Rtu& rtu);    // passive.cc
  void Handle(const Origin& origin, const Rej& rej);    // teardown.cc
  void Handle(const Origin& origin, const Mra& mra);    // mra.cc
  void Handle(const Origin& origin, const Dreq& dreq);  // teardown.cc
  void Handle(const Origin& origin, const Drep& drep);  // teardown.cc
  void Handle(const Origin& origin, const Lap& lap);
  void Handle(const Origin& origin, const Apr& apr);
  void Handle(const Origin& origin, const SidrReq& req);  // sidr.cc
  void Handle(const Origin& origin, const SidrRep& rep);  // sidr.cc
  // The connection that a message with these two IDs (as its sender names them) is for. Null, and
  // counted, when there is none or it is with someone else.
  Connection* FindFor(const Origin& origin, uint32_t senders_id, uint32_t receivers_id);
  // No connection of ours, or one that is over though its identifier is not destroyed yet.
  bool IsForgotten(uint32_t local_comm_id) const;
  void CountDuplicate(Attribute attribute) { ++environment_->counters().of(attribute).duplicates; }
  void CountDrop(MadDrop drop) { environment_->counters().Count(drop); }

  // handover.cc
  // To the next manager; false when all have had it, of those that a round is made of.
  bool PassOn(const Origin& origin, const Message& message);
  // To the manager that `listener` wants all of its client's requests to be answered by; false when
  // that is this one.
  bool SendHome(const Origin& origin, const Connection& listener, const Message& message);
  void HandOver(uint32_t to, const Origin& origin, Route route, const Message& message);
  // Tells the other managers whose queue pair it is connected with.
  void EnterEstablished(Connection& connection);

  // report.cc
  void RecordMad(Connection& connection, transport::FlightKind kind, Attribute attribute,
                 uint16_t detail);
  void RecordEvent(Connection& connection, const Event& event);
  void TellFailure(Connection& connection, const std::string& why);
  void ListConnections(uint32_t after, Report* report) const;
  void DescribeConnection(const Connection& connection, Report* report) const;
  // Of the connection with this local communication ID, if there is one with `peer`.
  void RecordReceived(const Gid& peer, const Message& message);
  void RecordSent(const Message& message);

  // Sending.
  static Origin PeerOf(const Connection& connection) {
    return {connection.peer().address, connection.local().address, connection.transaction_id};
  }
  bool SendMad(const Gid& from, const Gid& to, const MadBuffer& mad);  // false: not queued
  void Send(const Origin& origin, const Message& message);             // an answer
  // What SendOutstanding() sends, and sends again until something cancels the timer or the retries
  // are used up.
  void SetOutstanding(Connection& connection, const Message& message);
  // As SendOutstanding(), when it is its turn.
  void SendRequest(Connection& connection);
  bool SendWaiting();  // whose turn it is now; whether there was one
  bool IsUnanswered(uint32_t comm_id) const;
  bool SendOutstanding(Connection& connection);      // false: not queued this time
  bool TransmitOutstanding(Connection& connection);  // and no timer
  // Of all connections in `state`, where it is an `attribute`.
  void RepeatAll(State state, Attribute attribute);
  void Reject(const Origin& origin, uint32_t local_comm_id, uint32_t remote_comm_id,
              AboutMessage about, RejectReason reason);
  void RejectTimedOut(const Connection& connection, AboutMessage about);
  // Answers a REQ of a class version that is not spoken here; nothing else.
  void RejectClassVersion(const Origin& origin, const MadHeader& header,
                          std::span<const uint8_t> mad);
  void RejectMtu(const Origin& origin, uint32_t remote_comm_id);

  // Time.
  static void TimerFired(void* connection, uint64_t now_ns);
  static void WindowTimerFired(void* manager, uint64_t now_ns);
  void OnTimer(Connection& connection);
  void OnRetriesUsedUp(Connection& connection);

  // Events. The last thing that is done to a connection in a turn: the handler may do anything.
  void Deliver(Connection& connection, Event event);
  void Deliver(Connection& connection, rdma_cm_event_type type, int status = 0);
  void Defer(const Connection& connection, rdma_cm_event_type type, int status = 0);

  // States.
  // Its request, should it still wait for its turn, is not sent any more.
  void LeaveWindow(Connection& connection);
  void EnterClosed(Connection& connection);      // forgets the peer; frees it when destroyed
  void EnterTimeWait(Connection& connection);    // teardown.cc
  void StartDisconnect(Connection& connection);  // teardown.cc
  // queue_pair.cc: QP to the error state if CM may still touch it.
  void MoveQpToError(Connection& connection);
  // INIT to RTR to RTS with what has been agreed; then `done` if `connection` still is and is
  // still in `expected`.
  void MoveQpToRts(Connection& connection, State expected,
                   void (ManagerImpl::*done)(Connection&, absl::Status));
  // The peer, which waits for an answer to `about`, hears that there is no queue pair.
  void EndWithoutQp(Connection& connection, AboutMessage about);
  QpMove::Step ToRtr(const Connection& connection) const;
  // Takes the user's own queue pair, in Connect or Accept of an identifier without another.
  // FailedPrecondition when there is none at all or it is not ready.
  absl::Status TakeQp(Connection& connection, const ConnectionParam& param) const;
  // Of the queue pair that TakeQp() has taken.
  static bool HasSrq(const Connection& connection, const ConnectionParam& param);
  // The peer of `old`, or someone who claims to be it, gives the queue pair of `old` to another
  // connection: it has forgotten `old`, which ends. True when it is over already, and the other one
  // may have the number; false when a DREQ must be answered first.
  bool EndStale(const Origin& origin, Connection& old);
  Connection* FindRejected(const Origin& origin, const Rej& rej);  // as FindFor()

  // mra.cc: asks the peer of a REQ or REP that this side still works on not to send it again for
  // so long. Only for connections in kReqRcvd, kRepPending and kRepRcvd.
  void AskForTime(const Connection& connection, uint8_t service_timeout);
  // active.cc
  uint8_t OwnAckTimeout() const;  // asked of the peer when the user states none
  Req BuildReq(const Connection& connection, const ConnectionParam& param) const;
  // Whether `rej`, of a REQ, is answered by another REQ with the path MTU that it names, or is
  // about the REQ before that: in both cases it ends nothing.
  bool AskWithLowerMtu(const Origin& origin, Connection& connection, const Rej& rej);
  void OnActiveQpReady(Connection& connection, absl::Status status);
  void DeliverResponse(Connection& connection, rdma_cm_event_type type);  // what the REP said
  void SendRtu(const Connection& connection);
  // passive.cc
  bool IsDuplicate(const Origin& origin, const Req& req);
  // Nothing when it is, the reason to give when not.
  std::optional<RejectReason> ReasonToReject(const Origin& origin, const Req& req) const;
  // For the listener's user to accept or reject. Null at max_ids.
  Connection* NewPassive(const Origin& origin, Connection& listener, uint16_t source_port);
  void TakeRequest(Connection& connection, const Req& req);
  bool HasRoomFor(const Connection& listener) const;
  void OnPassiveQpReady(Connection& connection, absl::Status status);
  Rep BuildRep(const Connection& connection, const ConnectionParam& param) const;
  void LeavePending(Connection& connection);
  // Whether `request`, for whose service nobody listens, waits until somebody does.
  bool AwaitListener(const Origin& origin, const std::optional<ServiceId>& service,
                     const Message& request);
  bool ServeEarlyRequests();  // whether there were any to serve or to refuse
  // sidr.cc
  absl::Status ConnectUd(Connection& connection, const ConnectionParam& param);
  absl::Status AcceptUd(Connection& connection, const ConnectionParam& param);
  absl::Status AnswerUd(Connection& connection, SidrStatus status, uint32_t qpn,
                        absl::Span<const uint8_t> private_data);
  void AnswerSidr(const Origin& origin, const SidrReq& req, SidrStatus status);
  // multicast.cc
  absl::Status CheckJoin(const Connection& connection, const Gid& group) const;
  void OnJoined(Connection& connection, const Gid& group, const absl::Status& status);
  // OnJoined() in the next turn: there is no queue pair to attach.
  void DeferJoined(const Connection& connection, const Gid& group);
  void LeaveAll(Connection& connection);
  // address.cc
  absl::Status Bind(Connection& connection, const SocketAddress& local);

  static Connection& Of(Id* id) { return *static_cast<Connection*>(id); }

  std::unique_ptr<Environment> environment_;
  const ManagerConfig config_;
  ConnectionTable table_;
  Trace trace_;
  FailureHandler on_failure_;
  bool device_gone_ = false;
  uint32_t pending_ = 0;  // connections that count in a backlog
  std::deque<Deferred> deferred_;
  std::vector<uint32_t> resolving_;  // communication IDs
  EarlyRequests early_requests_{config_.relisten_ns};
  RequestWindow window_;
  engine::Timer window_timer_{&ManagerImpl::WindowTimerFired, this};
  // Ends before `this` does; callbacks from other cores ask it first.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_MANAGER_IMPL_H_
