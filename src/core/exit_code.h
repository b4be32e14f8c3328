// Exit codes of all programs.
#pragma once

namespace dtn {

enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,    // system error (disk full, out of memory), or a bug
  kExitUsage = 2,     // bad usage or config
  kExitData = 3,      // data missing, damaged or inconsistent
  kExitDiverged = 4,  // training diverged
  kExitStopped = 75,  // stopped by a signal after a checkpoint
};

}  // namespace dtn
