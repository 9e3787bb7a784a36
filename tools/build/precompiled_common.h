#ifndef POLLUX_TOOLS_BUILD_PRECOMPILED_COMMON_H_
#define POLLUX_TOOLS_BUILD_PRECOMPILED_COMMON_H_

// Headers that most sources include and that take long to parse. Each source must still include the
// headers that it uses: tools/dev check compiles each source without this file.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

#endif  // POLLUX_TOOLS_BUILD_PRECOMPILED_COMMON_H_
