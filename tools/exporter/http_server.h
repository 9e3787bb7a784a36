// Serves pages by HTTP.
#ifndef POLLUX_TOOLS_EXPORTER_HTTP_SERVER_H_
#define POLLUX_TOOLS_EXPORTER_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct mg_connection;
struct mg_context;

namespace pollux::tools {

struct HttpRequest {
  std::string path;    // without a query
  std::string accept;  // the header Accept; empty if there is none
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // `address` is a result of ParseListenAddress(); port 0 stands for any free port. `handler` is
  // called for GET and HEAD, on several threads at once. Unavailable if the address cannot be
  // bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Handler handler);
  // Waits for requests in progress.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

 private:
  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {}
  absl::Status Listen(const std::string& address);
  static int Handle(mg_connection* connection);
  static int Log(const mg_connection* connection, const char* text);

  const Handler handler_;
  mg_context* context_ = nullptr;
  std::mutex mutex_;
  std::string last_error_;
};

// "ADDRESS", "ADDRESS:PORT", "[ADDRESS]:PORT" or "PORT", with an IPv4 or IPv6 address or
// "localhost"; kListenAddress and kListenPort replace a missing part. Returns
// "ADDRESS:PORT". InvalidArgument if it is none of these.
inline constexpr char kListenAddress[] = "127.0.0.1";
inline constexpr uint16_t kListenPort = 14791;
absl::StatusOr<std::string> ParseListenAddress(const std::string& text);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_HTTP_SERVER_H_
