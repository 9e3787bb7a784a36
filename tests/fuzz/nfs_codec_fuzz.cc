// Any bytes as arguments, which a server decodes, and as results, which a client decodes: of NFS
// version 3, MOUNT, NLM, NSM and the portmapper. What decodes is encoded again, and is then the
// same. The first byte says which of them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "nfs/lock/nlm.h"
#include "nfs/lock/nsm.h"
#include "nfs/mount/mount.h"
#include "nfs/v3/attributes.h"
#include "nfs/v3/directories.h"
#include "nfs/v3/file_system.h"
#include "nfs/v3/files.h"
#include "nfs/v3/listing.h"
#include "oncrpc/auth_sys.h"
#include "oncrpc/codec.h"
#include "oncrpc/portmap.h"
#include "oncrpc/xdr.h"

namespace {

using namespace pollux::nfs;
using namespace pollux::oncrpc;
using pollux::oncrpc::ReducedItem;
using pollux::oncrpc::XdrReader;
using pollux::oncrpc::XdrRoundUp;

void Require(bool holds) {
  if (!holds) std::abort();
}

template <class T>
void Check(absl::Span<const uint8_t> bytes) {
  T value;
  if (!Decode(XdrReader(bytes), &value)) return;
  std::vector<uint8_t> space(bytes.size());
  const Encoded once = Encode(value, absl::MakeSpan(space));
  Require(once.ok);
  std::vector<ReducedItem> items;
  size_t item_bytes = 0;
  if (once.item.has_value()) {
    items.push_back({.bytes = once.item->bytes, .position = once.item->position});
    item_bytes = XdrRoundUp(once.item->bytes.size());
  }
  Require(once.stream.size() + item_bytes == bytes.size());
  // The item now comes in a chunk.
  T again;
  Require(Decode(XdrReader(once.stream, items), &again));
  std::vector<uint8_t> other_space(bytes.size());
  const Encoded twice = Encode(again, absl::MakeSpan(other_space));
  Require(twice.ok && twice.stream == once.stream);
  Require(twice.item.has_value() == once.item.has_value());
  if (once.item.has_value()) Require(twice.item->bytes == once.item->bytes);
}

using Checker = void (*)(absl::Span<const uint8_t> bytes);

// Files of the corpus name these by their place: new ones go to the end.
constexpr std::array kCheckers = {
    Checker{&Check<GetattrArgs>},     Checker{&Check<GetattrRes>},
    Checker{&Check<SetattrArgs>},     Checker{&Check<SetattrRes>},
    Checker{&Check<LookupArgs>},      Checker{&Check<LookupRes>},
    Checker{&Check<AccessArgs>},      Checker{&Check<AccessRes>},
    Checker{&Check<ReadlinkArgs>},    Checker{&Check<ReadlinkRes>},
    Checker{&Check<ReadArgs>},        Checker{&Check<ReadRes>},
    Checker{&Check<WriteArgs>},       Checker{&Check<WriteRes>},
    Checker{&Check<CreateArgs>},      Checker{&Check<CreateRes>},
    Checker{&Check<MkdirArgs>},       Checker{&Check<SymlinkArgs>},
    Checker{&Check<MknodArgs>},       Checker{&Check<RemoveRes>},
    Checker{&Check<RenameArgs>},      Checker{&Check<RenameRes>},
    Checker{&Check<LinkArgs>},        Checker{&Check<LinkRes>},
    Checker{&Check<ReaddirArgs>},     Checker{&Check<ReaddirRes>},
    Checker{&Check<ReaddirplusArgs>}, Checker{&Check<ReaddirplusRes>},
    Checker{&Check<FsstatRes>},       Checker{&Check<FsinfoRes>},
    Checker{&Check<PathconfRes>},     Checker{&Check<CommitArgs>},
    Checker{&Check<CommitRes>},       Checker{&Check<AuthSys>},
    Checker{&Check<Dirpath>},         Checker{&Check<MountRes>},
    Checker{&Check<Mountlist>},       Checker{&Check<Exports>},
    Checker{&Check<Nlm4Lockargs>},    Checker{&Check<Nlm4Cancargs>},
    Checker{&Check<Nlm4Testargs>},    Checker{&Check<Nlm4Unlockargs>},
    Checker{&Check<Nlm4Res>},         Checker{&Check<Nlm4Testres>},
    Checker{&Check<Nlm4Shareargs>},   Checker{&Check<Nlm4Shareres>},
    Checker{&Check<Nlm4Notify>},      Checker{&Check<Mapping>},
    Checker{&Check<Pmaplist>},        Checker{&Check<Rpcb>},
    Checker{&Check<Rpcblist>},        Checker{&Check<StatChge>},
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  kCheckers[data[0] % kCheckers.size()]({data + 1, size - 1});
  return 0;
}
