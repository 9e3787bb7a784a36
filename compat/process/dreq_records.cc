#include "compat/process/dreq_records.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/connection/config.h"
#include "cm/gsi/mad_frame.h"
#include "compat/process/forked_child.h"

namespace pollux::compat {

static_assert(DreqFile::kRecords >= cm::ManagerConfig{}.max_ids);
static_assert(DreqFile::kMaxFrameBytes >= cm::kMaxMadFrameBytes);

absl::StatusOr<std::unique_ptr<DreqRecords>> DreqRecords::Create() {
  Fd fd(memfd_create("pollux-dreqs", MFD_CLOEXEC));
  void* mapped = MAP_FAILED;
  if (fd.ok() && ftruncate(fd.get(), sizeof(DreqFile)) == 0) {
    mapped = mmap(nullptr, sizeof(DreqFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory for the DREQs of connections: ", std::strerror(errno)));
  }
  return std::unique_ptr<DreqRecords>(
      new DreqRecords(std::move(fd), static_cast<DreqFile*>(mapped)));
}

DreqRecords::DreqRecords(Fd fd, DreqFile* file) : fd_(std::move(fd)), file_(file) {
  free_.reserve(DreqFile::kRecords);
}

DreqRecords::~DreqRecords() { munmap(file_, sizeof(DreqFile)); }

uint32_t DreqRecords::Keep(std::span<const uint8_t> frame) {
  if (ForkedChild::Is() || frame.empty() || frame.size() > DreqFile::kMaxFrameBytes)
    return kNowhere;
  uint32_t place = file_->used.load(std::memory_order_relaxed);
  if (!free_.empty()) {
    place = free_.back();
    free_.pop_back();
  } else if (place == DreqFile::kRecords) {
    return kNowhere;
  }
  DreqFile::Record& record = file_->records[place];
  std::ranges::copy(frame, record.frame);
  record.bytes.store(static_cast<uint32_t>(frame.size()), std::memory_order_release);
  if (place == file_->used.load(std::memory_order_relaxed)) {
    file_->used.store(place + 1, std::memory_order_release);
  }
  return place;
}

void DreqRecords::Forget(uint32_t place) {
  if (ForkedChild::Is()) return;
  file_->records[place].bytes.store(0, std::memory_order_release);
  free_.push_back(place);
}

}  // namespace pollux::compat
