// Defects planted on purpose, to prove that the tests would find them. They exist only in builds
// with POLLUX_PLANTED_FAULTS (tools/build/faults.bzl); everywhere else Planted() is false at
// compile time.
#ifndef POLLUX_STACK_BASE_PLANTED_FAULT_H_
#define POLLUX_STACK_BASE_PLANTED_FAULT_H_

namespace pollux {

enum class Fault {
  kNone,
  kIcrcUnchecked,     // packets with a wrong ICRC are executed
  kPsnOffByOne,       // the packet after a lost one is taken for it
  kRnrLost,           // a SEND that finds no receive is acknowledged instead of refused
  kStaleKeyAccepted,  // a deregistered key goes on working
  kInvalidationLost,  // an invalidated fast region goes on working
  kFenceIgnored,      // a fenced request does not wait for the READs before it
  kOneByteBeyond,     // what arrives changes the byte behind it as well
  kReceiveUnflushed,  // receives stay posted when a queue pair enters ERR
  kGapUnnoticed,      // a message of UC goes on after a packet of it was lost
  kDuplicateRun,      // a call that comes again runs again
  kMsnNotWrapped,     // the message sequence number goes on with 1 behind the wrap
  kHeadersUnchecked,  // every packet to a queue pair is taken for the one that it expects
  kShortOutOfTurn,    // a short message is executed whatever its PSN
  kOverrunUnnoticed,  // a completion for which there is no room is lost without a word
};

#ifdef POLLUX_PLANTED_FAULTS
inline Fault planted_fault = Fault::kNone;
inline bool Planted(Fault fault) { return planted_fault == fault; }
#else
constexpr bool Planted(Fault) { return false; }
#endif

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_PLANTED_FAULT_H_
