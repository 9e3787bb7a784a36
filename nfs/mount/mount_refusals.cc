#include "nfs/mount/mount_refusals.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

}  // namespace

void MountRefusals::Write(const Gid& client, std::string_view path, std::string_view why) {
  if (log_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  std::pair<Gid, std::string> refused(client, path);
  if (std::ranges::find(written_, refused) != written_.end()) return;
  if (!budget_.Take(NowNs())) return;
  written_.push_back(std::move(refused));
  if (written_.size() > kMaxRemembered) written_.pop_front();
  // The path is the client's choice: no byte of it may move a terminal's cursor.
  std::string line = absl::StrCat(FormatAddress(client), " may not mount \"",
                                  absl::CEscape(View(path)), "\": ", View(why));
  if (const uint64_t left_out = budget_.TakeLeftOut(); left_out > 0) {
    absl::StrAppend(&line, "; ", left_out, " more mounts were refused before this one");
  }
  log_(line);
}

}  // namespace pollux::nfs
