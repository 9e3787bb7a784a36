#include "stack/io/port/packet_filter.h"

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"
#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/roce_packet.h"
#include "stack/wire/udp.h"

namespace pollux::io {
namespace {

constexpr uint32_t kAll = UINT32_MAX;  // bytes of an accepted packet that are kept
constexpr uint32_t kNone = 0;
constexpr uint32_t kQpnMask = 0xFFFFFF;
constexpr uint32_t kDestinationPort = wire::udp::kDestinationPort;
// From the UDP header to the word whose lower 24 bits are the destination queue pair number.
constexpr uint32_t kQpnWord = wire::kUdpBytes + 4;

// The last instruction but one rejects the packet, the last one accepts it.
class Program {
 public:
  void Load(uint16_t size_and_mode, uint32_t offset) {
    code_.push_back(BPF_STMT(static_cast<uint16_t>(BPF_LD | size_and_mode), offset));
  }
  void Append(sock_filter instruction) { code_.push_back(instruction); }
  void RejectUnless(uint32_t value) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, kReject));
  }
  void RejectIf(uint32_t value) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, kReject, 0));
  }
  void RejectIfAnyOf(uint32_t bits) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, kReject, 0));
  }
  void AcceptIf(uint32_t value) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, kAccept, 0));
  }
  size_t size() const { return code_.size(); }
  sock_filter& operator[](size_t place) { return code_[place]; }

  std::vector<sock_filter> Finish() {
    const size_t reject = code_.size();
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, kNone));
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, kAll));
    for (size_t place = 0; place < reject; ++place) {
      if (BPF_CLASS(code_[place].code) != BPF_JMP) continue;
      for (uint8_t* jump : {&code_[place].jt, &code_[place].jf}) {
        if (*jump == kReject) *jump = static_cast<uint8_t>(reject - place - 1);
        if (*jump == kAccept) *jump = static_cast<uint8_t>(reject - place);
      }
    }
    return code_;
  }

 private:
  static constexpr uint8_t kReject = 254;
  static constexpr uint8_t kAccept = 255;
  std::vector<sock_filter> code_;
};

}  // namespace

std::vector<sock_filter> RocePacketFilter(const QpnLayout& layout) {
  constexpr uint32_t kIp = wire::kEthernetBytes;
  Program program;
  program.Load(BPF_W | BPF_ABS, wire::ethernet::kDestination);
  program.Append(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2));
  program.Load(BPF_H | BPF_ABS, wire::ethernet::kDestination + 4);
  program.RejectIf(0);
  program.Load(BPF_H | BPF_ABS, wire::ethernet::kType);
  const size_t to_ipv6 = program.size();
  program.Append(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::kEtherTypeIpv4, 0, 0));

  program.Load(BPF_B | BPF_ABS, kIp + wire::ipv4::kProtocol);
  program.RejectUnless(wire::kIpProtocolUdp);
  program.Load(BPF_H | BPF_ABS, kIp + wire::ipv4::kFragment);
  program.RejectIfAnyOf(wire::kIpv4FragmentOffsetMask);
  program.Append(BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, kIp));  // the header's length
  program.Load(BPF_H | BPF_IND, kIp + kDestinationPort);
  program.RejectUnless(wire::kRocePort);
  program.Load(BPF_W | BPF_IND, kIp + kQpnWord);
  const size_t over_ipv6 = program.size();
  program.Append(BPF_STMT(BPF_JMP | BPF_JA, 0));

  program[to_ipv6].jf = static_cast<uint8_t>(program.size() - to_ipv6 - 1);
  program.RejectUnless(wire::kEtherTypeIpv6);
  program.Load(BPF_B | BPF_ABS, kIp + wire::ipv6::kNextHeader);
  program.RejectUnless(wire::kIpProtocolUdp);
  program.Load(BPF_H | BPF_ABS, kIp + wire::kIpv6Bytes + kDestinationPort);
  program.RejectUnless(wire::kRocePort);
  program.Load(BPF_W | BPF_ABS, kIp + wire::kIpv6Bytes + kQpnWord);

  program[over_ipv6].k = static_cast<uint32_t>(program.size() - over_ipv6 - 1);
  program.Append(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kQpnMask));
  program.AcceptIf(kGsiQpn.value);
  program.AcceptIf(kMulticastQpn.value);
  program.Append(BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 24u - layout.process_bits));
  program.AcceptIf(layout.process);
  return program.Finish();
}

bool AttachPacketFilter(int socket, const std::vector<sock_filter>& filter) {
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                           .filter = const_cast<sock_filter*>(filter.data())};
  return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace pollux::io
