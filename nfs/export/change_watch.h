// Detects overlapping changes to one object. A call must not report attributes from before its own
// change if other changes overlap it, because the client's cache would then miss those. RFC 1813
// section 2.6, wcc_data
#ifndef POLLUX_NFS_EXPORT_CHANGE_WATCH_H_
#define POLLUX_NFS_EXPORT_CHANGE_WATCH_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace pollux::nfs {

// Thread-safe. No call waits for another one's change, so a file system that stalls does not stall
// other calls.
class ChangeWatch {
 public:
  struct Ticket {
    uint32_t place = 0;
    uint64_t number = 0;
    bool alone = false;
  };

  // Call it before the object's attributes are first read.
  Ticket Begin(dev_t device, ino_t inode);
  // Call it after they were last read. Returns false if another change may have overlapped.
  bool End(const Ticket& ticket);

 private:
  // Changes of different objects in the same place count as overlapping: their calls then omit the
  // attributes from before the change.
  static constexpr uint32_t kPlaces = 1024;
  struct Place {
    std::mutex mutex;
    uint32_t under_way = 0;
    uint64_t begun = 0;
  };
  std::array<Place, kPlaces> places_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_EXPORT_CHANGE_WATCH_H_
