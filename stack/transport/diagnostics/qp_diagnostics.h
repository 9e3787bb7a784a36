// The diagnostics of a queue pair: its counters and its flight recorder.
#ifndef POLLUX_STACK_TRANSPORT_DIAGNOSTICS_QP_DIAGNOSTICS_H_
#define POLLUX_STACK_TRANSPORT_DIAGNOSTICS_QP_DIAGNOSTICS_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "stack/transport/diagnostics/counters.h"
#include "stack/transport/diagnostics/flight_recorder.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/roce_packet.h"

namespace pollux::transport {

// Written by the queue pair's own transport, on its worker's core.
class QpDiagnostics {
 public:
  explicit QpDiagnostics(Qpn qpn = {}) : qpn_(qpn) {}

  const Counters& counters() const { return counters_; }
  const FlightRecorder& recorder() const { return recorder_; }
  // The status with which a work request ended the queue pair; IBV_WC_SUCCESS if none did.
  ibv_wc_status failure() const { return failure_; }

  // As Endpoint::Prefetch().
  void Prefetch() const {
    __builtin_prefetch(this);
    __builtin_prefetch(&recorder_);
  }
  // Called at the start of each call into the transport: sets the time of the entries that it
  // records.
  void Begin(uint64_t now_ns) { now_ns_ = now_ns; }

  // Count for the queue pair and for its port, whose counters are `port`.
  void Count(uint64_t Counters::*event, Counters& port, uint64_t number = 1) {
    counters_.*event += number;
    port.*event += number;
  }
  void Count(Drop reason, Counters& port) {
    ++counters_.drops[static_cast<size_t>(reason)];
    port.Count(reason, qpn_);
  }

  // `syndrome` is that of an acknowledgement. The port's packets are counted by Egress.
  void Sent(wire::Opcode opcode, Psn psn, uint32_t payload_bytes, uint8_t syndrome) {
    ++counters_.sent_pkts;
    counters_.sent_bytes += payload_bytes;
    recorder_.Packet(FlightKind::kSent, static_cast<uint8_t>(opcode), psn,
                     Detail(opcode, payload_bytes, syndrome), now_ns_);
  }
  // The two parts of Sent(), for packets that are not acknowledgements. `count` packets of one kind
  // have consecutive PSNs that do not wrap.
  void RecordSent(wire::Opcode opcode, Psn first, uint32_t payload_bytes, uint32_t count) {
    recorder_.Packets(FlightKind::kSent, static_cast<uint8_t>(opcode), first,
                      static_cast<uint16_t>(payload_bytes), count, now_ns_);
  }
  void CountSent(uint64_t packets, uint64_t payload_bytes) {
    counters_.sent_pkts += packets;
    counters_.sent_bytes += payload_bytes;
  }
  void NotSent() { ++counters_.send_err; }  // already counted for the port
  void Received(const wire::RocePacket& packet) {
    ++counters_.rcvd_pkts;
    counters_.rcvd_bytes += packet.payload_length;
    const wire::Opcode opcode = packet.bth.opcode;
    const uint8_t syndrome =
        opcode == wire::Opcode::kRcAcknowledge ? packet.aeth().syndrome : uint8_t{0};
    recorder_.Packet(FlightKind::kReceived, static_cast<uint8_t>(opcode), packet.bth.psn,
                     Detail(opcode, packet.payload_length, syndrome), now_ns_);
  }
  // As Received(), for a packet that is not an acknowledgement.
  void Received(wire::Opcode opcode, Psn psn, uint32_t payload_bytes) {
    ++counters_.rcvd_pkts;
    counters_.rcvd_bytes += payload_bytes;
    recorder_.Packet(FlightKind::kReceived, static_cast<uint8_t>(opcode), psn,
                     static_cast<uint16_t>(payload_bytes), now_ns_);
  }
  void Dropped(const wire::RocePacket& packet, Drop reason, Counters& port) {
    ++counters_.rcvd_pkts;
    Count(reason, port);
    recorder_.Dropped(static_cast<uint8_t>(packet.bth.opcode), packet.bth.psn, reason, now_ns_);
  }
  void State(ibv_qp_state state) { Note(FlightKind::kQpState, static_cast<uint8_t>(state)); }
  void Timer(FlightTimer timer) { Note(FlightKind::kTimer, static_cast<uint8_t>(timer)); }
  void Event(ibv_event_type event) { Note(FlightKind::kEvent, static_cast<uint8_t>(event)); }
  void Failed(ibv_wc_status status) {
    failure_ = status;
    Note(FlightKind::kFailed, static_cast<uint8_t>(status));
  }

 private:
  static uint16_t Detail(wire::Opcode opcode, uint32_t payload_bytes, uint8_t syndrome) {
    return opcode == wire::Opcode::kRcAcknowledge ? syndrome : static_cast<uint16_t>(payload_bytes);
  }
  void Note(FlightKind kind, uint8_t code) { recorder_.Note(kind, code, 0, now_ns_); }

  // The time and the first counters are written for every packet: they share a cache line.
  alignas(64) uint64_t now_ns_ = 0;
  Counters counters_;
  ibv_wc_status failure_ = IBV_WC_SUCCESS;
  const Qpn qpn_;
  alignas(64) FlightRecorder recorder_;
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_DIAGNOSTICS_QP_DIAGNOSTICS_H_
