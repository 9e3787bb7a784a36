// Attributes of a device, a port and a queue pair in the structures of rdma-core. Source:
// ibv_query_device(3), ibv_query_port(3), ibv_query_qp(3). Attributes that do not exist here are 0.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_ATTRIBUTES_H_
#define POLLUX_STACK_ENGINE_OBJECTS_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "stack/io/port/kernel_link.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::engine {

struct DeviceLimits {
  uint32_t queue_pairs = 0;
  uint32_t objects = 0;  // of each other kind
  uint32_t regions = 0;  // including windows
  uint8_t ports = 0;
};

ibv_device_attr DeviceAttributes(const DeviceLimits& limits);
ibv_port_attr PortAttributes(const io::LinkState& link, ibv_mtu mtu);
void QueuePairAttributes(const verbs::QueuePair& qp, ibv_qp_attr* attr, ibv_qp_init_attr* init);

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_ATTRIBUTES_H_
