// The locks that NFS clients hold, and wait for, on the files of one export.
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

// A host with locks: its address, and the name that it gives itself.
struct LockClient {
  Gid address;
  std::string name;
  friend auto operator<=>(const LockClient&, const LockClient&) = default;
};

// What one has in an export, or in all of them.
struct ClientLocks {
  size_t files = 0;    // of which ranges are locked
  size_t ranges = 0;   // that its processes hold
  size_t awaited = 0;  // requests that wait, or whose grant it does not know of yet
  size_t shares = 0;
};

// How much the clients of an export may have of each together. One address may have more of it as
// long as it has fewer than are left for all, or `of_address` if that is not 0: names are of no
// account, since a client invents its own.
struct LockLimits {
  size_t files = 16'384;   // locked, one for each owner; each is held open
  size_t waiting = 4'096;  // requests; each holds its file open
  size_t shares = 16'384;
  size_t of_address = 0;
  // What the files have of them on average, and some more than that.
  static constexpr size_t kRangesOfFile = 16;
};

// A process of a client, as far as locks go.
struct LockOwner {
  LockClient client;
  uint32_t svid = 0;
  std::string oh;
  friend bool operator==(const LockOwner&, const LockOwner&) = default;
};

struct LockRequest {
  std::string file;  // its handle
  LockOwner owner;
  ByteRange range;
  bool exclusive = false;
  friend bool operator==(const LockRequest&, const LockRequest&) = default;
};

// A file as its owner shares it with others: what he does, and what he denies them (kFsh4Read,
// kFsh4Write).
struct ShareRequest {
  std::string file;
  LockClient client;
  std::string oh;
  uint32_t access = 0;
  uint32_t mode = 0;
  uint64_t incarnation = 0;  // of the client, as LockClients has it
};

// Any thread that may meet the export's file system. Every lock is taken on the file itself too, as
// one of an open file description, so that this host's programs and NFS clients see each other's.
class LockTable {
 public:
  static constexpr size_t kMaxRanges = 1024;  // of one owner in one file

  explicit LockTable(const LockLimits& limits = {}) : limits_(limits) {}

  enum class Outcome : uint8_t {
    kGranted,
    kDenied,   // somebody else holds it
    kWaiting,  // TakeGrants() tells when it is granted
    kNoLocks,  // a bound is reached, of ours or of the kernel
    kFailed,   // the file cannot be locked so
  };
  struct Holder {
    HeldRange held;
    uint32_t svid = 0;
    std::string oh;
  };
  // A lock that is held since somebody else gave it up, and that its owner does not know of yet.
  struct Grant {
    uint64_t number = 0;
    LockRequest request;
  };

  // `file`: open for reading, and for writing if that can be. What it waits for already is waited
  // for once. `incarnation`: of the client, as LockClients has it.
  Outcome Lock(const LockRequest& request, bool wait, Fd file, uint64_t incarnation = 0);
  // Who keeps the request's owner from it; nothing when nobody does. A program of this host has no
  // `oh`.
  std::optional<Holder> Test(const LockRequest& request, const Fd& file);
  // Of either kind, whatever of it is held.
  void Unlock(const LockRequest& request);
  // False when it does not wait for it. What it waited for and got, unknowingly, is given up; what
  // it held there before, it keeps.
  bool Cancel(const LockRequest& request);
  // Locks, shares and what it waits for, of incarnations before this one.
  void FreeAll(const LockClient& client, uint64_t incarnation);
  // Every client that holds or shares something, or waits.
  std::map<LockClient, ClientLocks> Clients();
  // Whether it does.
  bool Has(const LockClient& client);

  // Those to be told of, each once. Looks whether this host's programs have given up something.
  std::vector<Grant> TakeGrants();
  // That its owner knows, or (`taken` false) does not want it: then he keeps what he had before.
  void Told(uint64_t number, bool taken);
  // Requests that wait.
  size_t waiting() const { return waiting_; }

  // kGranted, kDenied, kNoLocks. An owner's new share of a file takes the place of his old one.
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
    Fd file;  // until the request's owner has one
    uint64_t incarnation = 0;
    uint64_t granted = 0;  // the grant's number
    bool told = false;     // taken by TakeGrants()
    // Once granted: what of the range its owner would hold without the grant.
    HeldRanges before;
  };
  struct File {
    std::list<Owned> owned;
    std::list<Waiting> waiting;
    std::vector<ShareRequest> shares;
  };
  using Files = std::map<std::string, File>;

  // Of an address, or of all.
  struct Amounts {
    size_t files = 0;
    size_t ranges = 0;
    size_t waiting = 0;
    size_t shares = 0;
    friend bool operator==(const Amounts&, const Amounts&) = default;
  };
  struct OfClient {
    size_t entries = 0;   // of files, requests and shares together
    uint64_t oldest = 0;  // no entry is of an incarnation before
  };

  static std::list<Owned>::iterator FindOwned(File& file, const LockOwner& owner);
  static std::list<Waiting>::iterator FindWaiting(File& file, const LockRequest& request);
  // kGranted, kDenied, kNoLocks or kFailed. Takes `*fd` if the owner has none.
  Outcome TryLock(File& file, const LockRequest& request, uint64_t incarnation, Fd* fd);
  Outcome Wait(File& file, const LockRequest& request, uint64_t incarnation, Fd fd);
  void Release(File& file, const LockOwner& owner, const ByteRange& range);
  void EraseWaiting(File& file, std::list<Waiting>::iterator waiting);
  void EraseShares(File& file, absl::FunctionRef<bool(const ShareRequest& share)> is_wanted);
  // Whether the owner has a grant there, of another request, that he does not know of.
  static bool HasUnknown(const File& file, const LockRequest& request);
  // What its owner takes knowingly stays his, whatever becomes of grants that he does not know of.
  static void Outlast(File& file, const LockRequest& request);
  // Takes a grant back: its owner has again what he had.
  void TakeBack(File& file, const Waiting& waiting);
  void GrantWaiting(File& file);
  // Forgets a file of which nothing is to be known.
  Files::iterator Tidy(Files::iterator file);
  // Whether the address may have one more.
  bool HasRoom(const Gid& address, size_t Amounts::*what, size_t limit) const;
  // An entry more, or less: of a client in an incarnation.
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
  std::atomic<size_t> waiting_{0};  // all_.waiting, for those who have no lock
  uint64_t last_grant_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_TABLE_H_
