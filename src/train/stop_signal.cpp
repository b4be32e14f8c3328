#include "dtn/train/stop_signal.h"

#include <csignal>

namespace dtn {
namespace {

volatile std::sig_atomic_t requested = 0;

void on_signal(int signal) {
  requested = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void install_stop_signals() {
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
}

bool stop_requested() { return requested != 0; }

}  // namespace dtn
