// Records measurements of the device tests for tests/gpu_ledger.json. If DTN_LEDGER=FILE is set in
// the environment, each measurement is appended to FILE as one line of JSON.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "dtn/core/dtype.h"

namespace dtn::test {

inline void record_line(const std::string& line) {
  const char* path = std::getenv("DTN_LEDGER");
  if (!path) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

inline void record_error(const char* kernel, const std::string& what, DType dtype, double error,
                         double bound) {
  char text[512];
  std::snprintf(text, sizeof text,
                "{\"kernel\": \"%s\", \"case\": \"%s\", \"dtype\": \"%s\", \"max_error\": %.3g, "
                "\"bound\": %.3g}",
                kernel, what.c_str(), name_of(dtype), error, bound);
  record_line(text);
}

}  // namespace dtn::test
