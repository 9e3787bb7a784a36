// Clients that held a server's buffers without taking its replies.
#ifndef POLLUX_RPCRDMA_RESPONDER_STALLED_CLIENTS_H_
#define POLLUX_RPCRDMA_RESPONDER_STALLED_CLIENTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/base/types.h"

namespace pollux::rpcrdma {

// Shared by all connections of a server; used on its core. Survives the connections, so that a
// client that reconnects is still known. Remembers the last kMax clients.
class StalledClients {
 public:
  static constexpr size_t kMax = 64;
  static constexpr uint64_t kKeptNs = 60'000'000'000;

  // Adds a client. Returns the time until which it is remembered.
  uint64_t Add(const Gid& client, uint64_t now_ns) {
    const auto place = std::ranges::find(clients_, client, &Client::address);
    Client& taken = place != clients_.end()
                        ? *place
                        : *std::ranges::min_element(clients_, {}, &Client::until_ns);
    taken = {client, now_ns + kKeptNs};
    return taken.until_ns;
  }
  // Returns that time, or 0 for an unknown client.
  uint64_t Until(const Gid& client) const {
    const auto found = std::ranges::find(clients_, client, &Client::address);
    return found == clients_.end() ? 0 : found->until_ns;
  }

 private:
  struct Client {
    Gid address;
    uint64_t until_ns = 0;
  };
  std::array<Client, kMax> clients_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_STALLED_CLIENTS_H_
