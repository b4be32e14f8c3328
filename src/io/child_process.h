// A program run as a child that does not outlive us.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dtn {

struct ChildExit {
  int code = 0;
  int signal = 0;  // that killed it, or 0
};

class ChildProcess {
 public:
  // Runs `command`, a program's path and its arguments, with nothing on standard input and all
  // output at the end of `log`. The child is in a process group of its own, so that Ctrl-C on the
  // terminal reaches it only through us; the system kills it when we die. Call it from the main
  // thread: the child dies with the thread that made it. Throws Error when it cannot be started.
  ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& log,
               const std::filesystem::path& folder = ".");
  // Kills the child if it still runs, and waits for it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // How it ended; nothing while it runs.
  std::optional<ChildExit> poll();
  // Waits for its end.
  ChildExit wait();
  void send(int signal) const;

 private:
  std::optional<ChildExit> reap(int flags);

  pid_t pid_ = -1;
  std::optional<ChildExit> exit_;
};

}  // namespace dtn
