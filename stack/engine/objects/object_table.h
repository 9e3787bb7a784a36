// The common parts of the tables of a worker's objects.
#ifndef POLLUX_STACK_ENGINE_OBJECTS_OBJECT_TABLE_H_
#define POLLUX_STACK_ENGINE_OBJECTS_OBJECT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace pollux::engine {

// The errors that the tables return.
inline absl::Status Full(const char* what, uint32_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s: all %u of this worker are in use", what, limit));
}
inline absl::Status NoMemory(const char* what) {
  return absl::ResourceExhaustedError(absl::StrFormat("%s: no memory for it", what));
}
inline absl::Status NotOurs(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: null, or not an object of this worker", what));
}

// Destroyed objects that have event handlers, kept until the poll ends: their own handler may have
// destroyed them.
using DestroyedObjects = std::vector<std::shared_ptr<void>>;

// Objects of one kind, found by their address. Pointers stay valid until the object is taken out.
template <class T>
class ObjectTable {
 public:
  // `what` names an object in error messages; it must be a literal.
  explicit ObjectTable(const char* what, uint32_t max = UINT32_MAX) : what_(what), max_(max) {}

  size_t size() const { return objects_.size(); }
  bool contains(T* object) const { return objects_.contains(object); }
  // Returns OK or ResourceExhausted.
  absl::Status CheckRoom() const {
    return objects_.size() < max_ ? absl::OkStatus() : Full(what_, max_);
  }
  // Returns OK or InvalidArgument.
  absl::Status CheckContains(T* object) const {
    return contains(object) ? absl::OkStatus() : NotOurs(what_);
  }
  T* Add(std::unique_ptr<T> object) {
    T* const raw = object.get();
    objects_.emplace(raw, std::move(object));
    return raw;
  }
  // `object` must be in the table.
  std::unique_ptr<T> Take(T* object) {
    const auto found = objects_.find(object);
    std::unique_ptr<T> taken = std::move(found->second);
    objects_.erase(found);
    return taken;
  }

 private:
  const char* what_;
  uint32_t max_;
  absl::flat_hash_map<T*, std::unique_ptr<T>> objects_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_OBJECTS_OBJECT_TABLE_H_
