// The locks that NFS clients hold or wait for on the files of one export.
#ifndef POLLUX_NFS_LOCK_LOCK_TABLE_H_
#define POLLUX_NFS_LOCK_LOCK_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nfs/lock/held_ranges.h"
#include "stack/base/fd.h"
#include "stack/base/types.h"

namespace pollux::nfs {

// A host that holds locks: its address, and the name that it states.
struct LockClient {
  Gid address;
  std::string name;
  friend auto operator<=>(const LockClient&, const LockClient&) = default;
};

// The locks of one client in one export, or in all exports.
struct ClientLocks {
  size_t files = 0;    // with locked ranges
  size_t ranges = 0;   // held by its processes
  size_t awaited = 0;  // requests that wait, or whose grant the client has not confirmed
  size_t shares = 0;
};

// Limits of an export, for all clients together. An address can get one more of each while it has
// fewer than are free, or while it has fewer than `of_address` if that is not 0. Client names do
// not count, since a client chooses its own.
struct LockLimits {
  size_t files = 16'384;   // locked ones, counted once per owner; each stays open
  size_t waiting = 4'096;  // requests; each keeps its file open
  size_t shares = 16'384;
  size_t of_address = 0;
  // Ranges per locked file on average; a file may have more.
  static constexpr size_t kRangesOfFile = 16;
};

// A process of a client, as the owner of locks.
struct LockOwner {
  LockClient client;
  uint32_t svid = 0;
  std::string oh;
  friend bool operator==(const LockOwner&, const LockOwner&) = default;
};

struct LockRequest {
  std::string file;  // the file handle
  LockOwner owner;
  ByteRange range;
  bool exclusive = false;
  // The address of this host to which the client sent it; zero if that is unknown. A client that
  // repeats a request may send it to another one, so it is not compared.
  Gid server = {};

  friend bool operator==(const LockRequest& one, const LockRequest& other) {
    return one.file == other.file && one.owner == other.owner && one.range == other.range &&
           one.exclusive == other.exclusive;
  }
};

// A share reservation: the access that its owner uses, and the access that it denies to others
// (kFsh4Read, kFsh4Write).
struct ShareRequest {
  std::string file;
  LockClient client;
  std::string oh;
  uint32_t access = 0;
  uint32_t mode = 0;
  uint64_t incarnation = 0;  // of the client; see LockClients
};

// Thread-safe; for threads that may access the export's file system. Every lock is also taken on
// the file itself, as an open file description lock, so programs of this host and NFS clients see
// each other's locks.
class LockTable {
 public:
  static constexpr size_t kMaxRanges = 1024;  // per owner and file

  explicit LockTable(const LockLimits& limits = {}) : limits_(limits) {}

  enum class Outcome : uint8_t {
    kGranted,
    kDenied,   // another owner holds it
    kWaiting,  // TakeGrants() returns it when it is granted
    kNoLocks,  // a limit of this table or of the kernel is reached
    kFailed,   // the file cannot be locked in this way
  };
  struct Holder {
    HeldRange held;
    uint32_t svid = 0;
    std::string oh;
  };
  // A lock that was granted after another owner released it, and of which its owner has not been
  // notified yet.
  struct Grant {
    uint64_t number = 0;
    LockRequest request;
  };

  // Takes a lock. `file` must be open for reading, and for writing if that is possible. With
  // `wait`, a request that cannot be granted is queued, at most once. `incarnation` is the
  // client's; see LockClients. `undecided`, if given, is set to false; if it was false before, the
  // request is denied and changes nothing.
  Outcome Lock(const LockRequest& request, bool wait, Fd file, uint64_t incarnation = 0,
               std::atomic<bool>* undecided = nullptr);
  // Returns the holder of a conflicting lock, or nothing. A program of this host has no `oh`.
  std::optional<Holder> Test(const LockRequest& request, const Fd& file);
  // Releases shared and exclusive locks of the owner in the range.
  void Unlock(const LockRequest& request);
  // Cancels a waiting request; returns false if there is none. If it was granted without its
  // owner's knowledge, the lock is released, except for what the owner held there before.
  bool Cancel(const LockRequest& request);
  // Frees locks, shares and waiting requests of incarnations before this one.
  void FreeAll(const LockClient& client, uint64_t incarnation);
  // Frees the locks, shares and waiting requests of all clients on the files of an export with this
  // number, which is no longer served.
  void FreeExport(uint64_t export_id);
  // Returns every client that holds or shares something or waits.
  std::map<LockClient, ClientLocks> Clients();
  // Whether it does.
  bool Has(const LockClient& client);

  // Returns the grants whose owners must be notified, each once. Also checks whether programs of
  // this host have released locks.
  std::vector<Grant> TakeGrants();
  // Reports that the owner knows of the grant (`taken`), or does not want it; it then keeps what it
  // held before.
  void Told(uint64_t number, bool taken);
  // The number of waiting requests.
  size_t waiting() const { return waiting_; }

  // Returns kGranted, kDenied or kNoLocks. A new share replaces the owner's old share of the file.
  Outcome Share(const ShareRequest& request);
  void Unshare(const ShareRequest& request);

 private:
  struct Owned {
    LockOwner owner;
    Fd file;
    uint64_t incarnation = 0;
    HeldRanges held;
  };
  struct Waiting {
    LockRequest request;
    Fd file;  // until the owner has an open file
    uint64_t incarnation = 0;
    uint64_t granted = 0;  // number of the grant; 0: not granted
    bool told = false;     // returned by TakeGrants()
    // If granted: the ranges that its owner would hold without the grant.
    HeldRanges before;
  };
  struct File {
    std::list<Owned> owned;
    std::list<Waiting> waiting;
    std::vector<ShareRequest> shares;
  };
  using Files = std::map<std::string, File>;

  // The amounts of one address, or of all together.
  struct Amounts {
    size_t files = 0;
    size_t ranges = 0;
    size_t waiting = 0;
    size_t shares = 0;
    friend bool operator==(const Amounts&, const Amounts&) = default;
  };
  struct OfClient {
    size_t entries = 0;   // of files, requests and shares together
    uint64_t oldest = 0;  // no entry is of an earlier incarnation
  };

  static std::list<Owned>::iterator FindOwned(File& file, const LockOwner& owner);
  static std::list<Waiting>::iterator FindWaiting(File& file, const LockRequest& request);
  // Returns kGranted, kDenied, kNoLocks or kFailed. Takes `*fd` if the owner has no open file.
  Outcome TryLock(File& file, const LockRequest& request, uint64_t incarnation, Fd* fd);
  Outcome Wait(File& file, const LockRequest& request, uint64_t incarnation, Fd fd);
  void Release(File& file, const LockOwner& owner, const ByteRange& range);
  void EraseWaiting(File& file, std::list<Waiting>::iterator waiting);
  void EraseShares(File& file, absl::FunctionRef<bool(const ShareRequest& share)> is_wanted);
  // Whether the owner has an unconfirmed grant of another request in this range.
  static bool HasUnknown(const File& file, const LockRequest& request);
  // Keeps what the owner takes knowingly, whatever becomes of its unconfirmed grants.
  static void Outlast(File& file, const LockRequest& request);
  // Revokes a grant: its owner holds again what it held before.
  void TakeBack(File& file, const Waiting& waiting);
  void GrantWaiting(File& file);
  // Removes a file without locks, waiting requests and shares.
  Files::iterator Tidy(Files::iterator file);
  // Whether the address may have one more.
  bool HasRoom(const Gid& address, size_t Amounts::*what, size_t limit) const;
  // Count an entry of a client, added in an incarnation, or removed.
  void AddEntry(const LockClient& client, size_t Amounts::*what, uint64_t incarnation);
  void RemoveEntry(const LockClient& client, size_t Amounts::*what);
  void Count(const Gid& address, size_t Amounts::*what, ptrdiff_t change);
  // Changes what an owner holds, and counts its ranges.
  void Hold(Owned& own, const ByteRange& range, bool exclusive);
  void Remove(const Owned& owned);

  const LockLimits limits_;
  std::mutex mutex_;
  Files files_;
  std::set<std::string> waited_for_;  // files with requests that wait
  Amounts all_;
  std::map<Gid, Amounts> addresses_;
  std::map<LockClient, OfClient> clients_;
  std::atomic<size_t> waiting_{0};  // a copy of all_.waiting, readable without the mutex
  uint64_t last_grant_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_TABLE_H_
