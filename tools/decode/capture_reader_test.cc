#include "tools/decode/capture_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace pollux::decode {
namespace {

// A file image, field by field in one byte order.
class Image {
 public:
  explicit Image(bool big_endian) : big_endian_(big_endian) {}
  Image& U16(uint16_t value) { return Put(value, 2); }
  Image& U32(uint32_t value) { return Put(value, 4); }
  Image& Data(const std::string& data) {
    bytes_ += data;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Image& Put(uint32_t value, int size) {
    for (int i = 0; i < size; ++i) {
      bytes_ += static_cast<char>(value >> 8 * (big_endian_ ? size - 1 - i : i));
    }
    return *this;
  }
  bool big_endian_;
  std::string bytes_;
};

constexpr uint32_t kEthernet = 1;
const std::string kFrame = "sixteen byte str";

std::string Classic(bool big_endian, uint32_t magic, uint32_t fraction) {
  Image image(big_endian);
  image.U32(magic).U16(2).U16(4).U32(0).U32(0).U32(65535).U32(kEthernet);
  image.U32(1700000000).U32(fraction).U32(16).U32(16).Data(kFrame);
  image.U32(1700000001).U32(fraction).U32(4).U32(60).Data("shor");
  return image.bytes();
}

// A file without frames.
std::string Empty(uint32_t link_type) {
  Image image(false);
  image.U32(0xA1B2C3D4).U16(2).U16(4).U32(0).U32(0).U32(65535).U32(link_type);
  return image.bytes();
}

std::string PcapNg() {
  Image image(false);
  image.U32(0x0A0D0D0A).U32(28).U32(0x1A2B3C4D).U16(1).U16(0).U32(~0u).U32(~0u).U32(28);
  image.U32(1).U32(20).U16(kEthernet).U16(0).U32(65535).U32(20);
  const uint64_t microseconds = 1700000000ull * 1000000 + 250;
  image.U32(6).U32(48).U32(0).U32(static_cast<uint32_t>(microseconds >> 32));
  image.U32(static_cast<uint32_t>(microseconds)).U32(16).U32(16).Data(kFrame).U32(48);
  return image.bytes();
}

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// The first frame is kFrame, at second 1700000000 and `nanoseconds`.
void ExpectFirstFrame(const std::string& path, uint64_t nanoseconds) {
  auto reader = CaptureReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto frame = reader->Next();
  ASSERT_TRUE(frame.ok() && frame->has_value());
  EXPECT_EQ((*frame)->number, 1u);
  EXPECT_EQ((*frame)->timestamp_ns, 1700000000ull * 1000000000 + nanoseconds);
  EXPECT_EQ(std::string((*frame)->bytes.begin(), (*frame)->bytes.end()), kFrame);
  EXPECT_EQ((*frame)->original_bytes, 16u);
}

TEST(CaptureReaderTest, ReadsClassicPcapInBothByteOrdersAndResolutions) {
  ExpectFirstFrame(Write("le_us", Classic(false, 0xA1B2C3D4, 250)), 250000);
  ExpectFirstFrame(Write("be_us", Classic(true, 0xA1B2C3D4, 250)), 250000);
  ExpectFirstFrame(Write("le_ns", Classic(false, 0xA1B23C4D, 250)), 250);
  ExpectFirstFrame(Write("be_ns", Classic(true, 0xA1B23C4D, 250)), 250);
}

TEST(CaptureReaderTest, ReadsPcapNg) { ExpectFirstFrame(Write("ng", PcapNg()), 250000); }

TEST(CaptureReaderTest, ReadsGzip) {
  const std::string bytes = Classic(false, 0xA1B2C3D4, 250);
  const std::string path = testing::TempDir() + "classic.gz";
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  gzclose(file);
  ExpectFirstFrame(path, 250000);
}

TEST(CaptureReaderTest, ATruncatedFrameHasItsOriginalLength) {
  auto reader = CaptureReader::Open(Write("two", Classic(false, 0xA1B2C3D4, 0)));
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(reader->Next().ok());
  const auto second = reader->Next();
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ((*second)->number, 2u);
  EXPECT_EQ((*second)->bytes.size(), 4u);
  EXPECT_EQ((*second)->original_bytes, 60u);
  const auto end = reader->Next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}

TEST(CaptureReaderTest, AFileThatEndsWithinAFrameIsDataLoss) {
  std::string bytes = Classic(false, 0xA1B2C3D4, 0);
  bytes.pop_back();
  auto reader = CaptureReader::Open(Write("cut", bytes));
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(reader->Next().ok());
  EXPECT_EQ(reader->Next().status().code(), absl::StatusCode::kDataLoss);
}

TEST(CaptureReaderTest, UnsupportedFilesAreRefused) {
  EXPECT_EQ(CaptureReader::Open(testing::TempDir() + "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CaptureReader::Open(Write("text", "root:x:0:0:root:/root:/bin/bash\n")).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto status = CaptureReader::Open(Write("wifi", Empty(105))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("IEEE802_11"), std::string::npos) << status;
}

TEST(CaptureReaderTest, LinkTypesAreRecognized) {
  const std::pair<uint32_t, LinkType> kTypes[] = {{kEthernet, LinkType::kEthernet},
                                                  {113, LinkType::kLinuxCooked},
                                                  {276, LinkType::kLinuxCooked2},
                                                  {101, LinkType::kIp},
                                                  {228, LinkType::kIp},
                                                  {229, LinkType::kIp}};
  for (const auto& [type, link] : kTypes) {
    const auto reader = CaptureReader::Open(Write("link", Empty(type)));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->link(), link) << type;
  }
}

}  // namespace
}  // namespace pollux::decode
