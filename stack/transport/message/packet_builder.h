// Outgoing packets of one path: a header template in which only opcode, flags, PSN, length and
// identification change, and the steps from there to a finished frame.
#ifndef POLLUX_STACK_TRANSPORT_MESSAGE_PACKET_BUILDER_H_
#define POLLUX_STACK_TRANSPORT_MESSAGE_PACKET_BUILDER_H_

#include <cstdint>

#include "stack/transport/diagnostics/qp_diagnostics.h"
#include "stack/transport/message/poll_context.h"
#include "stack/verbs/address_handle.h"
#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/roce_packet.h"
#include "stack/wire/udp.h"

struct rte_mbuf;

namespace pollux::transport {

// The UDP source port of a flow from `source`, in 0xC000..0xFFFF. It is constant so that ECMP keeps
// the flow's packets in order (a RoCEv2 convention; receivers ignore it). Its lowest bits are the
// highest ones of `remote`, so that a Pollux with several workers receives the packets where they
// belong (io::RssKey()). The ten bits above them differ from flow to flow.
uint16_t FlowSourcePort(const Gid& source, Qpn local, Qpn remote);

// The congestion marks of every packet.
struct PacketMarks {
  uint8_t data_ecn = 0;  // the ECN field of packets with payload; 0: as in the path
  bool becn = false;
};

class PacketBuilder {
 public:
  // What differs from packet to packet.
  struct Spec {
    wire::Opcode opcode;
    Psn psn;
    bool solicited = false;
    bool ack_request = false;
    uint8_t ext_bytes = 0;       // extended headers; the caller fills them at ext()
    uint32_t payload_bytes = 0;  // at most the path MTU
  };

  // `diagnostics` records what is sent; it may be null.
  explicit PacketBuilder(QpDiagnostics* diagnostics = nullptr) : diagnostics_(diagnostics) {}

  // `path` must outlive its use here (until the next Reset()).
  void Reset(const verbs::AddressHandle* path, Qpn local, Qpn remote,
             const PacketMarks& marks = {});

  // Sends a packet without extended headers whose payload is all at `payload`: Begin(), Copy() and
  // Finish() in one. Returns false if there is no mbuf.
  bool Send(const Spec& spec, const uint8_t* payload, PollContext& context);
  // Whether ShortFrames can be used: packets are sent over IPv4 without a tag to a known next hop.
  bool CanUseShortFrames() const {
    const uint64_t word = path_->link->word();
    return header_bytes_ == kPlainIpv4Bytes && word == link_word_ &&
           verbs::LinkAddress::IsResolved(word);
  }
  // A payload of at least this many bytes begins on a cache line of the frame, so that accesses to
  // it do not straddle lines, here or at a receiver that gets frames by pointer. A shorter payload
  // would then occupy one more line than necessary (measured).
  static constexpr uint32_t kLongPayload = 512;

  // Allocates an mbuf and writes the headers. Returns false if there is no mbuf.
  bool Begin(const Spec& spec, PollContext& context);
  // Where to write the extended headers: spec.ext_bytes bytes.
  uint8_t* ext() { return ext_; }
  // Appends payload: spec.payload_bytes bytes in all calls together.
  void Copy(const uint8_t* source, uint32_t bytes);
  // Appends the pad and the ICRC, and passes the frame to the egress (or to the resolver if the
  // next hop is unknown). The ICRC covers the copied bytes, even if their source has changed.
  void Finish(PollContext& context);
  // Frees the mbuf instead.
  void Abandon();

  // The maximum from Ethernet to BTH: with an 802.1Q tag, over IPv6.
  static constexpr uint16_t kMaxHeaderBytes = wire::kEthernetBytes + wire::kVlanTagBytes +
                                              wire::kIpv6Bytes + wire::kUdpBytes + wire::kBthBytes;

 private:
  template <bool kOne>
  friend class ShortFrames;
  // The size of nearly every packet's headers, known to the compiler.
  static constexpr size_t kPlainIpv4Bytes =
      wire::kEthernetBytes + wire::kIpv4Bytes + wire::kUdpBytes + wire::kBthBytes;
  void LoadLink();
  void EmitIp();
  uint8_t* Append(uint16_t transport_bytes, uint16_t data_offset, PollContext& context);
  uint8_t* EmitHeaders(const Spec& spec, uint8_t pad, uint16_t transport_bytes, uint8_t* to);
  void Close(uint8_t* icrc, const uint8_t* l3) const;
  void HandOn(const Spec& spec, uint8_t syndrome, PollContext& context);

  QpDiagnostics* diagnostics_;
  const verbs::AddressHandle* path_ = nullptr;
  uint64_t link_word_ = 0;
  alignas(16) uint8_t template_[kMaxHeaderBytes] = {};
  uint8_t ip_version_ = 4;
  uint8_t ip_offset_ = 0;
  uint8_t udp_offset_ = 0;
  uint8_t data_ecn_ = 0;
  uint8_t header_bytes_ = 0;       // Ethernet to BTH
  uint32_t ip_checksum_base_ = 0;  // one's complement sum without length and identification
  uint16_t identification_ = 0;

  // The packet under construction.
  rte_mbuf* frame_ = nullptr;
  uint8_t* ext_ = nullptr;
  uint8_t* cursor_ = nullptr;
  Spec spec_{};
  uint8_t pad_ = 0;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_MESSAGE_PACKET_BUILDER_H_
