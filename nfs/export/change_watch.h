// Tells changes to one object that overlap: what a call reports as the attributes before its own
// change would hide the others' from the client's cache. RFC 1813 section 2.6, wcc_data
#ifndef POLLUX_NFS_EXPORT_CHANGE_WATCH_H_
#define POLLUX_NFS_EXPORT_CHANGE_WATCH_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace pollux::nfs {

// For any number of threads. Nobody waits for a change: a file system that stalls stalls no other
// call.
class ChangeWatch {
 public:
  struct Ticket {
    uint32_t place = 0;
    uint64_t number = 0;
    bool alone = false;
  };

  // Before the object's attributes are read for the first time.
  Ticket Begin(dev_t device, ino_t inode);
  // After they were read for the last time. False when another change may have come between.
  bool End(const Ticket& ticket);

 private:
  // Objects that share a place seem to overlap: their calls leave out what they could have said.
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
