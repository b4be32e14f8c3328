#include "core/stop_signal.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace dtn {
namespace {

// Each case runs in a process of its own, which starts with the first statement.
class StopSignalDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

bool stop_within_seconds(double most) {
  const auto begin = std::chrono::steady_clock::now();
  while (!stop_requested()) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(most)) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool blocks(int signal) {
  sigset_t set;
  pthread_sigmask(SIG_BLOCK, nullptr, &set);
  return sigismember(&set, signal) == 1;
}

void send(int signal) { ::kill(::getpid(), signal); }
void wait_for_the_end() { std::this_thread::sleep_for(std::chrono::seconds(20)); }

TEST_F(StopSignalDeathTest, KillsBeforeInstallation) {
  EXPECT_EXIT(
      {
        watch_stop_signals();
        send(SIGTERM);
        wait_for_the_end();
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST_F(StopSignalDeathTest, LeavesAnIgnoredSignalIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);
        watch_stop_signals();
        send(SIGINT);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ::_exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(StopSignalDeathTest, RequestsAStopOnceAndKillsOnTheSecond) {
  EXPECT_EXIT(
      {
        install_stop_signals();
        send(SIGTERM);
        if (!stop_within_seconds(10)) ::_exit(1);
        send(SIGTERM);
        wait_for_the_end();
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST_F(StopSignalDeathTest, BearsSeveralSignalsOfALauncher) {
  EXPECT_EXIT(
      {
        install_stop_signals(false);
        for (int i = 0; i < 5; ++i) {
          send(SIGUSR1);
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        ::_exit(stop_within_seconds(10) ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

// Returns the number of computing threads, and of other new threads, that take a stop signal.
int threads_with_open_signals() {
  std::atomic<int> open = 0;
#pragma omp parallel num_threads(3)
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) open += !blocks(signal);
  std::thread([&] { open += !blocks(SIGTERM); }).join();
  return open;
}

// A handler on a computing thread could write into the heap; see stop_signal.h.
TEST_F(StopSignalDeathTest, ComputingThreadsBlockTheSignals) {
  EXPECT_EXIT(
      {
        install_stop_signals();
        ::_exit(threads_with_open_signals() == 0 ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace dtn
