#include "nfs/lock/lock_granter.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "nfs/export/file_handle.h"

namespace pollux::nfs {
namespace {

// How often it is looked for locks that this host's programs have given up: they do not say.
constexpr auto kLookAgain = std::chrono::seconds(1);

}  // namespace

std::shared_ptr<LockGranter> LockGranter::Start(const ServedExports* exports, LockTables* tables,
                                                Tell tell) {
  std::shared_ptr<LockGranter> granter(new LockGranter(exports, tables, std::move(tell)));
  for (size_t i = 0; i < kThreads; ++i) {
    granter->threads_.emplace_back([raw = granter.get()] { raw->Work(); });
  }
  return granter;
}

void LockGranter::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void LockGranter::Deliver(ServedExport* served) {
  LockTable& table = tables_->Of(*served);
  if (table.waiting() == 0) return;
  std::vector<LockTable::Grant> grants = table.TakeGrants();
  const std::lock_guard lock(mutex_);
  for (LockTable::Grant& grant : grants) {
    pending_.push_back({.served = served, .grant = std::move(grant), .taken = {}});
  }
  if (!grants.empty()) changed_.notify_all();
}

std::deque<LockGranter::Pending>::iterator LockGranter::FindNext() {
  return std::ranges::find_if(
      pending_, [this](const Pending& one) { return !told_.contains(ClientOf(one)); });
}

void LockGranter::Work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto found = FindNext();
    if (found == pending_.end()) {
      changed_.wait_for(lock, kLookAgain,
                        [this] { return ending_ || FindNext() != pending_.end(); });
      LookAgainIfDue(&lock);
      continue;
    }
    Pending next = std::move(*found);
    pending_.erase(found);
    const Gid client = ClientOf(next);
    told_.insert(client);
    lock.unlock();
    const bool handled = Handle(next);
    lock.lock();
    told_.erase(client);
    changed_.notify_all();
    if (handled) continue;
    pending_.push_back(std::move(next));
    changed_.wait_for(lock, kLookAgain, [this] { return ending_; });
  }
}

void LockGranter::LookAgainIfDue(std::unique_lock<std::mutex>* lock) {
  const auto now = std::chrono::steady_clock::now();
  if (ending_ || now < look_at_) return;
  look_at_ = now + kLookAgain;
  lock->unlock();
  LookAgain();
  lock->lock();
}

bool LockGranter::IsAdmitted(const Pending& pending) const {
  const std::string& file = pending.grant.request.file;
  const auto entry =
      exports_->Find(ClaimedExport({reinterpret_cast<const uint8_t*>(file.data()), file.size()}));
  return entry.has_value() && entry->served == pending.served &&
         entry->tree->exported().RightsOf(ClientOf(pending)) != nullptr;
}

bool LockGranter::Handle(Pending& pending) {
  if (!pending.taken.has_value()) {
    pending.taken = IsAdmitted(pending) && tell_(pending.grant.request);
  }
  return pending.served->storage->RunControl([self = shared_from_this(), served = pending.served,
                                              number = pending.grant.number,
                                              taken = *pending.taken](Identity&) {
    self->tables_->Of(*served).Told(number, taken);
    self->Deliver(served);
  });
}

void LockGranter::LookAgain() {
  for (const ExportEntry& entry : *exports_->table()) {
    if (tables_->Of(*entry.served).waiting() == 0) continue;
    entry.served->storage->RunControl(
        [self = shared_from_this(), served = entry.served](Identity&) { self->Deliver(served); });
  }
}

}  // namespace pollux::nfs
