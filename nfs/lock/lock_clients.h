// The hosts that have locked something, as their status monitors count their starts.
#ifndef POLLUX_NFS_LOCK_LOCK_CLIENTS_H_
#define POLLUX_NFS_LOCK_LOCK_CLIENTS_H_

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

// Any thread. A client's incarnation is 0 until it is seen to have started anew, then a number
// larger than every one before: what was locked under a smaller one is nobody's.
class LockClients {
 public:
  // Beyond these the one longest unheard of that holds nothing is forgotten.
  static constexpr size_t kMaxClients = 16'384;
  static constexpr size_t kMaxClientsOfAddress = 64;  // the names that one goes by

  // Whether it holds something, or waits. Any thread; must not come back here.
  using IsHolder = std::function<bool(const LockClient&)>;
  explicit LockClients(IsHolder is_holder) : is_holder_(std::move(is_holder)) {}

  struct Incarnation {
    LockClient client;
    uint64_t number = 0;
  };

  struct Heard {
    uint64_t incarnation = 0;
    // That nothing is left of incarnations before, as Freed() has it.
    bool freed = true;
  };

  // That it locks something. `state`: that its status monitor has, if it says; another one than
  // before is another incarnation. Nothing when there is no room for it.
  std::optional<Heard> HeardOf(const LockClient& client, std::optional<uint32_t> state);
  // A new incarnation: it holds nothing any more, and says so. Nothing when it is not known.
  std::optional<uint64_t> Renew(const LockClient& client);
  // Those of the address that were last heard of in another state, or of whose former incarnations
  // something is left: each with a number that makes void what they hold of those; they are not
  // renewed by it. `name`: of them those alone that it is the name of, with its domain or without.
  std::vector<Incarnation> Restarted(const Gid& address, uint32_t state,
                                     std::optional<std::string_view> name = std::nullopt);
  // What it held before this incarnation is nobody's now, everywhere. `state`: that it is known to
  // be in by that.
  void Freed(const Incarnation& incarnation, std::optional<uint32_t> state);

 private:
  struct Known {
    std::optional<uint32_t> state;
    uint64_t incarnation = 0;
    bool freed = true;
    uint64_t heard = 0;  // by the number of times that clients were heard of
  };
  using All = std::map<LockClient, Known>;  // those of an address stand together

  // Null when it is not there.
  Known* Find(const LockClient& client);
  // As heard of now; null when there is no room.
  Known* Enter(const LockClient& client);
  bool MakeRoom(const Gid& address);
  // [first, second) are those of the address.
  std::pair<All::iterator, All::iterator> OfAddress(const Gid& address);

  const IsHolder is_holder_;
  std::mutex mutex_;
  All known_;
  uint64_t heard_ = 0;
  uint64_t last_ = 0;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_CLIENTS_H_
