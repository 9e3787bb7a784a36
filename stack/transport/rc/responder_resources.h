// The READs and atomics that a responder remembers, and which responses are still to be sent.
#ifndef POLLUX_STACK_TRANSPORT_RC_RESPONDER_RESOURCES_H_
#define POLLUX_STACK_TRANSPORT_RC_RESPONDER_RESOURCES_H_

#include <array>
#include <cstdint>
#include <memory>

#include "stack/base/types.h"
#include "stack/wire/ext_headers.h"

namespace pollux::transport {

// Packets of a response, by their number in the request as it was first asked: [next, end) are to
// be sent.
struct ResponseRange {
  uint32_t next = 0;
  uint32_t end = 0;
  uint16_t cut = 0;    // bytes that the last one lacks of what the first request has there
  bool begun = false;  // a packet of it was sent
  bool active() const { return next != end; }
};

// A READ or atomic as it was first asked.
struct ResponderResource {
  Psn first_psn;
  uint32_t packets = 0;
  wire::Reth reth;  // of a READ
  bool atomic = false;
  uint64_t original = 0;  // what an atomic found
  ResponseRange response;
  uint32_t sent = 0;      // packets below this number were sent before
  bool repeated = false;  // a duplicate of the request came
  bool answered() const { return sent == packets; }
};

// Memory is taken by Start() and Resize() alone. Source: IB specification 9.7.5.1.2, 9.4.5
// (duplicates).
class ResponderResources {
 public:
  // Repetitions beside responses under way: a requester that asks gap by gap has one at a time for
  // each request. What comes on top is dropped, and asked for again.
  static constexpr uint32_t kMaxRepeats = 16;

  // Room for `capacity` READs and atomics.
  void Start(uint32_t capacity);
  // Forgets the oldest of those that do not fit: whoever lowers the number knows that the peer has
  // no more under way.
  void Resize(uint32_t capacity);
  void Clear() { head_ = tail_ = due_ = repeat_head_ = repeat_tail_ = 0; }

  // Forgets the oldest when there is no room. Null when that one is not answered yet: the peer has
  // more outstanding than was agreed.
  ResponderResource* Add(Psn first_psn, uint32_t packets);
  // The one that `psn` belongs to, or null.
  ResponderResource* Find(Psn psn);
  // A duplicate wants packets [begin, end) of it, the last one without `cut` of its bytes. One that
  // covers what is still to be sent starts the response anew from there, as those who go back want
  // it; any other is sent beside the response. False when there is no room for it.
  bool Repeat(ResponderResource& resource, uint32_t begin, uint32_t end, uint16_t cut = 0);

  struct Due {
    ResponderResource* resource = nullptr;  // null: nothing is to be sent
    ResponseRange* response = nullptr;
  };
  // Repetitions first, for whoever asks waits; then the oldest.
  Due Next();
  // Nothing that is due is sent any more.
  void Cancel();

 private:
  struct Repetition {
    uint32_t index = 0;
    ResponseRange response;
  };
  ResponderResource& At(uint32_t index) { return resources_[index & mask_]; }

  uint32_t capacity_ = 0;
  uint32_t mask_ = 0;             // of the slots, a power of two
  uint32_t head_ = 0, tail_ = 0;  // remembered; they run freely
  uint32_t due_ = 0;              // no response before it is active
  std::unique_ptr<ResponderResource[]> resources_;
  uint32_t repeat_head_ = 0, repeat_tail_ = 0;
  std::array<Repetition, kMaxRepeats> repeats_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_RC_RESPONDER_RESOURCES_H_
