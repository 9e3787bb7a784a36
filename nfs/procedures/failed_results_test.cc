#include "nfs/procedures/failed_results.h"

#include <gtest/gtest.h>

#include <vector>

#include "nfs/v3/directories.h"
#include "nfs/v3/file_system.h"
#include "nfs/v3/files.h"
#include "nfs/v3/listing.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {
namespace {

template <class Res>
void Expect(Procedure procedure) {
  std::vector<uint8_t> room(4096);
  const oncrpc::Encoded whole =
      oncrpc::Encode(Res{.status = Nfsstat3::kJukebox}, absl::MakeSpan(room));
  ASSERT_TRUE(whole.ok);
  FailedResultsSpace space;
  EXPECT_EQ(EncodeFailedResults(procedure, Nfsstat3::kJukebox, &space), whole.stream)
      << static_cast<uint32_t>(procedure);
}

TEST(FailedResultsTest, MatchTheOutputOfTheCodec) {
  Expect<GetattrRes>(Procedure::kGetattr);
  Expect<SetattrRes>(Procedure::kSetattr);
  Expect<LookupRes>(Procedure::kLookup);
  Expect<AccessRes>(Procedure::kAccess);
  Expect<ReadlinkRes>(Procedure::kReadlink);
  Expect<ReadRes>(Procedure::kRead);
  Expect<WriteRes>(Procedure::kWrite);
  Expect<CreateRes>(Procedure::kCreate);
  Expect<CreateRes>(Procedure::kMkdir);
  Expect<CreateRes>(Procedure::kSymlink);
  Expect<CreateRes>(Procedure::kMknod);
  Expect<RemoveRes>(Procedure::kRemove);
  Expect<RemoveRes>(Procedure::kRmdir);
  Expect<RenameRes>(Procedure::kRename);
  Expect<LinkRes>(Procedure::kLink);
  Expect<ReaddirRes>(Procedure::kReaddir);
  Expect<ReaddirplusRes>(Procedure::kReaddirplus);
  Expect<FsstatRes>(Procedure::kFsstat);
  Expect<FsinfoRes>(Procedure::kFsinfo);
  Expect<PathconfRes>(Procedure::kPathconf);
  Expect<CommitRes>(Procedure::kCommit);
}

}  // namespace
}  // namespace pollux::nfs
