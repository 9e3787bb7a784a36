#include "nfs/listing.h"

#include "rpcrdma/xdr.h"

namespace pollux::nfs {
namespace {

constexpr size_t kWord = 4;
constexpr size_t kHyper = 8;
constexpr size_t kFattr3 = 84;

}  // namespace

size_t ListedBytes(const Entry3& entry) {
  return kWord + kHyper + kWord + rpcrdma::XdrRoundUp(entry.name.text.size()) + kHyper;
}

size_t ListedBytes(const Entryplus3& entry) {
  const size_t attributes = kWord + (entry.name_attributes.has_value() ? kFattr3 : 0);
  size_t handle = kWord;
  if (entry.name_handle.has_value()) {
    handle += kWord + rpcrdma::XdrRoundUp(entry.name_handle->size);
  }
  return ListedBytes(Entry3{.name = entry.name}) + attributes + handle;
}

size_t EmptyListBytes(bool with_attributes) {
  return kWord + (with_attributes ? kFattr3 : 0) + kHyper + kWord + kWord;
}

}  // namespace pollux::nfs
