#include "tools/exporter/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

// Returns a connection on which the request has been sent.
int Send(uint16_t port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  return fd;
}

// Returns all that is received for a request, until the connection ends or is silent for 10 s.
std::string Ask(uint16_t port, const std::string& request) {
  const int fd = Send(port, request);
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  std::string all;
  char bytes[4096];
  for (ssize_t got; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    all.append(bytes, static_cast<size_t>(got));
  }
  close(fd);
  return all;
}

HttpResponse Echo(const HttpRequest& request) {
  if (request.path == "/none") return {.status = 404, .body = "nothing\n"};
  return {.content_type = "text/x", .body = absl::StrCat(request.path, " ", request.accept)};
}

TEST(HttpServerTest, ServesGetAndHead) {
  const auto server = HttpServer::Start("127.0.0.1:0", Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string got =
      Ask((*server)->port(), "GET /a?b HTTP/1.1\r\nHost: x\r\nAccept: text/y\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(got, "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n")) << got;
  EXPECT_TRUE(absl::StrContains(got, "default-src 'none'")) << got;
  EXPECT_TRUE(absl::EndsWith(got, "\r\n\r\n/a text/y")) << got;
  const std::string head = Ask((*server)->port(), "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(absl::StrContains(head, "Content-Length: 3\r\n")) << head;
  EXPECT_TRUE(absl::EndsWith(head, "\r\n\r\n")) << head;
}

TEST(HttpServerTest, UnknownPathsAndMethodsAreRefused) {
  const auto server = HttpServer::Start("127.0.0.1:0", Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  const uint16_t port = (*server)->port();
  EXPECT_FALSE(absl::StartsWith(Ask(port, "nonsense\r\n\r\n"), "HTTP/1.1 200"));
  EXPECT_TRUE(absl::StartsWith(Ask(port, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 404"));
  const std::string post = Ask(port, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(post, "HTTP/1.1 405")) << post;
  EXPECT_TRUE(absl::StrContains(post, "Allow: GET, HEAD\r\n")) << post;
}

// There are as many unfinished requests as the server has threads.
TEST(HttpServerTest, RequestsWithUnfinishedBodiesDoNotDelayOthers) {
  for (const char* const head :
       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n"}) {
    const auto server = HttpServer::Start("127.0.0.1:0", Echo);
    ASSERT_TRUE(server.ok()) << server.status();
    const uint16_t port = (*server)->port();
    std::array<int, 8> unfinished;
    for (int& fd : unfinished) fd = Send(port, head);
    std::atomic<bool> done = false;
    std::thread sender([&] {
      while (!done) {
        for (const int fd : unfinished) send(fd, "x", 1, MSG_NOSIGNAL);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    });
    const std::string got = Ask(port, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(absl::StartsWith(got, "HTTP/1.1 200")) << head << got;
    done = true;
    sender.join();
    for (const int fd : unfinished) close(fd);
  }
}

TEST(HttpServerTest, PortInUseIsAnError) {
  const auto first = HttpServer::Start("127.0.0.1:0", Echo);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = HttpServer::Start(address, Echo);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::StrContains(second.status().message(), address)) << second.status();
  EXPECT_TRUE(absl::StrContains(second.status().message(), "Address already in use"))
      << second.status();
}

TEST(ListenAddressTest, MissingPartsGetDefaults) {
  for (const auto& [text, address] : {std::pair("10.0.0.1", "10.0.0.1:14791"),
                                      {"10.0.0.1:80", "10.0.0.1:80"},
                                      {"80", "127.0.0.1:80"},
                                      {"localhost", "127.0.0.1:14791"},
                                      {"localhost:0", "127.0.0.1:0"},
                                      {"0.0.0.0:9", "0.0.0.0:9"},
                                      {"::1", "[::1]:14791"},
                                      {"[::1]", "[::1]:14791"},
                                      {"[::]:80", "[::]:80"}}) {
    const auto parsed = ParseListenAddress(text);
    ASSERT_TRUE(parsed.ok()) << text << parsed.status();
    EXPECT_EQ(*parsed, address) << text;
  }
}

TEST(ListenAddressTest, InvalidAddressesAreRefused) {
  for (const char* const text : {"", ":", ":80", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:x",
                                 "10.0.0.300", "host:80", "[::1", "[::1]80", "[10.0.0.1:80",
                                 "1:2:3", "127.0.0.1:80,8080", "127.0.0.1:80s", "70000"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseListenAddress(text).status())) << text;
  }
}

}  // namespace
}  // namespace pollux::tools
