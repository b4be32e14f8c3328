#include "io/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "io/posix.h"

namespace dtn {
namespace {

// Runs in the child between fork and exec, and calls only functions that are safe there. Returns
// only on failure, with errno set.
void become(char* const* argv, int log, const char* folder, pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (::getppid() != parent) ::_exit(1);  // the parent died before prctl()
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(log, STDOUT_FILENO) < 0 ||
      ::dup2(log, STDERR_FILENO) < 0 || ::chdir(folder) != 0) {
    return;
  }
  ::execvp(argv[0], argv);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::filesystem::path& log, const std::filesystem::path& folder) {
  FileHandle output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (output.get() < 0) throw_errno("open", log);
  // If exec fails, the child writes errno to the pipe. A successful exec closes the pipe.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("open a pipe for", command[0]);
  FileHandle read_end(ends[0]);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  {
    FileHandle write_end(ends[1]);
    pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw_errno("start", command[0]);
    if (pid_ == 0) {
      become(argv.data(), output.get(), folder.c_str(), parent);
      int error = errno;
      if (::write(write_end.get(), &error, sizeof error) < 0) ::_exit(126);
      ::_exit(127);
    }
  }
  int error = 0;
  ssize_t n;
  do {
    n = ::read(read_end.get(), &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  if (n > 0) {
    ::waitpid(pid_, nullptr, 0);
    throw_errno("start", command[0], error);
  }
}

ChildProcess::~ChildProcess() {
  if (exit_) return;
  send(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<ChildExit> ChildProcess::reap(int flags) {
  int status = 0;
  pid_t n = 0;
  while (!exit_ && (n = ::waitpid(pid_, &status, flags)) < 0 && errno == EINTR) {
  }
  if (n > 0 && WIFSIGNALED(status)) exit_ = ChildExit{0, WTERMSIG(status)};
  if (n > 0 && WIFEXITED(status)) exit_ = ChildExit{WEXITSTATUS(status), 0};
  if (n < 0) throw Error(cat("cannot wait for a child process: ", std::strerror(errno)));
  return exit_;
}

std::optional<ChildExit> ChildProcess::poll() { return reap(WNOHANG); }

ChildExit ChildProcess::wait() { return *reap(0); }

void ChildProcess::send(int signal) const {
  if (!exit_) ::kill(pid_, signal);
}

}  // namespace dtn
