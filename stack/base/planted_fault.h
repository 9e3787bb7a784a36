// Defects planted on purpose, to prove that the tests would find them. They exist only in builds
// with POLLUX_PLANTED_FAULTS (tools/build/faults.bzl); everywhere else Planted() is false at
// compile time.
#ifndef POLLUX_STACK_BASE_PLANTED_FAULT_H_
#define POLLUX_STACK_BASE_PLANTED_FAULT_H_

namespace pollux {

enum class Fault {
  kNone,
  kIcrcUnchecked,     // packets with a wrong ICRC are executed
  kPsnOffByOne,       // the packet after a lost one is executed in its place
  kRnrLost,           // a SEND that finds no receive is acknowledged instead of refused
  kStaleKeyAccepted,  // a deregistered key keeps working
  kInvalidationLost,  // an invalidated fast region keeps working
  kFenceIgnored,      // a fenced request does not wait for the READs before it
  kOneByteBeyond,     // received data also overwrites the byte after it
  kReceiveUnflushed,  // receives stay posted when a queue pair enters ERR
  kGapUnnoticed,      // a UC message continues after one of its packets was lost
  kDuplicateRun,      // a duplicate call is executed again
  kMsnNotWrapped,     // the message sequence number continues with 1 after the wrap
  kHeadersUnchecked,  // every packet to a queue pair is treated as the expected one
  kShortOutOfTurn,    // a short message is executed whatever its PSN
  kMessageOvertakes,  // an RPC message overtakes messages whose completions wait
  kReceiveNotKept,    // the receive of an RPC message that is kept takes another one
  kOverrunUnnoticed,  // a completion for which there is no room is lost silently
};

#ifdef POLLUX_PLANTED_FAULTS
inline Fault planted_fault = Fault::kNone;
inline bool Planted(Fault fault) { return planted_fault == fault; }
#else
constexpr bool Planted(Fault) { return false; }
#endif

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_PLANTED_FAULT_H_
