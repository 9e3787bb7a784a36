// Whose a received frame is, where several workers share a port.
#ifndef POLLUX_STACK_IO_STEERING_RX_DESTINATION_H_
#define POLLUX_STACK_IO_STEERING_RX_DESTINATION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/base/types.h"
#include "stack/io/steering/qpn_layout.h"

struct rte_mbuf;

namespace pollux::io {

// Which worker, below `workers`, gets a datagram to queue pair 1: `mad` is its payload as it came
// (nothing of it is checked yet, the ICRC neither), `from` the address that it names as its source.
// Called on every worker's core; the same datagram has the same owner on each.
using GsiOwner = uint32_t (*)(std::span<const uint8_t> mad, const Gid& from, uint32_t workers);

struct RxDestination {
  enum class Kind : uint8_t {
    kWorker,
    kReceiver,  // whoever has received it: its worker drops and counts what nobody can use
    kEveryone,  // a copy for each worker
  };
  Kind kind = Kind::kReceiver;
  uint32_t worker = 0;  // of kWorker
  bool is_roce = true;
};

// What decides it. Looks no further into a frame than it must; the owner checks the rest.
struct RxClassifier {
  QpnLayout layout;
  uint32_t workers = 1;
  GsiOwner gsi_owner = nullptr;  // null: worker 0
  // What becomes of what is not RoCE.
  enum class Others : uint8_t {
    // ARP, neighbour advertisements and what asks for groups (IGMP, MLD) go to everyone, so that
    // each worker's interface learns and reports for itself; all else to worker 0, which answers.
    kAnswered,
    kToFirst,  // to worker 0, which passes it to the kernel
    kLeft,     // nowhere: the kernel has it already
  };
  Others others = Others::kAnswered;

  // Of one in several segments: kReceiver.
  RxDestination Find(const rte_mbuf& frame) const;

 private:
  RxDestination FindOther(const uint8_t* frame, size_t length) const;
  RxDestination FindMad(const uint8_t* frame, size_t length) const;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_STEERING_RX_DESTINATION_H_
