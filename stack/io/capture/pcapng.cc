#include "stack/io/capture/pcapng.h"

#include <cstring>

namespace pollux::io::pcapng {
namespace {

enum BlockType : uint32_t {
  kSectionHeader = 0x0A0D0D0A,
  kInterfaceDescription = 1,
  kInterfaceStatistics = 5,
  kEnhancedPacket = 6,
};
enum OptionCode : uint16_t {
  kEndOfOptions = 0,
  kSectionApplication = 4,
  kInterfaceName = 2,
  kInterfaceMac = 6,
  kInterfaceTimeResolution = 9,
  kPacketFlags = 2,
  kStatisticsReceived = 4,
  kStatisticsDropped = 5,
};
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint64_t kLengthUnknown = ~0ull;
constexpr uint16_t kLinkTypeEthernet = 1;
constexpr uint8_t kNanoseconds = 9;  // 10^-9 s
constexpr size_t kAlignment = 4;

// Writes a block's two lengths around what is appended in its life.
class Block {
 public:
  Block(BlockType type, std::vector<uint8_t>* out) : out_(out), start_(out->size()) {
    Put(static_cast<uint32_t>(type));
    Put(uint32_t{0});
  }
  ~Block() {
    const auto length = static_cast<uint32_t>(out_->size() - start_ + sizeof(uint32_t));
    std::memcpy(out_->data() + start_ + sizeof(uint32_t), &length, sizeof length);
    Put(length);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  template <typename Number>
  void Put(Number number) {
    PutBytes(&number, sizeof number);
  }
  void PutBytes(const void* bytes, size_t n) {
    const auto* first = static_cast<const uint8_t*>(bytes);
    out_->insert(out_->end(), first, first + n);
  }
  void Pad() { out_->resize(start_ + (out_->size() - start_ + kAlignment - 1) / 4 * 4); }
  void PutOption(OptionCode code, const void* bytes, size_t n) {
    Put(static_cast<uint16_t>(code));
    Put(static_cast<uint16_t>(n));
    PutBytes(bytes, n);
    Pad();
  }
  void PutTime(uint64_t time) {
    Put(static_cast<uint32_t>(time >> 32));
    Put(static_cast<uint32_t>(time));
  }
  void EndOptions() { PutOption(kEndOfOptions, nullptr, 0); }

 private:
  std::vector<uint8_t>* out_;
  size_t start_;
};

}  // namespace

void AppendSection(const std::string& application, std::vector<uint8_t>* out) {
  Block block(kSectionHeader, out);
  block.Put(kByteOrderMagic);
  block.Put(uint16_t{1});  // version 1.0
  block.Put(uint16_t{0});
  block.Put(kLengthUnknown);
  block.PutOption(kSectionApplication, application.data(), application.size());
  block.EndOptions();
}

void AppendInterface(const std::string& name, const MacAddress& mac, std::vector<uint8_t>* out) {
  Block block(kInterfaceDescription, out);
  block.Put(kLinkTypeEthernet);
  block.Put(uint16_t{0});
  block.Put(kSnapLength);
  block.PutOption(kInterfaceName, name.data(), name.size());
  block.PutOption(kInterfaceMac, mac.data(), mac.size());
  block.PutOption(kInterfaceTimeResolution, &kNanoseconds, sizeof kNanoseconds);
  block.EndOptions();
}

void AppendPacket(const Packet& packet, std::vector<uint8_t>* out) {
  Block block(kEnhancedPacket, out);
  block.Put(packet.interface);
  block.PutTime(packet.time_ns);
  block.Put(packet.captured);
  block.Put(packet.length);
  block.PutBytes(packet.bytes, packet.captured);
  block.Pad();
  const auto flags = static_cast<uint32_t>(packet.direction);
  block.PutOption(kPacketFlags, &flags, sizeof flags);
  block.EndOptions();
}

void AppendStatistics(const Statistics& statistics, std::vector<uint8_t>* out) {
  Block block(kInterfaceStatistics, out);
  block.Put(statistics.interface);
  block.PutTime(statistics.time_ns);
  block.PutOption(kStatisticsReceived, &statistics.seen, sizeof statistics.seen);
  block.PutOption(kStatisticsDropped, &statistics.dropped, sizeof statistics.dropped);
  block.EndOptions();
}

}  // namespace pollux::io::pcapng
