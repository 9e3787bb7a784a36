// What Linux's NFS client and server say to each other decodes, and encodes to the same bytes.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "nfs/v3/binding.h"
#include "nfs/v3/samples_for_test.h"
#include "oncrpc/codec.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/wire/header.h"
#include "stack/wire/roce_packet.h"
#include "tools/decode/capture_reader.h"

namespace pollux::nfs {
namespace {

constexpr const char* kCapture = "tests/conformance/captures/nfs_v3.pcap.gz";

// Whether `bytes` are a T that encodes to them again, its eligible item in its place.
template <class T>
bool GoesThrough(absl::Span<const uint8_t> bytes) {
  T value;
  if (!oncrpc::Decode(oncrpc::XdrReader(bytes), &value)) return false;
  std::vector<uint8_t> again(bytes.size());
  const oncrpc::Encoded encoded = oncrpc::Encode(value, absl::MakeSpan(again));
  if (!encoded.ok) return false;
  again.resize(encoded.stream.size());
  if (encoded.item.has_value()) {
    std::vector<uint8_t> item(encoded.item->bytes.begin(), encoded.item->bytes.end());
    item.resize(oncrpc::XdrRoundUp(item.size()));
    again.insert(again.begin() + static_cast<ptrdiff_t>(encoded.item->position), item.begin(),
                 item.end());
  }
  return absl::MakeConstSpan(again) == bytes;
}

// The same of one procedure's arguments or results.
bool GoesThrough(Procedure wanted, bool call, absl::Span<const uint8_t> bytes) {
  bool good = false;
  const Samples samples;
  samples.ForEach([&](Procedure procedure, const auto& arguments, const auto& results) {
    if (procedure != wanted) return;
    good = call ? GoesThrough<std::remove_cvref_t<decltype(arguments)>>(bytes)
                : GoesThrough<std::remove_cvref_t<decltype(results)>>(bytes);
  });
  if (wanted == Procedure::kNull) good = bytes.empty();
  if (wanted == Procedure::kReaddirplus) {
    good = call ? GoesThrough<ReaddirplusArgs>(bytes) : GoesThrough<ReaddirplusRes>(bytes);
  }
  return good;
}

struct Seen {
  uint32_t calls = 0;
  uint32_t replies = 0;
};

// Messages of one SEND without chunks, by procedure: those that the capture has.
class Walk {
 public:
  void Take(uint64_t frame, absl::Span<const uint8_t> message) {
    rpcrdma::Header header;
    size_t header_bytes = 0;
    if (rpcrdma::ParseHeader(message, &header, &header_bytes) != rpcrdma::HeaderStatus::kOk ||
        header.proc != rpcrdma::Proc::kMsg || header.chunks.segment_count != 0 ||
        header.chunks.read_count != 0) {
      return;
    }
    TakeRpc(frame, message.subspan(header_bytes));
  }
  const std::map<Procedure, Seen>& seen() const { return seen_; }

 private:
  void TakeRpc(uint64_t frame, absl::Span<const uint8_t> rpc) {
    oncrpc::CallHeader call;
    oncrpc::ReplyHeader reply;
    if (const size_t bytes = oncrpc::ParseCall(rpc, &call); bytes != 0) {
      if (call.program != kNfsProgram) return;
      const auto procedure = static_cast<Procedure>(call.procedure);
      procedures_[call.xid] = procedure;
      ++seen_[procedure].calls;
      EXPECT_TRUE(GoesThrough(procedure, true, rpc.subspan(bytes))) << frame;
    } else if (const size_t size = oncrpc::ParseReply(rpc, &reply); size != 0) {
      const auto asked = procedures_.find(reply.xid);
      if (asked == procedures_.end()) return;
      ++seen_[asked->second].replies;
      EXPECT_TRUE(GoesThrough(asked->second, false, rpc.subspan(size))) << frame;
    }
  }

  std::map<uint32_t, Procedure> procedures_;  // by XID
  std::map<Procedure, Seen> seen_;
};

TEST(NfsCapturesTest, EveryShortMessageOfLinuxRoundTrips) {
  auto reader = decode::CaptureReader::Open(kCapture);
  ASSERT_TRUE(reader.ok()) << reader.status();
  Walk walk;
  for (;;) {
    const auto frame = reader->Next();
    ASSERT_TRUE(frame.ok()) << frame.status();
    if (!frame->has_value()) break;
    wire::RocePacket packet;
    const auto bytes = (*frame)->bytes;
    if (wire::ParseRocePacket(bytes.data(), bytes.size(), &packet) != wire::ParseResult::kOk ||
        packet.info->transport != wire::Transport::kRc) {
      continue;
    }
    const auto payload = packet.payload();
    walk.Take((*frame)->number, {payload, packet.payload_length});
  }
  for (const Procedure procedure :
       {Procedure::kGetattr, Procedure::kSetattr, Procedure::kLookup, Procedure::kAccess,
        Procedure::kWrite, Procedure::kCreate, Procedure::kMkdir, Procedure::kRemove,
        Procedure::kRmdir, Procedure::kRename, Procedure::kLink, Procedure::kFsstat,
        Procedure::kFsinfo, Procedure::kPathconf}) {
    const auto found = walk.seen().find(procedure);
    ASSERT_NE(found, walk.seen().end()) << static_cast<uint32_t>(procedure);
    EXPECT_GT(found->second.calls, 0u) << static_cast<uint32_t>(procedure);
    EXPECT_GT(found->second.replies, 0u) << static_cast<uint32_t>(procedure);
  }
}

}  // namespace
}  // namespace pollux::nfs
