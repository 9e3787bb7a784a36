// The hosts that have taken locks, and their incarnations: the starts that their status monitors
// count.
#ifndef POLLUX_NFS_LOCK_LOCK_CLIENTS_H_
#define POLLUX_NFS_LOCK_LOCK_CLIENTS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "nfs/lock/lock_table.h"

namespace pollux::nfs {

// Whether two names are of one host. One of them may have its domain behind it.
bool IsSameHost(std::string_view one, std::string_view other);

// Thread-safe. A client's incarnation is 0 until a restart of the client is noticed, and then a
// number larger than all previous ones. Locks of an earlier incarnation are void.
class LockClients {
 public:
  // At this limit, the client without locks that has been silent longest is removed.
  static constexpr size_t kMaxClients = 16'384;
  static constexpr size_t kMaxClientsOfAddress = 64;  // client names of one address
  // How long a client must send an earlier state, and not the known one, until that counts as a
  // restart. Longer than requests from before a restart keep arriving after it.
  static constexpr std::chrono::seconds kResetAfter{30};

  // Whether a client holds or waits for something. Must be thread-safe, and must not call this
  // class.
  using IsHolder = std::function<bool(const LockClient&)>;
  explicit LockClients(IsHolder is_holder) : is_holder_(std::move(is_holder)) {}

  struct Incarnation {
    LockClient client;
    uint64_t number = 0;
  };

  struct Heard {
    uint64_t incarnation = 0;
    // Whether everything of earlier incarnations has been released, as reported by Freed().
    bool freed = true;
    // Whether the request must not be served: the client seems to have restarted since it sent it.
    bool stale = false;
  };

  // Records that the client takes a lock. `state`: the state of its status monitor, if it sent one.
  // A later state starts a new incarnation. A request with an earlier state was delayed until after
  // a restart, and is stale: if it started an incarnation, the client would lose its current locks.
  // However, a host that was installed anew counts its states from the beginning, and sends no
  // notification, since it does not know that it had locks here. Such a host lives, and repeats a
  // request that is not served: after kResetAfter, its state starts a new incarnation. Returns
  // nothing if there is no space for the client.
  std::optional<Heard> HeardOf(
      const LockClient& client, std::optional<uint32_t> state,
      std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  // Starts a new incarnation of a client that reports that it holds nothing any more. Returns
  // nothing if the client is unknown.
  std::optional<uint64_t> Renew(const LockClient& client);
  // Returns the clients of the address whose last known state differs, or whose earlier
  // incarnations still hold something. Each comes with the incarnation number below which its locks
  // are void; the client's own number changes only in Freed(). `name`, if given, restricts this to
  // clients of that name, with or without its domain.
  std::vector<Incarnation> Restarted(const Gid& address, uint32_t state,
                                     std::optional<std::string_view> name = std::nullopt);
  // Reports that everything that the client held before this incarnation has been released in all
  // exports. `state`: the client's new state, if it is known.
  void Freed(const Incarnation& incarnation, std::optional<uint32_t> state);

 private:
  // An earlier state than the known one, and when the client first sent it after that.
  struct Earlier {
    uint32_t state = 0;
    std::chrono::steady_clock::time_point since;
  };
  struct Known {
    std::optional<uint32_t> state;
    std::optional<Earlier> earlier;
    uint64_t incarnation = 0;
    bool freed = true;
    uint64_t heard = 0;  // when it last called, counted in calls of all clients

    void SetState(uint32_t now) {
      state = now;
      earlier.reset();
    }
  };
  using All = std::map<LockClient, Known>;  // the clients of an address are adjacent

  // Whether a request with that state is stale. The client's state must be known and differ.
  static bool IsStale(Known& known, uint32_t state, std::chrono::steady_clock::time_point now);
  // Returns null if the client is unknown.
  Known* Find(const LockClient& client);
  // Adds the client if necessary, and records that it has called. Returns null if there is no
  // space.
  Known* Enter(const LockClient& client);
  bool MakeRoom(const Gid& address);
  // The clients of the address, as [first, second).
  std::pair<All::iterator, All::iterator> OfAddress(const Gid& address);

  const IsHolder is_holder_;
  std::mutex mutex_;
  All known_;
  uint64_t heard_ = 0;
  uint64_t last_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_CLIENTS_H_
