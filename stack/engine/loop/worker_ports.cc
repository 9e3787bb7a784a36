// The ports of a worker and their links.
#include <algorithm>
#include <utility>

#include "stack/engine/loop/worker.h"
#include "stack/engine/loop/worker_parts.h"

namespace pollux::engine {

void Worker::AddPort(ip::Interface* interface, io::Link* link, std::string name,
                     io::Steering* steering) {
  const auto port_num = static_cast<uint8_t>(ports_.size() + 1);
  ports_.push_back(
      std::make_unique<Port>(this, port_num, interface, link, std::move(name), steering));
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

void Worker::RemovePortObserver(PortObserver* observer) {
  std::replace(port_observers_.begin(), port_observers_.end(), observer,
               static_cast<PortObserver*>(nullptr));
}

// By index: who is told may add and remove observers, itself too.
void Worker::TellPortEvent(const Port& port, ibv_event_type event) {
  for (size_t i = 0; i < port_observers_.size(); ++i) {
    if (port_observers_[i] != nullptr) port_observers_[i]->OnPortEvent(port.port_num, event);
  }
  std::erase(port_observers_, nullptr);
}

}  // namespace pollux::engine
