// Text by printf's patterns, checked by the compiler.
#pragma once

#include <string>

namespace dtn {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace dtn
