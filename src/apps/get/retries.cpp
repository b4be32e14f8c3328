#include "apps/get/retries.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "apps/get/stopped.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/seconds_since.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn::app {
namespace {

// Describes why an attempt failed: "the server answers 503", or libcurl's message.
std::string reason_of(const HttpResult& result) {
  if (result.end == HttpEnd::kDone) return cat("the server answers ", result.head.status);
  return result.problem;
}

}  // namespace

bool is_temporary(const HttpResult& result) {
  if (result.end == HttpEnd::kBroken || result.end == HttpEnd::kUnreachable) return true;
  if (result.end != HttpEnd::kDone) return false;
  switch (result.head.status) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return true;
    default: return false;
  }
}

double wait_before(int retry, const HttpResult& result, const RetryOptions& options) {
  const double doubled = std::min(options.first_wait * std::exp2(retry), options.max_wait);
  return std::max(doubled, static_cast<double>(result.wait_for.value_or(0)));
}

void Retries::wait(const HttpResult& result, const std::string& state) {
  const std::string what = cat(file_, ": ", reason_of(result), state);
  if (retry_ >= options_.retries) {
    throw Error(cat(what, "; gave up after ", counted(retry_ + 1, "attempts"),
                    ". Run the same command later; it fetches what is missing"));
  }
  const double seconds = wait_before(retry_, result, options_);
  if (seconds > options_.patience) {
    throw Error(cat(what, ", and asks to wait for ", format_duration(seconds),
                    "; run the same command then"));
  }
  ++retry_;
  log_warn(cat(what, "; trying again in ", format_duration(seconds), " (", retry_, " of ",
               options_.retries, ")"));
  sleep_until_stopped(seconds);
}

void sleep_until_stopped(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    if (stop_requested()) throw StoppedError("stopped by a signal");
    const double left = seconds - seconds_since(start);
    if (left <= 0) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, 0.1)));
  }
}

}  // namespace dtn::app
