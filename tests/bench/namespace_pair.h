// Two network namespaces with a veth pair between them: a wire of the kernel's, within one process.
#ifndef POLLUX_TESTS_BENCH_NAMESPACE_PAIR_H_
#define POLLUX_TESTS_BENCH_NAMESPACE_PAIR_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pollux::bench {

// They go with it, and with the last socket that was made there.
class NamespacePair {
 public:
  static constexpr char kFirstEnd[] = "veth0";
  static constexpr char kSecondEnd[] = "veth1";
  static constexpr uint32_t kFirstAddress = 0xC6120001;   // 198.18.0.1
  static constexpr uint32_t kSecondAddress = 0xC6120002;  // 198.18.0.2

  // PermissionDenied where the process may not make any.
  static absl::StatusOr<std::unique_ptr<NamespacePair>> Make();
  ~NamespacePair();
  NamespacePair(const NamespacePair&) = delete;
  NamespacePair& operator=(const NamespacePair&) = delete;

  // Runs `work`, on a thread whose sockets are made there, to its end.
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
