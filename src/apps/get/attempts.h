// The attempts at one file: requests, and the decision after one that failed.
#pragma once

#include <string>
#include <vector>

#include "apps/get/download.h"

namespace dtn::app {

class Attempts {
 public:
  Attempts(const HubConnection& hub, const WantedFile& wanted);

  const std::string& address() const { return address_; }
  HttpResult request(const std::vector<std::string>& headers, HubReceiver& receiver);
  // Waits before another attempt, or throws the error if none would help. `state` says what has
  // arrived so far.
  void recover(const HttpResult& result, const std::string& state);
  // Says that bytes have arrived, so that the count of retries begins anew.
  void reset() { retries_.reset(); }

 private:
  const HubConnection& hub_;
  const WantedFile& wanted_;
  std::string address_;
  Retries retries_;
  bool reached_ = false;  // the server, at least once
};

}  // namespace dtn::app
