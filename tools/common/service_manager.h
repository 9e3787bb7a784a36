// Notifies the service manager that has started the service (sd_notify(3)), if there is one.
#ifndef POLLUX_TOOLS_COMMON_SERVICE_MANAGER_H_
#define POLLUX_TOOLS_COMMON_SERVICE_MANAGER_H_

#include "tools/common/node.h"

namespace pollux::tools {

class ServiceManager {
 public:
  // The service is ready; `node` outlives this object.
  explicit ServiceManager(Node* node);
  // The service is stopping.
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // If every worker still polls, keeps the manager's watchdog from restarting the service: waits
  // until each worker has run a message posted to it. Must not be called on a worker's core.
  void Heartbeat();
  // Tell the manager that the service reads its configuration again, and that it has done so, as
  // Type=notify-reload expects.
  void Reloading();
  void Reloaded();
  // How often to call Heartbeat(), in milliseconds: at most every second.
  int heartbeat_ms() const { return heartbeat_ms_; }

 private:
  Node* node_;
  bool watched_ = false;
  int heartbeat_ms_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_SERVICE_MANAGER_H_
