// The end of a download that a signal asked for.
#pragma once

#include "dtn/core/check.h"

namespace dtn::app {

// Thrown once stop_requested() is true. The part of the file that has arrived is kept.
class StoppedError : public Error {
 public:
  using Error::Error;
};

}  // namespace dtn::app
