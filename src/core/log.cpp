#include "dtn/core/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <set>
#include <string>

#include "core/progress.h"
#include "core/quiet_log.h"

namespace dtn {
namespace {

constexpr const char* kTimedPattern = "[%Y-%m-%d %H:%M:%S] %v";

// Returns true if standard error already goes to that file, as in the runs of a sweep.
bool is_standard_error(const std::string& path) {
  struct stat named, used;
  return ::stat(path.c_str(), &named) == 0 && ::fstat(STDERR_FILENO, &used) == 0 &&
         named.st_dev == used.st_dev && named.st_ino == used.st_ino;
}

// Keeps log lines until a file is opened. Then writes each line to the file immediately.
class FileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  bool open(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (file_.is_open()) file_.close();  // of the previous run
    file_.clear();
    file_.open(path, std::ios::app);
    for (const std::string& line : waiting_) file_ << line;
    waiting_.clear();
    file_.flush();
    return file_.good();
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (file_.is_open()) {
      file_.write(line.data(), static_cast<std::streamsize>(line.size()));
      file_.flush();
      return;
    }
    constexpr std::size_t kMaxLines = 1000;
    waiting_.emplace_back(line.data(), line.size());
    if (waiting_.size() > kMaxLines) waiting_.pop_front();
  }
  void flush_() override { file_.flush(); }

  std::ofstream file_;
  std::deque<std::string> waiting_;
};

const std::shared_ptr<FileSink>& file_sink() {
  static const auto sink = std::make_shared<FileSink>();
  return sink;
}

// The sink of standard error. On a terminal, lines have no time, and only warnings and errors have
// a colour.
const auto& error_sink() {
  static const auto sink = [] {
    auto made = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(
        errors_have_color() ? spdlog::color_mode::always : spdlog::color_mode::never);
    made->set_color(spdlog::level::info, "");
    return made;
  }();
  return sink;
}

// Sets the patterns of the sinks, with a text before each message.
void set_patterns(const std::string& before) {
  const std::string timed = "[%Y-%m-%d %H:%M:%S] " + before + "%v";
  error_sink()->set_pattern(errors_on_terminal() ? "%^" + before + "%v%$" : timed);
  file_sink()->set_pattern(timed);
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    set_patterns("");
    return spdlog::logger("dtn", {error_sink(), file_sink()});
  }();
  return instance;
}

}  // namespace

void log_info(std::string_view message) {
  erase_bar();
  logger().info(message);
}
void log_detail(std::string_view message) {
  if (!errors_on_terminal()) return log_info(message);
  if (!logger().should_log(spdlog::level::info)) return;
  file_sink()->log(spdlog::details::log_msg("dtn", spdlog::level::info, message));
}
void log_warn(std::string_view message) {
  erase_bar();
  logger().warn("warning: {}", message);
}
void log_warn_once(const std::string& message) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  const std::lock_guard<std::mutex> lock(mutex);
  if (logged.insert(message).second) log_warn(message);
}
void log_error(std::string_view message) {
  erase_bar();
  logger().error("error: {}", message);
}

void repeat_error_at_the_end(std::string_view message) {
  const std::string text = "error: " + std::string(message);
  const spdlog::details::log_msg entry("dtn", spdlog::level::err, text);
  spdlog::memory_buf_t line;
  spdlog::pattern_formatter(kTimedPattern).format(entry, line);
  // The child only calls functions that are safe after fork() in a process with threads.
  if (::fork() != 0) return;
  ::setsid();
  ::usleep(200'000);
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(written < 0);
}

void log_to_file(const std::string& path) {
  if (is_standard_error(path)) return;
  if (!file_sink()->open(path)) log_warn("cannot write " + path + "; this run has no log file");
}

QuietLog::QuietLog() : before_(logger().level()) { logger().set_level(spdlog::level::warn); }
QuietLog::~QuietLog() { logger().set_level(static_cast<spdlog::level::level_enum>(before_)); }

void log_as_rank(int rank) {
  if (rank == 0) return;
  logger().set_level(spdlog::level::warn);
  set_patterns("rank " + std::to_string(rank) + ": ");
}

}  // namespace dtn
