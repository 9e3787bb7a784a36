#include "nfs/server/served_export.h"

#include <sodium.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/export/identity.h"
#include "oncrpc/udp_service.h"

namespace pollux::nfs {

// Exports that stall leave room for the calls of others.
static_assert(oncrpc::UdpService::kMaxUnanswered >
              kMaxServedExports * (Storage::kMaxControlCalls + Storage::kThreads));

// Another one than of any server before.
ServedExports::ServedExports(const HandleKey& key) : key_(key) {
  uint64_t verifier = 0;
  randombytes_buf(&verifier, sizeof(verifier));
  verifier_ = verifier;
}

absl::Status ServedExports::CheckRights() {
  absl::Status status;
  // On a thread of its own, whose rights it changes.
  std::thread([&status] { status = Identity().Begin(); }).join();
  return status;
}

absl::StatusOr<std::unique_ptr<ServedExports>> ServedExports::Open(
    const std::vector<Export>& exports, const std::string& key_file) {
  if (exports.empty() || exports.size() > kMaxServedExports) {
    return absl::InvalidArgumentError(absl::StrCat(exports.size(), " exports given; give 1 to ",
                                                   kMaxServedExports, " with --export DIR:rw"));
  }
  const absl::StatusOr<HandleKey> key = HandleKey::Load(key_file);
  if (!key.ok()) return key.status();
  std::unique_ptr<ServedExports> opened(new ServedExports(*key));
  for (const Export& exported : exports) {
    auto tree = ExportTree::Open(exported, &opened->key_);
    if (!tree.ok()) return tree.status();
    if (opened->Find((*tree)->id()) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(exported.directory, " is exported twice"));
    }
    auto storage = Storage::Start();
    if (!storage.ok()) return storage.status();
    auto served = std::make_unique<ServedExport>();
    served->tree = *std::move(tree);
    served->storage = *std::move(storage);
    opened->exports_.push_back(std::move(served));
  }
  return opened;
}

bool ServedExports::Admit(const Gid& client) const {
  return std::ranges::any_of(
      exports_, [&](const auto& served) { return served->tree->exported().Admits(client); });
}

size_t ServedExports::control_work() const {
  size_t count = 0;
  for (const auto& served : exports_) count += served->storage->control_work();
  return count;
}

ServedExport* ServedExports::Find(uint64_t id) const {
  for (const auto& served : exports_) {
    if (served->tree->id() == id) return served.get();
  }
  return nullptr;
}

}  // namespace pollux::nfs
