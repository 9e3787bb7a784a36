// The address handles of a worker.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_ADDRESS_HANDLE_TABLE_H_
#define POLLUX_STACK_ENGINE_OBJECTS_ADDRESS_HANDLE_TABLE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stack/ip/interface.h"
#include "stack/memory/protection_domain.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/address_handle.h"

namespace pollux::engine {

// Implements calls of Worker, which describes them.
class AddressHandleTable {
 public:
  explicit AddressHandleTable(uint32_t max) : max_(max) {}

  // `pd` is the worker's. `interface` is that of the handle's port and must outlive the handle.
  absl::StatusOr<verbs::AddressHandle*> Create(memory::ProtectionDomain* pd,
                                               const ibv_ah_attr& attr, ip::Interface* interface,
                                               transport::PollContext& context);
  absl::Status Destroy(verbs::AddressHandle* ah);
  size_t size() const { return handles_.size(); }

 private:
  struct Handle {
    std::unique_ptr<verbs::AddressHandle> handle;
    ip::Interface* interface;
  };

  uint32_t max_;
  absl::flat_hash_map<verbs::AddressHandle*, Handle> handles_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_ADDRESS_HANDLE_TABLE_H_
