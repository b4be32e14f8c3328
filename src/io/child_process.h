// A child process that does not outlive its parent.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dtn {

struct ChildExit {
  int code = 0;
  int signal = 0;  // the signal that killed it, or 0
};

class ChildProcess {
 public:
  // Runs `command` (a program's path and its arguments) in `folder`. Standard input is empty, and
  // all output is appended to `log`. The child has its own process group, so Ctrl-C in the terminal
  // reaches it only if the parent forwards the signal. The system kills the child when the parent
  // dies. Call this from the main thread: the child dies with the thread that starts it. Throws
  // Error if the program cannot be started.
  ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& log,
               const std::filesystem::path& folder = ".");
  // Kills the child if it still runs, and waits for it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Returns the exit status, or nothing while the child runs.
  std::optional<ChildExit> poll();
  // Waits for the child to exit.
  ChildExit wait();
  void send(int signal) const;

 private:
  std::optional<ChildExit> reap(int flags);

  pid_t pid_ = -1;
  std::optional<ChildExit> exit_;
};

}  // namespace dtn
