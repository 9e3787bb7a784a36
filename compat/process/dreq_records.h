// Keeps the DREQs of this process's connections in memory that survives the process.
#ifndef POLLUX_COMPAT_PROCESS_DREQ_RECORDS_H_
#define POLLUX_COMPAT_PROCESS_DREQ_RECORDS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "cm/connection/dreq_keeper.h"
#include "compat/process/dreq_file.h"
#include "stack/base/fd.h"

namespace pollux::compat {

// Does not allocate heap memory after creation.
class DreqRecords final : public cm::DreqKeeper {
 public:
  static absl::StatusOr<std::unique_ptr<DreqRecords>> Create();
  ~DreqRecords() override;
  DreqRecords(const DreqRecords&) = delete;
  DreqRecords& operator=(const DreqRecords&) = delete;

  // Both do nothing in a forked child, because the connections belong to its parent.
  uint32_t Keep(std::span<const uint8_t> frame) override;
  void Forget(uint32_t place) override;

  // A DreqFile, for the supervisor to inherit.
  int fd() const { return fd_.get(); }
  const DreqFile& file() const { return *file_; }

 private:
  DreqRecords(Fd fd, DreqFile* file);

  Fd fd_;
  DreqFile* const file_;
  std::vector<uint32_t> free_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_DREQ_RECORDS_H_
