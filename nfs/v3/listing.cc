#include "nfs/v3/listing.h"

#include "oncrpc/xdr.h"

namespace pollux::nfs {
namespace {

constexpr size_t kWordBytes = 4;
constexpr size_t kHyperBytes = 8;
constexpr size_t kFattr3 = 84;

}  // namespace

size_t ListedBytes(const Entry3& entry) {
  return kWordBytes + kHyperBytes + kWordBytes + oncrpc::XdrRoundUp(entry.name.text.size()) +
         kHyperBytes;
}

size_t ListedBytes(const Entryplus3& entry) {
  const size_t attributes = kWordBytes + (entry.name_attributes.has_value() ? kFattr3 : 0);
  size_t handle = kWordBytes;
  if (entry.name_handle.has_value()) {
    handle += kWordBytes + oncrpc::XdrRoundUp(entry.name_handle->size);
  }
  return ListedBytes(Entry3{.name = entry.name}) + attributes + handle;
}

size_t EmptyListBytes(bool with_attributes) {
  return kWordBytes + (with_attributes ? kFattr3 : 0) + kHyperBytes + kWordBytes + kWordBytes;
}

}  // namespace pollux::nfs
