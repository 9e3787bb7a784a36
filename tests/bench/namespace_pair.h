// Two network namespaces connected by a veth pair: a wire of the kernel within one process.
#ifndef POLLUX_TESTS_BENCH_NAMESPACE_PAIR_H_
#define POLLUX_TESTS_BENCH_NAMESPACE_PAIR_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pollux::bench {

// The namespaces are removed when this object and the last socket created in them are destroyed.
class NamespacePair {
 public:
  static constexpr char kFirstEnd[] = "veth0";
  static constexpr char kSecondEnd[] = "veth1";
  static constexpr uint32_t kFirstAddress = 0xC6120001;   // 198.18.0.1
  static constexpr uint32_t kSecondAddress = 0xC6120002;  // 198.18.0.2

  // PermissionDenied if the process may not create namespaces.
  static absl::StatusOr<std::unique_ptr<NamespacePair>> Make();
  ~NamespacePair();
  NamespacePair(const NamespacePair&) = delete;
  NamespacePair& operator=(const NamespacePair&) = delete;

  // Run `work` on a thread in the namespace, and wait for its end.
  absl::Status InFirst(absl::FunctionRef<void()> work) const { return In(first_, work); }
  absl::Status InSecond(absl::FunctionRef<void()> work) const { return In(second_, work); }

 private:
  NamespacePair() = default;
  static absl::Status In(int space, absl::FunctionRef<void()> work);

  int first_ = -1;
  int second_ = -1;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_NAMESPACE_PAIR_H_
