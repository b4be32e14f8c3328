// Progress of a download: a bar on a terminal, a line now and then in a pipe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/progress.h"

namespace dtn::app {

class TransferProgress {
 public:
  // `done` of `total` bytes have arrived before.
  TransferProgress(std::string title, std::int64_t total, std::int64_t done);

  void update(std::int64_t done);

 private:
  std::string text(std::int64_t done) const;

  std::string title_;
  std::int64_t total_, first_;
  std::chrono::steady_clock::time_point start_, last_line_;
  bool terminal_;
  ProgressBar bar_;
};

// Returns a rate such as "12.3 MiB/s".
std::string rate_text(std::int64_t bytes, double seconds);

}  // namespace dtn::app
