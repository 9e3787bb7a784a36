#include "tools/decode/capture_reader.h"

#include <pcap/pcap.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pollux::decode {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

ssize_t ReadGzip(void* cookie, char* buffer, size_t size) {
  return gzread(static_cast<gzFile>(cookie), buffer, static_cast<unsigned>(size));
}

int CloseGzip(void* cookie) { return gzclose(static_cast<gzFile>(cookie)) == Z_OK ? 0 : EOF; }

// A stream of the file's content, decompressed where it is compressed. Null when it cannot be
// opened, with errno set.
std::FILE* OpenDecompressed(const std::string& path) {
  const int input = path == "-" ? dup(STDIN_FILENO) : -1;
  const gzFile file = path == "-" ? gzdopen(input, "rb") : gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    if (input >= 0) close(input);
    return nullptr;
  }
  cookie_io_functions_t functions{};
  functions.read = ReadGzip;
  functions.close = CloseGzip;
  std::FILE* const stream = fopencookie(file, "rb", functions);
  if (stream == nullptr) gzclose(file);
  return stream;
}

std::optional<LinkType> LinkTypeOf(int pcap_type) {
  switch (pcap_type) {
    case DLT_EN10MB:
      return LinkType::kEthernet;
    case DLT_LINUX_SLL:
      return LinkType::kLinuxCooked;
    case DLT_LINUX_SLL2:
      return LinkType::kLinuxCooked2;
    case DLT_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
      return LinkType::kIp;
    default:
      return std::nullopt;
  }
}

}  // namespace

void CaptureReader::Closer::operator()(pcap* handle) const { pcap_close(handle); }

absl::StatusOr<CaptureReader> CaptureReader::Open(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  std::FILE* const stream = OpenDecompressed(path);
  if (stream == nullptr) return absl::NotFoundError(absl::StrCat(name, ": ", strerror(errno)));
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  pcap_t* const handle =
      pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, error.data());
  if (handle == nullptr) {
    std::fclose(stream);
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", error.data()));
  }
  CaptureReader reader(name, handle);
  const int pcap_type = pcap_datalink(handle);
  const auto link = LinkTypeOf(pcap_type);
  if (!link) {
    const char* const type = pcap_datalink_val_to_name(pcap_type);
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": link type ", type == nullptr ? "unknown" : type,
                     "; a capture of an Ethernet interface, of \"any\" or of IP is needed"));
  }
  reader.link_ = *link;
  return reader;
}

absl::StatusOr<std::optional<CapturedFrame>> CaptureReader::Next() {
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  const int result = pcap_next_ex(handle_.get(), &header, &data);
  if (result == PCAP_ERROR_BREAK) return std::nullopt;  // end of file
  if (result != 1) {
    return absl::DataLossError(
        absl::StrCat(name_, ": after frame ", frames_, ": ", pcap_geterr(handle_.get())));
  }
  CapturedFrame frame;
  frame.number = ++frames_;
  // Asked for nanoseconds, libpcap puts them into tv_usec.
  frame.timestamp_ns = static_cast<uint64_t>(header->ts.tv_sec) * kNsPerSecond +
                       static_cast<uint64_t>(header->ts.tv_usec);
  frame.bytes = {data, header->caplen};
  frame.original_bytes = header->len;
  return frame;
}

}  // namespace pollux::decode
