// Tests that need hardware which a machine may lack.
#pragma once

#include <gtest/gtest.h>

// Skips the test unless `condition` holds. `what` names the hardware. `sources` names the files
// that no other test covers, as patterns between blanks.
//
// tools/gpu_check looks for this message: such a test is left out, which is no failure, and these
// files do not count as tested. For any other reason use GTEST_SKIP(): that is a failure there.
#define DTN_NEEDS_HARDWARE(condition, what, sources) \
  if (!(condition)) GTEST_SKIP() << "needs hardware: " << (what) << "; not tested: " << (sources)
