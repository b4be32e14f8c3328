// Repeated attempts after broken connections and answers that ask to come back later.
#pragma once

#include <functional>
#include <string>

#include "apps/get/http.h"

namespace dtn::app {

struct RetryOptions {
  int retries = 5;        // in a row without new bytes of the file
  double first_wait = 1;  // seconds; doubles with each retry
  double max_wait = 60;   // seconds, of doubled waits
  double patience = 300;  // seconds; a server that asks to wait longer ends the download
};

// True if another attempt may succeed: a broken connection, or status 408, 429, 500, 502, 503, 504.
bool is_temporary(const HttpResult& result);
// Returns the seconds to wait before retry number `retry`, from 0. Honours Retry-After.
double wait_before(int retry, const HttpResult& result, const RetryOptions& options);

class Retries {
 public:
  // `file` names the download in messages.
  Retries(std::string file, const RetryOptions& options)
      : file_(std::move(file)), options_(options) {}

  // Waits before the next attempt, and says so. Throws Error if there were enough attempts or the
  // server asks to wait too long, and StoppedError if a signal asks for it. `state` says what has
  // arrived so far.
  void wait(const HttpResult& result, const std::string& state);
  // Says that bytes have arrived, so that the count begins anew.
  void reset() { retry_ = 0; }

 private:
  std::string file_;
  RetryOptions options_;
  int retry_ = 0;
};

// Sleeps. Throws StoppedError as soon as a signal asks for it.
void sleep_until_stopped(double seconds);

}  // namespace dtn::app
