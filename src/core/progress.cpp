#include "core/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/format.h"
#include "core/seconds_since.h"

namespace dtn {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t columns_of(int descriptor, std::size_t otherwise) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : otherwise;
}

// True while a bar is on the terminal.
std::atomic<bool> on_terminal = false;

}  // namespace

void erase_bar() {
  if (!on_terminal.exchange(false)) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
}

std::size_t output_columns(std::size_t otherwise) { return columns_of(STDOUT_FILENO, otherwise); }
std::size_t error_columns(std::size_t otherwise) { return columns_of(STDERR_FILENO, otherwise); }

bool errors_on_terminal() { return isatty(STDERR_FILENO) == 1; }

bool errors_have_color() {
  const auto value = [](const char* name) {
    const char* found = std::getenv(name);
    return std::string_view(found ? found : "");
  };
  return errors_on_terminal() && value("NO_COLOR").empty() && !value("TERM").empty() &&
         value("TERM") != "dumb";
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 60) return format("%.1f s", seconds);
  const long long s = std::llround(seconds);
  if (s < 3600) return format("%lld min %02lld s", s / 60, s % 60);
  if (s < 86400) return format("%lld h %02lld min", s / 3600, s / 60 % 60);
  return format("%.1f days", seconds / 86400);
}

ProgressBar::ProgressBar(std::string title, std::int64_t total, std::int64_t done)
    : title_(std::move(title)),
      total_(total),
      first_(done),
      start_(Clock::now()),
      terminal_(errors_on_terminal()) {}

ProgressBar::~ProgressBar() { clear(); }

std::string ProgressBar::time_left(std::int64_t done) const {
  if (done <= first_) return "?";
  double per_unit = seconds_since(start_) / static_cast<double>(done - first_);
  return format_duration(per_unit * static_cast<double>(total_ - done));
}

void ProgressBar::update(std::int64_t done, const std::string& detail) {
  if (!due()) return;
  double total = static_cast<double>(total_);
  draw(total_ > 0 ? static_cast<double>(done) / total : 1,
       std::to_string(done) + "/" + std::to_string(total_) + "  " + detail + "  left " +
           time_left(done));
}

bool ProgressBar::due() const {
  return terminal_ && (!visible_ || seconds_since(last_draw_) >= 0.1);
}

void ProgressBar::draw(double fraction, const std::string& text) {
  if (!due()) return;
  last_draw_ = Clock::now();
  visible_ = true;
  on_terminal = true;
  const int columns = static_cast<int>(error_columns());
  int room = columns - static_cast<int>(title_.size() + text.size()) - 5;
  int width = std::clamp(room, 0, 30);
  int filled = static_cast<int>(width * std::clamp(fraction, 0.0, 1.0));
  std::string bar = width > 0 ? " [" + std::string(static_cast<std::size_t>(filled), '#') +
                                    std::string(static_cast<std::size_t>(width - filled), '.') + "]"
                              : "";
  std::string line = title_ + bar + " " + text;
  line.resize(std::min(line.size(), static_cast<std::size_t>(columns - 1)));
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
}

void ProgressBar::clear() {
  if (!terminal_ || !visible_) return;
  erase_bar();
  visible_ = false;
}

}  // namespace dtn
