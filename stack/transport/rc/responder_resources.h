// The READs and atomics that a responder remembers, and which of their responses are to be sent.
#ifndef POLLUX_STACK_TRANSPORT_RC_RESPONDER_RESOURCES_H_
#define POLLUX_STACK_TRANSPORT_RC_RESPONDER_RESOURCES_H_

#include <array>
#include <cstdint>
#include <memory>

#include "stack/base/types.h"
#include "stack/wire/bth.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {

// Packets of a response, numbered as in the original request: [next, end) are to be sent.
struct ResponseRange {
  uint32_t next = 0;
  uint32_t end = 0;
  uint16_t cut = 0;    // bytes that the last one is shorter than in the original response
  bool begun = false;  // a packet of it has been sent
  bool active() const { return next != end; }
};

// A READ, an atomic, an ATOMIC WRITE or a FLUSH as originally requested.
struct ResponderResource {
  Psn first_psn;
  uint32_t packets = 0;
  wire::Operation operation = wire::Operation::kReadRequest;
  // Of a READ. ATOMIC WRITEs and FLUSHes have the response of a READ of length 0.
  wire::Reth reth;
  uint64_t original = 0;  // the original value, for an atomic
  ResponseRange response;
  uint32_t sent = 0;      // packets below this number have been sent
  bool repeated = false;  // a duplicate of the request has arrived
  bool answered() const { return sent == packets; }
};

// Memory is allocated only by Start() and Resize(). Source: IB specification 9.7.5.1.2, 9.4.5
// (duplicates).
class ResponderResources {
 public:
  // Repeated responses that may be pending in addition to the original ones: a requester that asks
  // for one gap at a time has one per request. Further duplicates are dropped, and requested again.
  static constexpr uint32_t kMaxRepeats = 16;

  // Allocates space for `capacity` READs and atomics, rounded up to a power of two.
  void Start(uint32_t capacity);
  // Removes the oldest entries if not all fit. Those are not needed: programs lower the number only
  // if the peer has no more requests outstanding than that.
  void Resize(uint32_t capacity);
  void Clear() { head_ = tail_ = due_ = repeat_head_ = repeat_tail_ = 0; }

  // Whether Add() returns null until the oldest entry is answered.
  bool Full();
  // Adds an entry, replacing the oldest if there is no room. Returns null if that one is not
  // answered yet: the peer has more outstanding than agreed.
  ResponderResource* Add(Psn first_psn, uint32_t packets);
  // Returns the entry that contains `psn`, or null.
  ResponderResource* Find(Psn psn);
  // A duplicate requests packets [begin, end) of `resource`, the last one shortened by `cut` bytes.
  // A duplicate that includes all packets not yet sent restarts the response at `begin`, as a
  // go-back-N requester expects; any other is answered in addition to the response in progress.
  // Returns false if there is no room for it.
  bool Repeat(ResponderResource& resource, uint32_t begin, uint32_t end, uint16_t cut = 0);

  // If true, Next() returns nothing.
  bool empty() const { return repeat_head_ == repeat_tail_ && due_ == tail_; }
  struct Due {
    ResponderResource* resource = nullptr;  // null: nothing is to be sent
    ResponseRange* response = nullptr;
  };
  // Returns repetitions first, because the requester waits for them, then the oldest response.
  Due Next();
  // Cancels all responses that are due.
  void Cancel();

 private:
  struct Repetition {
    uint32_t index = 0;
    ResponseRange response;
  };
  ResponderResource& At(uint32_t index) { return resources_[index & mask_]; }

  uint32_t capacity_ = 0;
  uint32_t mask_ = 0;             // the number of slots, a power of two, minus 1
  uint32_t head_ = 0, tail_ = 0;  // the remembered ones; not reduced modulo the size
  uint32_t due_ = 0;              // no response before it is active
  std::unique_ptr<ResponderResource[]> resources_;
  uint32_t repeat_head_ = 0, repeat_tail_ = 0;
  std::array<Repetition, kMaxRepeats> repeats_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RESPONDER_RESOURCES_H_
