// Client and server of the file service over two ports joined by rings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "stack/engine/eal.h"
#include "tools/common/node.h"
#include "tools/file_service/file_client.h"
#include "tools/file_service/file_server.h"
#include "tools/file_service/transfer.h"

namespace pollux::tools {
namespace {

using ::testing::HasSubstr;

constexpr uint16_t kPort = 20049;

class FileServiceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal({.memory_mib = 256}).ok()); }

  void Start(bool read_only) {
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/rootXXXXXX";
    root_ = mkdtemp(pattern.data());
    store_ = *FileStore::Open(root_);
    engine::DeviceOptions a, b;
    a.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
    b.addresses = {InterfaceAddress::Ipv4(0xC0000202)};
    auto pair = engine::Device::OpenPair(a, b);
    ASSERT_TRUE(pair.ok()) << pair.status();
    server_node_ = *Node::Start(std::move(pair->first), Node::Options());
    client_node_ = *Node::Start(std::move(pair->second), Node::Options());
    server_node_->Run([&] {
      FileServer::Options options;
      options.port = kPort;
      options.read_only = read_only;
      options.log = [this](const std::string& line) { lines_.push_back(line); };
      server_ = *FileServer::Listen(&server_node_->device().worker(), &server_node_->manager(),
                                    store_.get(), std::move(options));
    });
  }
  absl::StatusOr<std::unique_ptr<FileClient>> Connect(uint16_t port,
                                                      const FileClient::Options& options = {}) {
    std::promise<absl::StatusOr<std::unique_ptr<FileClient>>> promise;
    client_node_->Run([&] {
      FileClient::Connect(&client_node_->device().worker(), &client_node_->manager(),
                          {.address = Gid::FromIpv4(0xC0000201), .port = port}, options,
                          [&promise](auto client) { promise.set_value(std::move(client)); });
    });
    return promise.get_future().get();
  }
  // Makes one call and waits for what it calls back with.
  template <class T, class Call>
  T Await(Call call) {
    std::promise<T> promise;
    client_node_->Run(
        [&] { call([&promise](T result) { promise.set_value(std::move(result)); }); });
    T result = promise.get_future().get();
    client_node_->Run([] {});
    return result;
  }
  void Disconnect() {
    std::promise<void> gone;
    client_node_->Run([&] { client_->Disconnect([&gone] { gone.set_value(); }); });
    gone.get_future().wait();
    client_node_->Run([&] { client_.reset(); });
  }
  ~FileServiceTest() override {
    if (client_ != nullptr) Disconnect();
    std::promise<void> gone;
    server_node_->Run([&] { server_->Shutdown([&gone] { gone.set_value(); }); });
    gone.get_future().wait();
    server_node_->Run([&] { server_.reset(); });
    for (Node* node : {client_node_.get(), server_node_.get()}) node->StopPolling();
    for (Node* node : {client_node_.get(), server_node_.get()}) node->device().Close();
  }

  std::string root_;
  std::unique_ptr<FileStore> store_;
  std::unique_ptr<Node> server_node_, client_node_;
  std::unique_ptr<FileServer> server_;
  std::unique_ptr<FileClient> client_;
  std::vector<std::string> lines_;  // of the server's log; used on its core
};

TEST_F(FileServiceTest, FilesOfManySizesAreWrittenAndReadBack) {
  Start(false);
  client_ = *Connect(kPort);
  for (const size_t size : {0u, 1u, 1000u, 5000u, 1u << 20, (5u << 20) + 3}) {
    const std::string local = root_ + ".out", back = root_ + ".back";
    std::string data(size, '\0');
    for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 31 + size);
    std::ofstream(local, std::ios::binary) << data;
    const TransferResult put = PutFile(*client_node_, *client_, local, "f", nullptr);
    ASSERT_TRUE(put.status.ok()) << put.status;
    EXPECT_EQ(put.bytes, size);
    const TransferResult get = GetFile(*client_node_, *client_, "f", back, nullptr);
    ASSERT_TRUE(get.status.ok()) << get.status;
    EXPECT_EQ(get.sha256, put.sha256);
    std::ifstream in(back, std::ios::binary);
    EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(in), {}) == data) << size;
  }
}

TEST_F(FileServiceTest, AFileThatChangesDuringAGetIsAnError) {
  Start(false);
  client_ = *Connect(kPort);
  const std::string back = root_ + ".back";
  std::ofstream(root_ + "/f") << "old";
  std::ofstream(back) << "kept";
  std::filesystem::last_write_time(root_ + "/f", {});
  const TransferResult get =
      GetFile(*client_node_, *client_, "f", back,
              [this](uint64_t, uint64_t) { std::ofstream(root_ + "/f") << "new"; });
  EXPECT_TRUE(absl::IsAborted(get.status)) << get.status;
  std::ifstream in(back);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "kept");
}

TEST_F(FileServiceTest, AFileThatChangesDuringAPutIsAnError) {
  Start(false);
  client_ = *Connect(kPort);
  const std::string local = root_ + ".out";
  std::ofstream(local) << "old";
  std::filesystem::last_write_time(local, {});
  const TransferResult put =
      PutFile(*client_node_, *client_, local, "f",
              [&local](uint64_t, uint64_t) { std::fstream(local) << "new"; });
  EXPECT_TRUE(absl::IsAborted(put.status)) << put.status;
  EXPECT_THAT(std::string(put.status.message()),
              HasSubstr("changed while it was sent; f on the server is not complete"));
}

// However many large reads are under way, few files are open for them.
TEST_F(FileServiceTest, ManyLargeReadsNeedFewDescriptors) {
  Start(false);
  client_ = *Connect(kPort);
  constexpr size_t kReads = kCredits;
  constexpr size_t kBytes = 512 * 1024;
  const std::string data(kBytes, 'p');
  std::ofstream(root_ + "/f", std::ios::binary) << data;
  ASSERT_TRUE(Await<absl::Status>([&](auto done) { client_->Null(std::move(done)); }).ok());

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlim_t highest = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    highest = std::max<rlim_t>(highest, std::stoul(entry.path().filename()));
  }
  rlimit few = before;
  few.rlim_cur = highest + 70;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<uint8_t> buffer(kReads * kBytes);
  std::promise<void> all;
  size_t ended = 0;
  absl::Status status;
  client_node_->Run([&] {
    for (size_t i = 0; i < kReads; ++i) {
      client_->Read("f", 0, absl::MakeSpan(buffer).subspan(i * kBytes, kBytes),
                    [&](absl::StatusOr<size_t> read) {
                      status.Update(read.status());
                      if (++ended == kReads) all.set_value();
                    });
    }
  });
  all.get_future().wait();
  client_node_->Run([] {});
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](uint8_t byte) { return byte == 'p'; }));
}

TEST_F(FileServiceTest, AClientThatConnectsAgainAndAgainDoesNotFillTheLog) {
  Start(false);
  for (uint32_t i = 0; i <= FileServer::kConnectionLinesOfAddress; ++i) {
    client_ = *Connect(kPort);
    Disconnect();
  }
  server_node_->Run([&] { EXPECT_EQ(lines_.size(), FileServer::kConnectionLinesOfAddress); });
}

TEST_F(FileServiceTest, ListingSpansSeveralPages) {
  Start(false);
  client_ = *Connect(kPort);
  for (int i = 0; i < 150; ++i) {
    ASSERT_TRUE(store_->Create("file" + std::string(200, 'x') + std::to_string(1000 + i)).ok());
  }
  std::vector<std::string> names;
  for (bool more = true; more;) {
    const auto page = Await<absl::StatusOr<FileClient::Page>>(
        [&](auto done) { client_->List(names.empty() ? "" : names.back(), std::move(done)); });
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_FALSE(page->entries.empty());
    for (const FileStore::Entry& entry : page->entries) names.push_back(entry.name);
    more = page->more;
  }
  EXPECT_EQ(names.size(), 150u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST_F(FileServiceTest, ErrorsNameTheFileAndTheReason) {
  Start(true);
  client_ = *Connect(kPort);
  const auto stat = Await<absl::StatusOr<FileStore::Attributes>>(
      [&](auto done) { client_->Stat("missing", std::move(done)); });
  EXPECT_THAT(std::string(stat.status().message()), HasSubstr("missing: the server has no such"));
  const auto out = Await<absl::StatusOr<FileStore::Attributes>>(
      [&](auto done) { client_->Stat("../etc/passwd", std::move(done)); });
  EXPECT_EQ(out.status().code(), absl::StatusCode::kPermissionDenied);
  const auto create =
      Await<absl::Status>([&](auto done) { client_->Create("new", std::move(done)); });
  EXPECT_THAT(std::string(create.message()), HasSubstr("does not allow"));
  const auto long_name = Await<absl::Status>(
      [&](auto done) { client_->Create(std::string(kMaxName + 1, 'n'), std::move(done)); });
  EXPECT_THAT(std::string(long_name.message()), HasSubstr("longer than 1023 bytes"));
}

TEST_F(FileServiceTest, ConnectWithoutAListenerNamesTheAddress) {
  Start(false);
  const auto client = Connect(kPort + 1);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("192.0.2.1:20050"));
}

TEST_F(FileServiceTest, ACallOfAnotherProgramFailsWithUnimplemented) {
  Start(false);
  FileClient::Options options;
  options.program = 100003;
  options.version = 3;
  client_ = *Connect(kPort, options);
  const auto null = Await<absl::Status>([&](auto done) { client_->Null(std::move(done)); });
  EXPECT_EQ(null.code(), absl::StatusCode::kUnimplemented) << null;
}

TEST_F(FileServiceTest, ManyNullCallsAtOnceSucceed) {
  Start(false);
  client_ = *Connect(kPort);
  const LoadResult result =
      TimeNullCalls(*client_node_, *client_, {.count = 2000, .window = 64}, nullptr);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.operations, 2000u);
  EXPECT_EQ(result.latency_ns->count(), 2000u);
  EXPECT_GT(client_->negotiated().credits, 0u);
}

}  // namespace
}  // namespace pollux::tools
