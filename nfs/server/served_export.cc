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
ServedExports::ServedExports(const HandleKey& key)
    : key_(key), table_(std::make_shared<ExportTable>()) {
  for (size_t i = 0; i < kMaxServedExports; ++i) all_.push_back(std::make_unique<ServedExport>());
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
  const absl::StatusOr<HandleKey> key = HandleKey::Load(key_file);
  if (!key.ok()) return key.status();
  std::unique_ptr<ServedExports> opened(new ServedExports(*key));
  auto table = opened->Prepare(exports);
  if (!table.ok()) return table.status();
  opened->Publish(*std::move(table));
  return opened;
}

absl::StatusOr<ExportTrees> ServedExports::OpenTrees(const std::vector<Export>& exports,
                                                     const HandleKey& key) {
  if (exports.size() > kMaxServedExports) {
    return absl::InvalidArgumentError(
        absl::StrCat(exports.size(), " exports given; at most ", kMaxServedExports, " are served"));
  }
  ExportTrees trees;
  for (const Export& exported : exports) {
    auto tree = ExportTree::Open(exported, key);
    if (!tree.ok()) return tree.status();
    if (std::ranges::count(trees, (*tree)->id(), &ExportTree::id) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(exported.directory, " is exported twice"));
    }
    trees.push_back(*std::move(tree));
  }
  return trees;
}

absl::StatusOr<std::shared_ptr<const ExportTable>> ServedExports::Prepare(
    const std::vector<Export>& exports) {
  const auto trees = OpenTrees(exports, key_);
  if (!trees.ok()) return trees.status();
  return PrepareTrees(*trees);
}

absl::StatusOr<std::shared_ptr<const ExportTable>> ServedExports::PrepareTrees(
    const ExportTrees& trees) {
  std::vector<uint64_t> kept;
  for (const auto& tree : trees) kept.push_back(tree->id());
  auto table = std::make_shared<ExportTable>();
  for (const auto& tree : trees) {
    ServedExport* const served = Place(*tree, kept, *table);
    if (served->storage == nullptr) {
      auto storage = Storage::Start();
      if (!storage.ok()) return storage.status();
      served->storage = *std::move(storage);
    }
    table->push_back({served, tree});
  }
  return table;
}

ServedExport* ServedExports::Place(const ExportTree& tree, const std::vector<uint64_t>& kept,
                                   const ExportTable& taken) const {
  const std::lock_guard lock(mutex_);
  const auto has = [](const std::vector<ExportEntry>& entries, const ServedExport* served) {
    return std::ranges::count(entries, served, &ExportEntry::served) > 0;
  };
  std::vector<const ServedExport*> removed;
  for (const ExportEntry& entry : *table_) {
    if (entry.tree->id() == tree.id()) return entry.served;
    if (std::ranges::count(kept, entry.tree->id()) == 0) removed.push_back(entry.served);
  }
  // As calls to a removed export may stall, its place is the last choice.
  ServedExport* last = nullptr;
  for (const auto& served : all_) {
    if (has(taken, served.get())) continue;
    if (!has(*table_, served.get())) {
      if (!has(replaced_, served.get())) return served.get();
      last = served.get();
    } else if (last == nullptr && std::ranges::count(removed, served.get()) > 0) {
      last = served.get();
    }
  }
  return last;
}

void ServedExports::Publish(std::shared_ptr<const ExportTable> table) {
  const std::lock_guard lock(mutex_);
  replaced_.insert(replaced_.end(), table_->begin(), table_->end());
  table_ = std::move(table);
}

std::vector<ExportEntry> ServedExports::TakeUnused() {
  std::vector<ExportEntry> unused;
  const std::lock_guard lock(mutex_);
  std::erase_if(replaced_, [&](ExportEntry& entry) {
    if (entry.tree.use_count() > 1) return false;
    unused.push_back(std::move(entry));
    return true;
  });
  return unused;
}

std::shared_ptr<const ExportTable> ServedExports::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

bool ServedExports::Admit(const Gid& client) const {
  return std::ranges::any_of(*table(), [&](const ExportEntry& entry) {
    return entry.tree->exported().RightsOf(client) != nullptr;
  });
}

size_t ServedExports::control_work() const {
  size_t count = 0;
  for (const auto& served : all_) {
    if (served->storage != nullptr) count += served->storage->control_work();
  }
  return count;
}

std::optional<ExportEntry> ServedExports::Find(uint64_t id) const {
  for (const ExportEntry& entry : *table()) {
    if (entry.tree->id() == id) return entry;
  }
  return std::nullopt;
}

}  // namespace pollux::nfs
