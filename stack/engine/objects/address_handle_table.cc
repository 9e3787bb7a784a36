#include "stack/engine/objects/address_handle_table.h"

#include <utility>

#include "stack/engine/objects/object_table.h"

namespace pollux::engine {

absl::StatusOr<verbs::AddressHandle*> AddressHandleTable::Create(memory::ProtectionDomain* pd,
                                                                 const ibv_ah_attr& attr,
                                                                 ip::Interface* interface,
                                                                 transport::PollContext& context) {
  if (handles_.size() >= max_) return Full("address handle", max_);
  absl::StatusOr<verbs::AddressHandle> made = interface->MakeAddressHandle(attr, context);
  if (!made.ok()) return made.status();
  auto ah = std::make_unique<verbs::AddressHandle>(*made);
  ah->pd = reinterpret_cast<ibv_pd*>(pd);
  ++pd->use_count;
  verbs::AddressHandle* raw = ah.get();
  handles_.emplace(raw, Handle{std::move(ah), interface});
  return raw;
}

absl::Status AddressHandleTable::Destroy(verbs::AddressHandle* ah) {
  const auto found = handles_.find(ah);
  if (found == handles_.end()) return NotOurs("address handle");
  found->second.interface->Release(*ah);
  --reinterpret_cast<memory::ProtectionDomain*>(ah->pd)->use_count;
  handles_.erase(found);
  return absl::OkStatus();
}

}  // namespace pollux::engine
