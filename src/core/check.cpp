#include "dtn/core/check.h"

#include <cstring>

namespace dtn::detail {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  const char* base = std::strrchr(file, '/');
  std::string text = message.empty() ? cat("check failed: ", condition) : message;
  throw Error(cat(text, " [", base ? base + 1 : file, ":", line, "]"));
}

}  // namespace dtn::detail
