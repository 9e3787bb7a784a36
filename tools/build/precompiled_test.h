#ifndef POLLUX_TOOLS_BUILD_PRECOMPILED_TEST_H_
#define POLLUX_TOOLS_BUILD_PRECOMPILED_TEST_H_

#include <gtest/gtest.h>

#include "tools/build/precompiled_common.h"

#endif  // POLLUX_TOOLS_BUILD_PRECOMPILED_TEST_H_
