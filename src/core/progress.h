// Progress bar of long work, and the width of the terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dtn {

class ProgressBar {
 public:
  // `total` units of work, of which `done` are done already. Writes to standard error.
  ProgressBar(std::string title, std::int64_t total, std::int64_t done = 0);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Redraws at most ten times a second. Does nothing if the output is piped.
  void update(std::int64_t done, const std::string& detail);
  // The same, with `text` after the bar.
  void draw(double fraction, const std::string& text);
  // Erases the bar, so that a line can be printed; the next update draws it again.
  void clear();
  // Returns the time left at the average rate since the start, like "1 h 02 min"; "?" if unknown.
  std::string time_left(std::int64_t done) const;

 private:
  bool due() const;

  std::string title_;
  std::int64_t total_, first_;
  std::chrono::steady_clock::time_point start_, last_draw_{};
  bool terminal_, visible_ = false;
};

// Erases a bar that is on the terminal now, of any thread, so that a line can be printed.
void erase_bar();

// Columns of the terminal on standard output, or on standard error; `otherwise` if there is none.
std::size_t output_columns(std::size_t otherwise = 100);
std::size_t error_columns(std::size_t otherwise = 80);

// True if standard error is a terminal.
bool errors_on_terminal();
// True if standard error is a terminal that shows colours: NO_COLOR is not set, see
// https://no-color.org, and TERM is not `dumb`.
bool errors_have_color();

// "4.2 s", "3 min 05 s", "1 h 02 min", "2.5 days"
std::string format_duration(double seconds);

}  // namespace dtn
