// Finds the worker that a received frame is for, if several workers share a port.
#ifndef POLLUX_STACK_IO_STEERING_RX_DESTINATION_H_
#define POLLUX_STACK_IO_STEERING_RX_DESTINATION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/base/qpn_layout.h"
#include "stack/base/types.h"

struct rte_mbuf;

namespace pollux::io {

// Chooses the worker, below `workers`, that gets a datagram to queue pair 1. `mad` is its payload,
// in which nothing has been checked yet, not even the ICRC; `from` is the source address that it
// claims. Called on every worker's core; must return the same worker for the same datagram on each.
using GsiOwner = uint32_t (*)(std::span<const uint8_t> mad, const Gid& from, uint32_t workers);

struct RxDestination {
  enum class Kind : uint8_t {
    kWorker,
    kReceiver,  // the worker that received it, which drops and counts unusable frames
    kEveryone,  // a copy for each worker
  };
  Kind kind = Kind::kReceiver;
  uint32_t worker = 0;  // for kWorker
  bool is_roce = true;
};

// Chooses the destination of a frame. Examines only as much of the frame as necessary; the owner
// checks the rest.
struct RxClassifier {
  QpnLayout layout;
  uint32_t workers = 1;
  GsiOwner gsi_owner = nullptr;  // null: worker 0
  // What happens to frames that are not RoCE.
  enum class Others : uint8_t {
    // ARP, neighbour advertisements and group membership messages (IGMP, MLD) go to every worker,
    // so that each worker's interface learns and reports for itself; all others go to worker 0,
    // which answers.
    kAnswered,
    kToFirst,  // to worker 0, which passes them to the kernel
    kLeft,     // not passed on: the kernel already has them
  };
  Others others = Others::kAnswered;

  // Returns kReceiver for a frame in several segments.
  RxDestination Find(const rte_mbuf& frame) const;

 private:
  RxDestination FindOther(const uint8_t* frame, size_t length) const;
  RxDestination FindMad(const uint8_t* frame, size_t length) const;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_STEERING_RX_DESTINATION_H_
