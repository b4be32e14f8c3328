#include "apps/get/transfer_progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/format.h"
#include "core/seconds_since.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn::app {
namespace {

constexpr double kSecondsPerLine = 20;

}  // namespace

std::string rate_text(std::int64_t bytes, double seconds) {
  return cat(bytes_text(static_cast<double>(bytes) / std::max(seconds, 1e-3)), "/s");
}

TransferProgress::TransferProgress(std::string title, std::int64_t total, std::int64_t done)
    : title_(std::move(title)),
      total_(total),
      first_(done),
      start_(std::chrono::steady_clock::now()),
      last_line_(start_),
      terminal_(isatty(STDERR_FILENO) == 1),
      bar_(title_, total, done) {}

std::string TransferProgress::text(std::int64_t done) const {
  return cat(bytes_text(static_cast<double>(done)), " of ", bytes_text(static_cast<double>(total_)),
             "  ", rate_text(done - first_, seconds_since(start_)), "  left ",
             bar_.time_left(done));
}

void TransferProgress::update(std::int64_t done) {
  if (terminal_) {
    const double fraction =
        total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 1;
    bar_.draw(fraction, text(done));
  } else if (seconds_since(last_line_) >= kSecondsPerLine) {
    last_line_ = std::chrono::steady_clock::now();
    log_info(cat(title_, ": ", text(done)));
  }
}

}  // namespace dtn::app
