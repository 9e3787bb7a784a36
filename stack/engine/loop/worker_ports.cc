// The ports of a worker and their links.
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/loop/worker_parts.h"

namespace pollux::engine {

void Worker::AddPort(ip::Interface* interface, io::Link* link, std::string name,
                     io::Steering* steering) {
  const auto port_num = static_cast<uint8_t>(ports_.size() + 1);
  ports_.push_back(
      std::make_unique<Port>(this, port_num, interface, link, std::move(name), steering));
  interface->SetProgressSource([this, port_num](ip::NeighbourTable::ProgressReport report) {
    ReportProgress(port_num, report);
  });
}

void Worker::ReportProgress(uint8_t port_num, ip::NeighbourTable::ProgressReport report) {
  qps_.VisitNumbers(Qpn{0}, [&](Qpn qpn) {
    Slot& slot = SlotOf(qps_.FindEndpoint(qpn)->qp);
    // Links of other ports belong to other neighbour tables.
    if (slot.path_port_num == port_num && slot.endpoint->TakeProgress()) {
      report(slot.endpoint->qp.path.link);
    }
    return true;
  });
}

ip::Interface& Worker::interface(uint8_t port_num) { return *ports_[port_num - 1]->interface; }

const transport::Counters& Worker::counters(uint8_t port_num) const {
  return ports_[port_num - 1]->counters;
}

transport::PollContext Worker::poll_context(uint8_t port_num) {
  return Context(*ports_[port_num - 1]);
}

void Worker::WatchLink(LinkWatch::Look look, uint8_t port_num) {
  ports_[port_num - 1]->link_watch.Start(&wheel_, now_ns_, std::move(look));
}

ibv_device_attr Worker::QueryDevice() const {
  return DeviceAttributes({.queue_pairs = config_.max_queue_pairs,
                           .objects = config_.max_objects,
                           .regions = memory_.regions().capacity(),
                           .ports = static_cast<uint8_t>(ports_.size())});
}

absl::StatusOr<ibv_port_attr> Worker::QueryPort(uint8_t port_num) const {
  if (port_num == 0 || port_num > ports_.size()) return NoSuchPort(port_num);
  const Port& port = *ports_[port_num - 1];
  return PortAttributes(port.link_watch.state(), port.interface->active_mtu());
}

absl::StatusOr<Worker::Port*> Worker::FindPort(uint8_t port_num) {
  const size_t index = port_num == 0 ? 0 : port_num - 1;
  if (index < ports_.size()) return ports_[index].get();
  return NoSuchPort(port_num);
}

absl::Status Worker::NoSuchPort(uint8_t port_num) const {
  return absl::InvalidArgumentError(
      absl::StrFormat("no port %u; this worker has %u, numbered from 1", port_num, ports_.size()));
}

}  // namespace pollux::engine
