// Skips tests on machines that lack the required hardware.
#pragma once

#include <gtest/gtest.h>

// Skips the test unless `condition` is true. `what` names the hardware. `sources` lists the files
// that no other test covers, as patterns separated by spaces.
//
// tools/gpu_check recognizes this message: it does not count the test as failed, nor the files as
// tested. For any other reason use GTEST_SKIP(), which tools/gpu_check counts as a failure.
#define DTN_NEEDS_HARDWARE(condition, what, sources) \
  if (!(condition)) GTEST_SKIP() << "needs hardware: " << (what) << "; not tested: " << (sources)
