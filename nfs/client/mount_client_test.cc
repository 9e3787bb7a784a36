#include "nfs/client/mount_client.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nfs/mount/mount.h"
#include "nfs/v3/samples_for_test.h"
#include "oncrpc/tcp_server_for_test.h"

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Exports /srv and /srv/deep, the second not to us, and /gss by Kerberos alone.
std::vector<uint8_t> Mountd(const oncrpc::CallHeader& call, absl::Span<const uint8_t> arguments) {
  EXPECT_EQ(call.program, kMountProgram);
  EXPECT_EQ(call.version, kMountV3);
  const auto procedure = static_cast<MountProcedure>(call.procedure);
  const oncrpc::ReplyHeader reply{.xid = call.xid};
  if (procedure == MountProcedure::kExport) {
    Exports exports;
    for (const char* path : {"/srv", "/srv/deep", "/gss"}) {
      exports.items.push_back({.dir = {path}, .groups = {{Groupnode{{"*"}}}}});
    }
    return Record(reply, Encoding(exports));
  }
  Dirpath path;
  EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(arguments), &path));
  if (procedure == MountProcedure::kUmnt) return Record(reply, {});
  EXPECT_EQ(procedure, MountProcedure::kMnt);
  MountRes result;
  result.resok.fhandle = {.bytes = {42}, .size = 1};
  result.resok.auth_flavors.items = {path.path.text == "/gss" ? 390003u : 1u};
  if (path.path.text == "/srv/deep") result.status = Nfsstat3::kAcces;
  return Record(reply, Encoding(result));
}

TEST(MountClientTest, ListsAndMountsExports) {
  const oncrpc::TcpServer server(Mountd);
  auto mount = MountClient::Connect(server.endpoint(), oncrpc::AuthSys());
  ASSERT_TRUE(mount.ok()) << mount.status();
  const auto exports = mount->Exports();
  ASSERT_TRUE(exports.ok()) << exports.status();
  EXPECT_THAT(*exports, ElementsAre("/srv", "/srv/deep", "/gss"));
  const auto root = mount->Mount("/srv");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->size, 1u);
  EXPECT_EQ(root->bytes[0], 42);
  EXPECT_TRUE(mount->Unmount("/srv").ok());
}

TEST(MountClientTest, ErrorsNameTheReason) {
  const oncrpc::TcpServer server(Mountd);
  auto mount = MountClient::Connect(server.endpoint(), oncrpc::AuthSys());
  const auto denied = mount->Mount("/srv/deep");
  EXPECT_EQ(denied.status().message(), "mounting /srv/deep: permission denied (NFS3ERR_ACCES)");
  EXPECT_THAT(std::string(mount->Mount("/gss").status().message()), HasSubstr("AUTH_SYS"));
}

TEST(MountClientTest, FindsTheExportThatHoldsAPath) {
  const std::vector<std::string> exports = {"/srv", "/srv/deep", "/other/"};
  EXPECT_EQ(ExportOf(exports, "/srv"), "/srv");
  EXPECT_EQ(ExportOf(exports, "/srv/f"), "/srv");
  EXPECT_EQ(ExportOf(exports, "/srv/deep/f"), "/srv/deep");
  EXPECT_EQ(ExportOf(exports, "/srv/deeper"), "/srv");
  EXPECT_EQ(ExportOf(exports, "/other/f"), "/other/");
  EXPECT_EQ(ExportOf(exports, "/srvx"), "");
  EXPECT_EQ(ExportOf({"/", "/srv"}, "/x/y"), "/");
  EXPECT_EQ(ExportOf({"/"}, "/"), "/");
}

}  // namespace
}  // namespace pollux::nfs
