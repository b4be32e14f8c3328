// Waiting for a program that a sweep has started.
#pragma once

#include "io/child_process.h"

namespace dtn {

// Waits for the child to exit. Forwards a requested stop to it, once, as SIGINT.
ChildExit wait_or_stop(ChildProcess& child);

}  // namespace dtn
