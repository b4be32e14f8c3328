#include "core/stop_signal.h"

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

namespace dtn {
namespace {

enum class Answer { kKill, kStopOnce, kStop };

struct StopSignal {
  int number;
  std::atomic<bool> ignored = false;  // when the program started, as in a background job
  std::atomic<bool> arrived = false;  // as a request to stop
};

std::array<StopSignal, 3> stop_signals{{{SIGTERM}, {SIGINT}, {SIGUSR1}}};
std::atomic<Answer> answer = Answer::kKill;
std::atomic<bool> requested = false;

sigset_t set_of_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const StopSignal& signal : stop_signals) sigaddset(&set, signal.number);
  return set;
}

void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  const sigset_t set = set_of_stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
}

// Runs in the thread that takes the signals, or as a handler.
void take_signal(int number) {
  for (StopSignal& signal : stop_signals) {
    if (signal.number != number) continue;
    if (answer == Answer::kKill) {
      if (!signal.ignored) die_of(number);
      return;
    }
    requested = true;
    if (signal.arrived.exchange(true) && answer == Answer::kStopOnce) die_of(number);
  }
}

void wait_for_signals() {
  const sigset_t set = set_of_stop_signals();
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) == 0) take_signal(number);
  }
}

}  // namespace

void watch_stop_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (StopSignal& signal : stop_signals) {
      struct sigaction now = {};
      signal.ignored = sigaction(signal.number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    }
    const sigset_t set = set_of_stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::thread(wait_for_signals).detach();
  });
}

void install_stop_signals(bool second_kills) {
  watch_stop_signals();
  answer = second_kills ? Answer::kStopOnce : Answer::kStop;
  for (const StopSignal& signal : stop_signals) std::signal(signal.number, take_signal);
}

bool stop_requested() { return requested; }

}  // namespace dtn
