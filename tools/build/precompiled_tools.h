#ifndef POLLUX_TOOLS_BUILD_PRECOMPILED_TOOLS_H_
#define POLLUX_TOOLS_BUILD_PRECOMPILED_TOOLS_H_

#include <nlohmann/json.hpp>

#include "tools/build/precompiled_common.h"

#endif  // POLLUX_TOOLS_BUILD_PRECOMPILED_TOOLS_H_
