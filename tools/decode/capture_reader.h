// Reads capture files frame by frame with libpcap: classic pcap in either byte order and
// resolution, and pcapng, optionally compressed by gzip.
#ifndef POLLUX_TOOLS_DECODE_CAPTURE_READER_H_
#define POLLUX_TOOLS_DECODE_CAPTURE_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "tools/decode/link_type.h"

struct pcap;

namespace pollux::decode {

struct CapturedFrame {
  uint64_t number = 0;             // from 1, as tshark counts
  uint64_t timestamp_ns = 0;       // since 1970
  std::span<const uint8_t> bytes;  // valid until the next call of Next()
  size_t original_bytes = 0;       // exceeds bytes.size() if the capture truncated the frame
};

class CaptureReader {
 public:
  // "-" is standard input. Errors, which name the file: NotFound; InvalidArgument if it is not a
  // capture or has a link type that is not in LinkType.
  static absl::StatusOr<CaptureReader> Open(const std::string& path);

  LinkType link() const { return link_; }

  // Returns nothing at the end of the file; DataLoss if the file ends in the middle of a frame or
  // is damaged.
  absl::StatusOr<std::optional<CapturedFrame>> Next();

 private:
  struct Closer {
    void operator()(pcap* handle) const;
  };

  CaptureReader(std::string name, pcap* handle) : name_(std::move(name)), handle_(handle) {}

  std::string name_;
  std::unique_ptr<pcap, Closer> handle_;
  LinkType link_ = LinkType::kEthernet;
  uint64_t frames_ = 0;
};

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_CAPTURE_READER_H_
