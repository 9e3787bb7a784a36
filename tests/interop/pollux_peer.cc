// The counterpart of tests/interop/peer/peer.c on Pollux: the same commands, the same answers.
// usage: pollux_peer PORT_OPTIONS --commands FILE
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/base/address.h"
#include "stack/engine/device.h"
#include "tests/interop/peer/words.h"
#include "tools/common/node.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/start_node.h"

namespace pollux::tools {
namespace {

constexpr uint32_t kResolveMs = 10'000;
constexpr useconds_t kPauseUs = 500;

// A cm::Event that outlives its handler.
struct PastEvent {
  rdma_cm_event_type type;
  int status;
  int id;
  std::vector<uint8_t> private_data;
  ibv_ah_attr ah_attr;
  uint32_t qpn;
  uint32_t qkey;
};

template <class T>
using Objects = std::array<T, PEER_OBJECTS>;

// All objects of the program. What is not a constant is touched on the worker's core only.
struct Program {
  std::unique_ptr<Node> node;
  std::vector<uint8_t> storage = std::vector<uint8_t>(PEER_REGION + 4096);
  uint8_t* memory = nullptr;
  std::array<memory::ProtectionDomain*, 2> pd{};
  verbs::CompletionQueue* cq = nullptr;
  Objects<memory::MemoryRegion> regions{};
  Objects<ibv_mw*> windows{};
  Objects<verbs::SharedReceiveQueue*> srqs{};
  Objects<verbs::QueuePair*> qps{};
  Objects<verbs::AddressHandle*> ahs{};
  Objects<cm::Id*> ids{};
  std::deque<PastEvent> events;
  std::vector<uint64_t> async_events;  // of ibv_event_type

  engine::Worker& worker() const { return node->device().worker(); }
  cm::Manager& manager() const { return node->manager(); }
};

Program* program = nullptr;  // C calls without a context

template <class Work>
auto OnCore(Work work) {
  return program->node->Run(std::move(work));
}

void Answer(const absl::Status& status) {
  if (status.ok()) return peer_ok("done");
  peer_error("%s", std::string(status.message()).c_str());
}

void AnswerErrno(int error) {
  if (error == 0) return peer_ok("done");
  peer_error("%s", std::strerror(error));
}

memory::ProtectionDomain* PdOf(const peer_words* words) {
  return program->pd[peer_number(words, "pd", 0) & 1];
}

// Until `ask`, on the core, has something to say, so long.
template <class Ask>
auto WaitFor(uint64_t ms, Ask ask) -> decltype(ask()) {
  for (uint64_t left = ms * 1000 / kPauseUs;; --left) {
    if (auto found = OnCore(ask)) return found;
    if (left == 0) return {};
    usleep(kPauseUs);
  }
}

void RegisterMemory(const peer_words* words) {
  const auto n = static_cast<size_t>(peer_object(words, "n"));
  auto made = OnCore([&] {
    return program->worker().RegMr(PdOf(words), program->memory + peer_number(words, "at", 0),
                                   peer_number(words, "len", PEER_REGION),
                                   static_cast<int>(peer_number(words, "access", 15)));
  });
  if (!made.ok()) return Answer(made.status());
  program->regions[n] = *made;
  peer_ok("%u %llu", made->key,
          static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(program->memory)));
}

void DeregisterMemory(const peer_words* words) {
  const auto n = static_cast<size_t>(peer_object(words, "n"));
  Answer(OnCore([&] { return program->worker().DeregMr(program->regions[n]); }));
  program->regions[n] = {};
}

void MakeWindow(const peer_words* words) {
  const auto n = static_cast<size_t>(peer_object(words, "n"));
  auto made = OnCore([&] { return program->worker().AllocMw(PdOf(words), IBV_MW_TYPE_2); });
  if (!made.ok()) return Answer(made.status());
  program->windows[n] = *made;
  peer_ok("%u", (*made)->rkey);
}

verbs::EventHandler AsyncHandler() {
  return [](ibv_event_type event) { program->async_events.push_back(event); };
}

void MakeSrq(const peer_words* words) {
  const auto n = static_cast<size_t>(peer_object(words, "n"));
  const ibv_srq_attr attr{.max_wr = PEER_QUEUE, .max_sge = PEER_ELEMENTS, .srq_limit = 0};
  auto made =
      OnCore([&] { return program->worker().CreateSrq(PdOf(words), attr, AsyncHandler()); });
  if (made.ok()) program->srqs[n] = *made;
  Answer(made.status());
}

void LimitSrq(const peer_words* words) {
  const auto n = static_cast<size_t>(peer_object(words, "n"));
  ibv_srq_attr attr{};
  attr.srq_limit = static_cast<uint32_t>(peer_number(words, "limit", 0));
  Answer(OnCore([&] { return program->srqs[n]->Modify(attr, IBV_SRQ_LIMIT); }));
}

absl::Status CreateQp(const peer_words* words, cm::Id* id) {
  verbs::QueuePairInitAttr init;
  init.type = peer_qp_type(words);
  init.pd = PdOf(words);
  init.send_cq = init.recv_cq = program->cq;
  if (peer_text(words, "srq", nullptr) != nullptr) {
    init.srq = program->srqs[static_cast<size_t>(peer_object(words, "srq"))];
  }
  init.cap.max_send_wr = init.cap.max_recv_wr = PEER_QUEUE;
  init.cap.max_send_sge = init.cap.max_recv_sge = PEER_ELEMENTS;
  init.on_event = [id](ibv_event_type event) {
    if (id != nullptr) program->manager().Notify(id, event);
    program->async_events.push_back(event);
  };
  auto made = program->worker().CreateQp(std::move(init));
  if (made.ok()) program->qps[static_cast<size_t>(peer_object(words, "n"))] = *made;
  return made.status();
}

void AnswerQpn(const peer_words* words, const absl::Status& status) {
  if (!status.ok()) return Answer(status);
  peer_ok("%u", program->qps[static_cast<size_t>(peer_object(words, "n"))]->qpn().value);
}

void MakeQp(const peer_words* words) {
  AnswerQpn(words, OnCore([&] { return CreateQp(words, nullptr); }));
}

// On the core.
ibv_ah_attr PathTo(const std::string& address) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.hop_limit = 64;
  const auto to = pollux::ParseAddress(address);
  if (!to.ok()) return attr;
  std::copy(to->raw.begin(), to->raw.end(), attr.grh.dgid.raw);
  for (int index = 0; index < 256; ++index) {
    const absl::StatusOr<Gid> own = program->worker().interface().QueryGid(index);
    if (!own.ok()) break;
    // The first of its kind is the case's.
    if (own->IsIpv4() == to->IsIpv4() && (own->IsIpv4() || own->raw[0] != 0xFE)) {
      attr.grh.sgid_index = static_cast<uint8_t>(index);
      break;
    }
  }
  return attr;
}

void ModifyQp(const peer_words* words, ibv_qp_state state) {
  verbs::QueuePair* qp = program->qps[static_cast<size_t>(peer_object(words, "n"))];
  ibv_qp_attr attr;
  const int mask = peer_qp_attr(words, state, &attr);
  Answer(OnCore([&] {
    if (state == IBV_QPS_RTR) attr.ah_attr = PathTo(peer_text(words, "to", ""));
    return program->worker().ModifyQp(qp, attr, mask);
  }));
}

void QueryState(const peer_words* words) {
  const verbs::QueuePair* qp = program->qps[static_cast<size_t>(peer_object(words, "n"))];
  peer_ok("%d", OnCore([&] { return qp->state(); }));
}

absl::Status CreateAh(size_t n, memory::ProtectionDomain* pd, const ibv_ah_attr& attr) {
  auto made = program->worker().CreateAh(pd, attr);
  if (made.ok()) program->ahs[n] = *made;
  return made.status();
}

void MakeAh(const peer_words* words) {
  const auto n = static_cast<size_t>(peer_object(words, "n"));
  Answer(OnCore([&] { return CreateAh(n, PdOf(words), PathTo(peer_text(words, "to", ""))); }));
}

// Membership of the port, and of the queue pair.
absl::Status ChangeGroup(const peer_words* words, bool join) {
  const auto group = pollux::ParseAddress(peer_text(words, "group", ""));
  if (!group.ok()) return group.status();
  engine::Worker& worker = program->worker();
  verbs::QueuePair* qp = program->qps[static_cast<size_t>(peer_object(words, "n"))];
  absl::Status status =
      join ? worker.AttachMulticast(qp, *group) : worker.DetachMulticast(qp, *group);
  transport::PollContext context = worker.poll_context();
  status.Update(join ? worker.interface().JoinMulticast(*group, context)
                     : worker.interface().LeaveMulticast(*group, context));
  return status;
}

void Attach(const peer_words* words) {
  Answer(OnCore([&] { return ChangeGroup(words, true); }));
}

void Detach(const peer_words* words) {
  Answer(OnCore([&] { return ChangeGroup(words, false); }));
}

uint32_t LkeyOf(const peer_words* words) {
  return program->regions[static_cast<size_t>(peer_object(words, "mr"))].key;
}

void PostRecv(const peer_words* words) {
  ibv_sge sge[PEER_ELEMENTS];
  ibv_recv_wr wr;
  peer_recv_request(words, program->memory, LkeyOf(words), &wr, sge);
  AnswerErrno(OnCore([&] {
    const ibv_recv_wr* bad = nullptr;
    if (peer_text(words, "srq", nullptr) != nullptr) {
      return program->srqs[static_cast<size_t>(peer_object(words, "srq"))]->PostRecv(&wr, &bad);
    }
    return program->qps[static_cast<size_t>(peer_object(words, "qp"))]->PostRecv(&wr, &bad);
  }));
}

int Post(int qp, ibv_send_wr* wr) {
  verbs::FlushWorkRequest flush{};
  if (wr->opcode == verbs::kWrFlush) {
    static_cast<ibv_send_wr&>(flush) = *wr;
    const uint32_t feth = ntohl(wr->imm_data);
    flush.length = peer_flush_bytes(wr);
    flush.placement = static_cast<uint8_t>(feth & 0x0F);
    flush.selectivity = static_cast<uint8_t>(feth >> 4);
    wr = &flush;
  }
  return OnCore([&] {
    const ibv_send_wr* bad = nullptr;
    return program->qps[static_cast<size_t>(qp)]->PostSend(wr, &bad);
  });
}

void BindWindow(const peer_words* words, ibv_send_wr* wr) {
  ibv_mw* window = program->windows[static_cast<size_t>(peer_object(words, "window"))];
  ibv_mr region{};
  region.lkey = LkeyOf(words);
  wr->num_sge = 0;
  wr->bind_mw.mw = window;
  wr->bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wr->bind_mw.bind_info.mr = &region;
  wr->bind_mw.bind_info.addr =
      reinterpret_cast<uintptr_t>(program->memory) + peer_number(words, "at", 0);
  wr->bind_mw.bind_info.length = peer_number(words, "len", 0);
  wr->bind_mw.bind_info.mw_access_flags = static_cast<unsigned>(peer_number(words, "access", 14));
  if (const int error = Post(peer_object(words, "qp"), wr); error != 0) return AnswerErrno(error);
  window->rkey = wr->bind_mw.rkey;
  peer_ok("%u", window->rkey);
}

void PostSend(const peer_words* words) {
  ibv_sge sge[PEER_ELEMENTS];
  ibv_send_wr wr;
  if (peer_send_request(words, program->memory, LkeyOf(words), &wr, sge) != 0) {
    return peer_error("no such op");
  }
  if (wr.opcode == IBV_WR_BIND_MW) return BindWindow(words, &wr);
  if (wr.opcode == IBV_WR_ATOMIC_WRITE) wr.send_flags |= IBV_SEND_INLINE;
  if (peer_text(words, "ah", nullptr) != nullptr) {
    // Rdma-core's type in the request, ours behind the pointer.
    wr.wr.ud.ah = program->ahs[static_cast<size_t>(peer_object(words, "ah"))];
  }
  AnswerErrno(Post(peer_object(words, "qp"), &wr));
}

int PollCq(int count, ibv_wc* wc) {
  return OnCore([&] { return program->cq->Poll(count, wc); });
}

void AsyncEvent(const peer_words* words) {
  const uint64_t wanted = peer_number(words, "type", 0);
  const bool found = WaitFor(peer_number(words, "ms", 0),
                             [wanted] { return std::erase(program->async_events, wanted) != 0; });
  peer_ok("%s", found ? "came" : "none");
}

int NumberOf(const cm::Id* id) {
  const auto found = std::find(program->ids.begin(), program->ids.end(), id);
  return found == program->ids.end() ? -1 : static_cast<int>(found - program->ids.begin());
}

void OnEvent(const cm::Event& event) {
  PastEvent past{.type = event.type, .status = event.status, .id = NumberOf(event.id)};
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    past.id = NumberOf(nullptr);  // the first that is free
    if (past.id >= 0) program->ids[static_cast<size_t>(past.id)] = event.id;
  }
  const bool ud = event.id->port_space() == RDMA_PS_UDP;
  const auto data = ud ? event.ud.private_data : event.param.private_data;
  past.private_data.assign(data.begin(), data.end());
  past.ah_attr = event.ud.ah_attr;
  past.qpn = event.ud.qp_num;
  past.qkey = event.ud.qkey;
  program->events.push_back(std::move(past));
}

void MakeId(const peer_words* words) {
  const auto n = static_cast<size_t>(peer_object(words, "n"));
  auto made = OnCore([&] {
    return program->manager().CreateId(static_cast<rdma_port_space>(peer_port_space(words)),
                                       OnEvent);
  });
  if (made.ok()) program->ids[n] = *made;
  Answer(made.status());
}

cm::Id* IdOf(const peer_words* words) {
  return program->ids[static_cast<size_t>(peer_object(words, "id"))];
}

void Listen(const peer_words* words) {
  Answer(OnCore([&] {
    return program->manager().Listen(IdOf(words),
                                     static_cast<uint16_t>(peer_number(words, "port", 0)), 16);
  }));
}

std::optional<PastEvent> NextEvent() {
  if (program->events.empty()) return std::nullopt;
  PastEvent next = std::move(program->events.front());
  program->events.pop_front();
  return next;
}

absl::Status Step(rdma_cm_event_type wanted) {
  const auto event = WaitFor(2 * kResolveMs, NextEvent);
  if (event && event->type == wanted) return absl::OkStatus();
  return absl::UnavailableError(event ? rdma_event_str(event->type) : "nothing came");
}

absl::Status ResolveBoth(cm::Id* id, const SocketAddress& to) {
  absl::Status status = OnCore([&] { return program->manager().ResolveAddr(id, to, kResolveMs); });
  if (status.ok()) status = Step(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (status.ok()) {
    status = OnCore([&] { return program->manager().ResolveRoute(id, kResolveMs); });
  }
  return status.ok() ? Step(RDMA_CM_EVENT_ROUTE_RESOLVED) : status;
}

void Resolve(const peer_words* words) {
  const auto address = pollux::ParseAddress(peer_text(words, "to", ""));
  if (!address.ok()) return Answer(address.status());
  Answer(ResolveBoth(IdOf(words), {.address = *address,
                                   .port = static_cast<uint16_t>(peer_number(words, "port", 0))}));
}

void MakeCmQp(const peer_words* words) {
  cm::Id* id = IdOf(words);
  std::optional<absl::Status> bound;
  absl::Status status = OnCore([&] {
    if (absl::Status made = CreateQp(words, id); !made.ok()) return made;
    verbs::QueuePair* qp = program->qps[static_cast<size_t>(peer_object(words, "n"))];
    program->manager().BindQp(id, &program->worker(), qp,
                              static_cast<int>(peer_number(words, "access", 15)),
                              [&bound](absl::Status end) { bound = std::move(end); });
    return absl::OkStatus();
  });
  if (status.ok()) {
    const auto end = WaitFor(kResolveMs, [&] { return bound; });
    status = end ? *end : absl::InternalError("the queue pair was not bound");
  }
  AnswerQpn(words, status);
}

// Runs Connect or Accept.
template <class Call>
void WithParam(const peer_words* words, Call call) {
  std::array<uint8_t, PEER_DATA> data;
  cm::ConnectionParam param;
  param.private_data =
      absl::MakeConstSpan(data.data(), peer_bytes(words, "data", data.data(), data.size()));
  param.responder_resources = param.initiator_depth =
      static_cast<uint8_t>(peer_number(words, "rd", 4));
  param.retry_count = static_cast<uint8_t>(peer_number(words, "retry", 7));
  param.rnr_retry_count = static_cast<uint8_t>(peer_number(words, "rnr", 7));
  Answer(OnCore([&] { return call(IdOf(words), param); }));
}

void Connect(const peer_words* words) {
  WithParam(words, [](cm::Id* id, const cm::ConnectionParam& param) {
    return program->manager().Connect(id, param);
  });
}

void Accept(const peer_words* words) {
  WithParam(words, [](cm::Id* id, const cm::ConnectionParam& param) {
    return program->manager().Accept(id, param);
  });
}

void Reject(const peer_words* words) {
  std::array<uint8_t, PEER_DATA> data;
  const size_t size = peer_bytes(words, "data", data.data(), data.size());
  Answer(OnCore([&] { return program->manager().Reject(IdOf(words), {data.data(), size}); }));
}

void Disconnect(const peer_words* words) {
  Answer(OnCore([&] { return program->manager().Disconnect(IdOf(words)); }));
}

// Private data comes with its padding.
void PrintEvent(const PastEvent& event) {
  std::string text =
      absl::StrCat(rdma_event_str(event.type), " ", event.status, " ", event.id, " ");
  if (event.qpn != 0) {
    OnCore([&] {
      CreateAh(static_cast<size_t>(event.id), program->pd[0], event.ah_attr).IgnoreError();
    });
    absl::StrAppend(&text, event.qpn, "/", event.qkey);
  } else {
    text += "-";
  }
  text += " -";
  for (const uint8_t byte : event.private_data) {
    absl::StrAppend(&text, absl::Hex(byte, absl::kZeroPad2));
  }
  peer_ok("%s", text.c_str());
}

void Event(const peer_words* words) {
  const auto event = WaitFor(peer_number(words, "ms", 0), NextEvent);
  if (!event) return peer_ok("none");
  PrintEvent(*event);
}

constexpr peer_command kCommands[] = {
    {"mr", RegisterMemory},
    {"dereg", DeregisterMemory},
    {"mw", MakeWindow},
    {"srq", MakeSrq},
    {"srqlimit", LimitSrq},
    {"qp", MakeQp},
    {"init", [](const peer_words* words) { ModifyQp(words, IBV_QPS_INIT); }},
    {"rtr", [](const peer_words* words) { ModifyQp(words, IBV_QPS_RTR); }},
    {"rts", [](const peer_words* words) { ModifyQp(words, IBV_QPS_RTS); }},
    {"state", QueryState},
    {"ah", MakeAh},
    {"attach", Attach},
    {"detach", Detach},
    {"recv", PostRecv},
    {"send", PostSend},
    {"async", AsyncEvent},
    {"id", MakeId},
    {"listen", Listen},
    {"resolve", Resolve},
    {"cmqp", MakeCmQp},
    {"connect", Connect},
    {"accept", Accept},
    {"reject", Reject},
    {"disconnect", Disconnect},
    {"event", Event},
    {nullptr, nullptr}};

absl::Status Prepare() {
  const auto start = reinterpret_cast<uintptr_t>(program->storage.data());
  program->memory = program->storage.data() + (4096 - start % 4096) % 4096;
  for (auto& pd : program->pd) {
    auto made = program->worker().AllocPd();
    if (!made.ok()) return made.status();
    pd = *made;
  }
  auto cq = program->worker().CreateCq(PEER_COMPLETIONS);
  if (cq.ok()) program->cq = *cq;
  return cq.status();
}

// In the order in which one hangs on the other.
void TakeDown() {
  for (cm::Id* id : program->ids) {
    if (id != nullptr) program->manager().DestroyId(id);
  }
  engine::Worker& worker = program->worker();
  for (verbs::QueuePair* qp : program->qps) {
    if (qp != nullptr) worker.DestroyQp(qp).IgnoreError();
  }
  for (verbs::AddressHandle* ah : program->ahs) {
    if (ah != nullptr) worker.DestroyAh(ah).IgnoreError();
  }
  for (ibv_mw* window : program->windows) {
    if (window != nullptr) worker.DeallocMw(window).IgnoreError();
  }
  for (const memory::MemoryRegion& region : program->regions) {
    if (region.key != 0) worker.DeregMr(region).IgnoreError();
  }
  for (verbs::SharedReceiveQueue* srq : program->srqs) {
    if (srq != nullptr) worker.DestroySrq(srq).IgnoreError();
  }
  worker.DestroyCq(program->cq).IgnoreError();
  for (memory::ProtectionDomain* pd : program->pd) worker.DeallocPd(pd).IgnoreError();
}

absl::Status Run(const PortOptions& port, const std::string& commands) {
  auto node = StartNode(port);
  if (!node.ok()) return node.status();
  Program objects;
  program = &objects;
  objects.node = *std::move(node);
  if (absl::Status status = OnCore(Prepare); !status.ok()) return status;
  std::fprintf(stderr, "listening\n");
  const peer_queues queues{.poll = PollCq, .post = Post, .lkey = LkeyOf};
  const int end = peer_serve(commands.c_str(), objects.memory, kCommands, &queues);
  OnCore(TakeDown);
  objects.node->StopPolling();
  return end == 0 ? absl::OkStatus() : absl::InternalError("the commands cannot be read");
}

int Main(int argc, char** argv) {
  PortOptions port;
  std::string commands;
  Options options("", "The Pollux side of the verbs interop cases.");
  DeclarePortOptions(options, &port);
  options.Text("commands", "FILE", "what to do, see peer/words.h", &commands);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    std::fprintf(stderr, "%s\n", std::string(operands.status().message()).c_str());
    return kExitUsage;
  }
  const absl::Status status = Run(port, commands);
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return kExitFailure;
}

}  // namespace
}  // namespace pollux::tools

int main(int argc, char** argv) { return pollux::tools::Main(argc, argv); }
