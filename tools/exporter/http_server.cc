#include "tools/exporter/http_server.h"

#include <arpa/inet.h>
#include <civetweb.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pollux::tools {
namespace {

// A peer that connects and asks for nothing holds a thread for so long.
constexpr char kThreads[] = "8";
constexpr char kRequestMs[] = "5000";

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Error";
  }
}

// Nothing that a page of ours fetches comes from elsewhere, and no other page may frame it.
constexpr char kHeaders[] =
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; connect-src 'self'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n";

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              Handler handler) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handler)));
  if (absl::Status status = server->Listen(address); !status.ok()) return status;
  return server;
}

absl::Status HttpServer::Listen(const std::string& address) {
  mg_callbacks callbacks{};
  callbacks.begin_request = &HttpServer::Handle;
  callbacks.log_message = &HttpServer::Log;
  const char* options[] = {"listening_ports",    address.c_str(), "num_threads", kThreads,
                           "request_timeout_ms", kRequestMs,      nullptr};
  mg_init_library(0);
  context_ = mg_start(&callbacks, this, options);
  if (context_ == nullptr) {
    const std::lock_guard lock(mutex_);
    return absl::UnavailableError(absl::StrCat(last_error_, "; choose another address or port"));
  }
  return absl::OkStatus();
}

HttpServer::~HttpServer() {
  if (context_ != nullptr) mg_stop(context_);
  mg_exit_library();
}

uint16_t HttpServer::port() const {
  mg_server_port port{};
  mg_get_server_ports(context_, 1, &port);
  return static_cast<uint16_t>(port.port);
}

int HttpServer::Log(const mg_connection* connection, const char* text) {
  auto* const server = static_cast<HttpServer*>(mg_get_user_data(mg_get_context(connection)));
  const std::lock_guard lock(server->mutex_);
  // The first is the cause of the others.
  if (server->last_error_.empty()) server->last_error_ = text;
  return 1;  // it writes nothing itself
}

int HttpServer::Handle(mg_connection* connection) {
  const mg_request_info* const request = mg_get_request_info(connection);
  const absl::string_view method = request->request_method;
  HttpResponse response;
  if (method != "GET" && method != "HEAD") {
    response = {.status = 405, .body = "only GET and HEAD are served\n"};
  } else {
    const char* const accept = mg_get_header(connection, "Accept");
    response =
        static_cast<HttpServer*>(request->user_data)
            ->handler_({.path = request->local_uri, .accept = accept == nullptr ? "" : accept});
  }
  std::string text = absl::StrCat(
      "HTTP/1.1 ", response.status, " ", ReasonOf(response.status),
      "\r\nContent-Type: ", response.content_type, "\r\nContent-Length: ", response.body.size(),
      "\r\n", response.status == 405 ? "Allow: GET, HEAD\r\n" : "", kHeaders, "\r\n");
  if (method != "HEAD") absl::StrAppend(&text, response.body);
  // Otherwise civetweb would read the rest of the body for as long as the peer sends it.
  mg_disable_connection_keep_alive(connection);
  mg_write(connection, text.data(), text.size());
  return response.status;
}

absl::StatusOr<std::string> ParseListenAddress(const std::string& text) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not an address to listen on; give one like 127.0.0.1:", kListenPort,
      ", [::1]:", kListenPort, " or ", kListenPort));
  std::string host = text, port = absl::StrCat(kListenPort);
  const size_t colon = text.rfind(':');
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    host = kListenAddress;
    port = text;
  } else if (text[0] == '[') {
    const size_t end = text.find(']');
    if (end == std::string::npos) return wrong;
    host = text.substr(1, end - 1);
    if (end + 1 < text.size()) {
      if (text[end + 1] != ':') return wrong;
      port = text.substr(end + 2);
    }
  } else if (colon != std::string::npos && text.find(':') == colon) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host == "localhost") host = kListenAddress;
  uint32_t number = 0;
  if (!absl::SimpleAtoi(port, &number) || number > UINT16_MAX) return wrong;
  uint8_t address[16];
  if (inet_pton(AF_INET, host.c_str(), address) == 1) return absl::StrCat(host, ":", number);
  if (inet_pton(AF_INET6, host.c_str(), address) == 1) return absl::StrCat("[", host, "]:", number);
  return wrong;
}

}  // namespace pollux::tools
