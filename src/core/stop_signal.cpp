#include "core/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace dtn {
namespace {

volatile std::sig_atomic_t requested = 0, patient = 0;

void on_signal(int signal) {
  requested = 1;
  if (!patient) std::signal(signal, SIG_DFL);
}

}  // namespace

void install_stop_signals(bool second_kills) {
  patient = !second_kills;
  for (int signal : {SIGTERM, SIGINT, SIGUSR1}) std::signal(signal, on_signal);
}

bool stop_requested() { return requested != 0; }

}  // namespace dtn
