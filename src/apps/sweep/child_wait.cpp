#include "apps/sweep/child_wait.h"

#include <chrono>
#include <csignal>
#include <thread>

#include "core/stop_signal.h"

namespace dtn {

ChildExit wait_or_stop(ChildProcess& child) {
  bool told = false;
  for (;;) {
    if (const auto exit = child.poll()) return *exit;
    if (stop_requested() && !told) {
      told = true;
      child.send(SIGINT);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace dtn
