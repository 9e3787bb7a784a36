#include "nfs/lock/lock_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "nfs/export/file_handle.h"
#include "nfs/lock/nlm.h"

namespace pollux::nfs {
namespace {

struct flock ToFlock(const ByteRange& range, int type) {
  struct flock lock = {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(range.begin);
  lock.l_len = static_cast<off_t>(range.length());
  return lock;
}

int TypeOf(bool exclusive) { return exclusive ? F_WRLCK : F_RDLCK; }

// Of the open file description: 0 or an errno.
int SetLock(const Fd& file, const ByteRange& range, int type) {
  struct flock lock = ToFlock(range, type);
  return fcntl(file.get(), F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

// Who else holds something there, of those that the table does not know.
std::optional<LockTable::Holder> LocalHolder(const Fd& file, const LockRequest& request) {
  struct flock lock = ToFlock(request.range, TypeOf(request.exclusive));
  if (fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  const auto range =
      ByteRange::From(static_cast<uint64_t>(lock.l_start), static_cast<uint64_t>(lock.l_len));
  return LockTable::Holder{
      .held = {.range = range.value_or(ByteRange()), .exclusive = lock.l_type == F_WRLCK},
      .svid = lock.l_pid > 0 ? static_cast<uint32_t>(lock.l_pid) : 0,
      .oh = {}};
}

}  // namespace

std::list<LockTable::Owned>::iterator LockTable::FindOwned(File& file, const LockOwner& owner) {
  return std::ranges::find(file.owned, owner, &Owned::owner);
}

std::list<LockTable::Waiting>::iterator LockTable::FindWaiting(File& file,
                                                               const LockRequest& request) {
  return std::ranges::find(file.waiting, request, &Waiting::request);
}

bool LockTable::HasRoom(const Gid& address, size_t Amounts::*what, size_t limit) const {
  const size_t taken = all_.*what;
  if (taken >= limit) return false;
  const auto found = addresses_.find(address);
  const size_t own = found == addresses_.end() ? 0 : found->second.*what;
  const size_t of_address =
      limits_.of_address * (what == &Amounts::ranges ? LockLimits::kRangesOfFile : 1);
  return own < (of_address != 0 ? of_address : limit - taken);
}

void LockTable::Count(const Gid& address, size_t Amounts::*what, ptrdiff_t change) {
  if (change == 0) return;
  const auto of_address = addresses_.try_emplace(address).first;
  for (Amounts* amounts : {&all_, &of_address->second}) {
    amounts->*what += static_cast<size_t>(change);
  }
  if (of_address->second == Amounts()) addresses_.erase(of_address);
  waiting_ = all_.waiting;
}

void LockTable::AddEntry(const LockClient& client, size_t Amounts::*what, uint64_t incarnation) {
  OfClient& own = clients_.try_emplace(client, OfClient{.oldest = incarnation}).first->second;
  ++own.entries;
  own.oldest = std::min(own.oldest, incarnation);
  Count(client.address, what, 1);
}

void LockTable::RemoveEntry(const LockClient& client, size_t Amounts::*what) {
  const auto own = clients_.find(client);
  if (--own->second.entries == 0) clients_.erase(own);
  Count(client.address, what, -1);
}

void LockTable::Hold(Owned& own, const ByteRange& range, bool exclusive) {
  const auto before = static_cast<ptrdiff_t>(own.held.all().size());
  own.held.Hold(range, exclusive);
  Count(own.owner.client.address, &Amounts::ranges,
        static_cast<ptrdiff_t>(own.held.all().size()) - before);
}

void LockTable::Remove(const Owned& owned) {
  const LockClient& client = owned.owner.client;
  Count(client.address, &Amounts::ranges, -static_cast<ptrdiff_t>(owned.held.all().size()));
  RemoveEntry(client, &Amounts::files);
}

LockTable::Outcome LockTable::TryLock(File& file, const LockRequest& request, uint64_t incarnation,
                                      Fd* fd) {
  for (const Owned& other : file.owned) {
    if (other.owner == request.owner) continue;
    if (other.held.Conflict(request.range, request.exclusive) != nullptr) return Outcome::kDenied;
  }
  auto own = FindOwned(file, request.owner);
  const bool fresh = own == file.owned.end();
  const Gid& address = request.owner.client.address;
  if (fresh && !HasRoom(address, &Amounts::files, limits_.files)) return Outcome::kNoLocks;
  if (!fresh && own->held.all().size() >= kMaxRanges) return Outcome::kNoLocks;
  const size_t ranges = limits_.files * LockLimits::kRangesOfFile;
  if (!HasRoom(address, &Amounts::ranges, ranges)) return Outcome::kNoLocks;
  const Fd& locked = fresh ? *fd : own->file;
  switch (SetLock(locked, request.range, TypeOf(request.exclusive))) {
    case 0:
      break;
    case EAGAIN:
    case EACCES:
      return Outcome::kDenied;
    case ENOLCK:
    case ENOMEM:
      return Outcome::kNoLocks;
    default:
      return Outcome::kFailed;
  }
  if (fresh) {
    file.owned.push_back({.owner = request.owner, .file = std::move(*fd), .held = {}});
    own = std::prev(file.owned.end());
    AddEntry(request.owner.client, &Amounts::files, incarnation);
  }
  own->incarnation = incarnation;
  OfClient& client = clients_.at(request.owner.client);
  client.oldest = std::min(client.oldest, incarnation);
  Hold(*own, request.range, request.exclusive);
  return Outcome::kGranted;
}

LockTable::Outcome LockTable::Wait(File& file, const LockRequest& request, uint64_t incarnation,
                                   Fd fd) {
  if (FindWaiting(file, request) != file.waiting.end()) return Outcome::kWaiting;
  const LockClient& client = request.owner.client;
  if (!HasRoom(client.address, &Amounts::waiting, limits_.waiting)) return Outcome::kNoLocks;
  file.waiting.push_back({.request = request, .file = std::move(fd), .incarnation = incarnation});
  waited_for_.insert(request.file);
  AddEntry(client, &Amounts::waiting, incarnation);
  return Outcome::kWaiting;
}

LockTable::Outcome LockTable::Lock(const LockRequest& request, bool wait, Fd fd,
                                   uint64_t incarnation, std::atomic<bool>* undecided) {
  const std::lock_guard lock(mutex_);
  // Under the mutex: the call that gives up a request releases locks after that, so it either finds
  // this one or has already set `undecided`.
  if (undecided != nullptr && !undecided->exchange(false)) return Outcome::kDenied;
  const auto file = files_.try_emplace(request.file).first;
  Outcome outcome = TryLock(file->second, request, incarnation, &fd);
  const auto waiting = FindWaiting(file->second, request);
  if (outcome == Outcome::kGranted && waiting != file->second.waiting.end()) {
    EraseWaiting(file->second, waiting);
  }
  if (outcome == Outcome::kGranted) Outlast(file->second, request);
  if (outcome == Outcome::kDenied && wait) {
    outcome = Wait(file->second, request, incarnation, std::move(fd));
  }
  Tidy(file);
  return outcome;
}

std::optional<LockTable::Holder> LockTable::Test(const LockRequest& request, const Fd& fd) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(request.file);
  if (found == files_.end()) return LocalHolder(fd, request);
  File& file = found->second;
  for (const Owned& other : file.owned) {
    if (other.owner == request.owner) continue;
    const HeldRange* held = other.held.Conflict(request.range, request.exclusive);
    if (held != nullptr) return Holder{*held, other.owner.svid, other.owner.oh};
  }
  const auto own = FindOwned(file, request.owner);
  return LocalHolder(own == file.owned.end() ? fd : own->file, request);
}

void LockTable::Release(File& file, const LockOwner& owner, const ByteRange& range) {
  const auto own = FindOwned(file, owner);
  if (own == file.owned.end()) return;
  SetLock(own->file, range, F_UNLCK);
  const auto before = static_cast<ptrdiff_t>(own->held.all().size());
  own->held.Release(range);
  const auto now = static_cast<ptrdiff_t>(own->held.all().size());
  Count(owner.client.address, &Amounts::ranges, now - before);
  if (now != 0) return;
  Remove(*own);
  file.owned.erase(own);
}

void LockTable::EraseWaiting(File& file, std::list<Waiting>::iterator waiting) {
  RemoveEntry(waiting->request.owner.client, &Amounts::waiting);
  const std::string name = waiting->request.file;
  file.waiting.erase(waiting);
  if (file.waiting.empty()) waited_for_.erase(name);
}

void LockTable::EraseShares(File& file,
                            absl::FunctionRef<bool(const ShareRequest& share)> is_wanted) {
  std::erase_if(file.shares, [&](const ShareRequest& share) {
    const bool goes = is_wanted(share);
    if (goes) RemoveEntry(share.client, &Amounts::shares);
    return goes;
  });
}

bool LockTable::HasUnknown(const File& file, const LockRequest& request) {
  return std::ranges::any_of(file.waiting, [&](const Waiting& other) {
    return other.granted != 0 && other.request.owner == request.owner &&
           other.request.range.Overlaps(request.range);
  });
}

void LockTable::Outlast(File& file, const LockRequest& request) {
  HeldRanges taken;
  taken.Hold(request.range, request.exclusive);
  for (Waiting& other : file.waiting) {
    if (other.granted == 0 || other.request.owner != request.owner) continue;
    const HeldRanges within = taken.Within(other.request.range);
    for (const HeldRange& held : within.all()) {
      other.before.Hold(held.range, held.exclusive);
    }
  }
}

void LockTable::TakeBack(File& file, const Waiting& waiting) {
  const LockRequest& request = waiting.request;
  const auto own = FindOwned(file, request.owner);
  if (own == file.owned.end()) return;
  HeldRanges gained;
  gained.Hold(request.range, request.exclusive);
  for (const HeldRange& held : waiting.before.all()) {
    // Nobody else holds any of it: the kernel has no reason to refuse a weaker lock.
    SetLock(own->file, held.range, TypeOf(held.exclusive));
    Hold(*own, held.range, held.exclusive);
    gained.Release(held.range);
  }
  for (const HeldRange& held : gained.all()) Release(file, request.owner, held.range);
}

void LockTable::Unlock(const LockRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(request.file);
  if (found == files_.end()) return;
  File& file = found->second;
  Release(file, request.owner, request.range);
  // A grant that it gives up before it was told of it.
  for (auto waiting = file.waiting.begin(); waiting != file.waiting.end();) {
    const auto at = waiting++;
    if (at->granted != 0 && at->request.owner == request.owner &&
        at->request.range.Overlaps(request.range)) {
      EraseWaiting(file, at);
    }
  }
  GrantWaiting(file);
  Tidy(found);
}

bool LockTable::Cancel(const LockRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(request.file);
  if (found == files_.end()) return false;
  File& file = found->second;
  const auto waiting = FindWaiting(file, request);
  if (waiting == file.waiting.end()) return false;
  if (waiting->granted != 0) TakeBack(file, *waiting);
  EraseWaiting(file, waiting);
  GrantWaiting(file);
  Tidy(found);
  return true;
}

void LockTable::FreeAll(const LockClient& client, uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  const auto known = clients_.find(client);
  if (known == clients_.end() || known->second.oldest >= incarnation) return;
  known->second.oldest = incarnation;
  const auto is_void = [&](const LockClient& of, uint64_t taken_in) {
    return of == client && taken_in < incarnation;
  };
  for (auto at = files_.begin(); at != files_.end();) {
    File& file = at->second;
    std::erase_if(file.owned, [&](const Owned& owned) {
      const bool goes = is_void(owned.owner.client, owned.incarnation);
      if (goes) Remove(owned);
      return goes;
    });
    for (auto waiting = file.waiting.begin(); waiting != file.waiting.end();) {
      const auto one = waiting++;
      if (is_void(one->request.owner.client, one->incarnation)) EraseWaiting(file, one);
    }
    EraseShares(
        file, [&](const ShareRequest& share) { return is_void(share.client, share.incarnation); });
    GrantWaiting(file);
    at = Tidy(at);
  }
}

void LockTable::FreeExport(uint64_t export_id) {
  const std::lock_guard lock(mutex_);
  for (auto at = files_.begin(); at != files_.end();) {
    const auto* const handle = reinterpret_cast<const uint8_t*>(at->first.data());
    if (ClaimedExport({handle, at->first.size()}) != export_id) {
      ++at;
      continue;
    }
    File& file = at->second;
    for (const Owned& owned : file.owned) Remove(owned);
    file.owned.clear();
    while (!file.waiting.empty()) EraseWaiting(file, file.waiting.begin());
    EraseShares(file, [](const ShareRequest&) { return true; });
    at = Tidy(at);
  }
}

bool LockTable::Has(const LockClient& client) {
  const std::lock_guard lock(mutex_);
  return clients_.contains(client);
}

std::map<LockClient, ClientLocks> LockTable::Clients() {
  const std::lock_guard lock(mutex_);
  std::map<LockClient, ClientLocks> clients;
  for (const auto& [handle, file] : files_) {
    std::set<const ClientLocks*> owners;
    for (const Owned& owned : file.owned) {
      ClientLocks& locks = clients[owned.owner.client];
      locks.ranges += owned.held.all().size();
      if (owners.insert(&locks).second) ++locks.files;
    }
    for (const Waiting& waiting : file.waiting) ++clients[waiting.request.owner.client].awaited;
    for (const ShareRequest& share : file.shares) ++clients[share.client].shares;
  }
  return clients;
}

void LockTable::GrantWaiting(File& file) {
  for (Waiting& waiting : file.waiting) {
    // Two at once of one owner could not be taken back one by one.
    if (waiting.granted != 0 || HasUnknown(file, waiting.request)) continue;
    const auto own = FindOwned(file, waiting.request.owner);
    HeldRanges before;
    if (own != file.owned.end()) before = own->held.Within(waiting.request.range);
    if (TryLock(file, waiting.request, waiting.incarnation, &waiting.file) == Outcome::kGranted) {
      waiting.granted = ++last_grant_;
      waiting.before = std::move(before);
    }
  }
}

std::vector<LockTable::Grant> LockTable::TakeGrants() {
  const std::lock_guard lock(mutex_);
  std::vector<Grant> grants;
  for (const std::string& name : waited_for_) {
    File& file = files_.at(name);
    GrantWaiting(file);
    for (Waiting& waiting : file.waiting) {
      if (waiting.granted == 0 || std::exchange(waiting.told, true)) continue;
      grants.push_back({waiting.granted, waiting.request});
    }
  }
  return grants;
}

void LockTable::Told(uint64_t number, bool taken) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : waited_for_) {
    const auto at = files_.find(name);
    File& file = at->second;
    const auto waiting = std::ranges::find(file.waiting, number, &Waiting::granted);
    if (waiting == file.waiting.end()) continue;
    if (!taken) TakeBack(file, *waiting);
    EraseWaiting(file, waiting);
    GrantWaiting(file);
    Tidy(at);
    return;
  }
}

LockTable::Outcome LockTable::Share(const ShareRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.try_emplace(request.file).first;
  std::vector<ShareRequest>& shares = found->second.shares;
  const auto is_own = [&](const ShareRequest& share) {
    return share.client == request.client && share.oh == request.oh;
  };
  const bool denied = std::ranges::any_of(shares, [&](const ShareRequest& share) {
    return !is_own(share) &&
           ((share.mode & request.access) != 0 || (share.access & request.mode) != 0);
  });
  Outcome outcome = Outcome::kDenied;
  if (!denied) {
    EraseShares(found->second, is_own);
    const bool room = HasRoom(request.client.address, &Amounts::shares, limits_.shares);
    outcome = room ? Outcome::kGranted : Outcome::kNoLocks;
  }
  if (outcome == Outcome::kGranted) {
    shares.push_back(request);
    AddEntry(request.client, &Amounts::shares, request.incarnation);
  }
  Tidy(found);
  return outcome;
}

void LockTable::Unshare(const ShareRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(request.file);
  if (found == files_.end()) return;
  EraseShares(found->second, [&](const ShareRequest& share) {
    return share.client == request.client && share.oh == request.oh;
  });
  Tidy(found);
}

LockTable::Files::iterator LockTable::Tidy(Files::iterator file) {
  const File& is = file->second;
  const bool empty = is.owned.empty() && is.waiting.empty() && is.shares.empty();
  return empty ? files_.erase(file) : std::next(file);
}

}  // namespace pollux::nfs
