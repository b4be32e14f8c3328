#include "io/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "dtn/core/check.h"
#include "temp_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;

class ChildProcesses : public ::testing::Test {
 protected:
  // Returns the message of the error, and fails without one.
  template <class F>
  static std::string error_of(F&& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  const test::TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(ChildProcesses, ReportExitStatusAndWriteLog) {
  const fs::path log = folder_ / "log";
  const auto run = [&](const char* script) {
    return ChildProcess({"sh", "-c", script}, log, folder_).wait();
  };
  EXPECT_EQ(run("pwd; echo oops >&2; cat; exit 7").code, 7);  // cat: standard input is empty
  EXPECT_EQ(temporary_.read("log"), fs::canonical(folder_).string() + "\noops\n");
  EXPECT_EQ(run("echo more").code, 0);
  EXPECT_TRUE(temporary_.read("log").ends_with("oops\nmore\n"));
  EXPECT_EQ(run("kill -TERM $$").signal, SIGTERM);
  const std::string absent = error_of([&] { ChildProcess({"no-such-program"}, log); });
  EXPECT_NE(absent.find("no-such-program"), std::string::npos);
  error_of([&] { ChildProcess({"true"}, folder_ / "absent" / "log"); });
  error_of([&] { ChildProcess({"true"}, log, folder_ / "absent"); });

  ChildProcess sleeper({"sleep", "100"}, log);
  EXPECT_FALSE(sleeper.poll());
  sleeper.send(SIGINT);
  EXPECT_EQ(sleeper.wait().signal, SIGINT);
  EXPECT_EQ(sleeper.poll()->signal, SIGINT);
  // The destructor ends a running process: no process holds the other end of the pipe any more.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  { ChildProcess waiter({"sleep", "100"}, log, folder_); }
  ::close(ends[1]);
  pollfd hung_up{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&hung_up, 1, 5000), 1);
  ::close(ends[0]);
}

}  // namespace
}  // namespace dtn
