// Parses sizes on a command line.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

#include "dtn/core/check.h"

namespace dtn::app {

// "16,196,432" -> {16, 196, 432}
template <std::size_t n>
std::array<std::int64_t, n> parse_sizes(const char* flag, const std::string& text,
                                        const char* form) {
  std::array<std::int64_t, n> sizes{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (std::size_t i = 0; i < n; ++i) {
    auto [stop, error] = std::from_chars(at, end, sizes[i]);
    bool last = i + 1 == n;
    if (error != std::errc() || sizes[i] < 1 || sizes[i] > 65536 ||
        (last ? stop != end : stop == end || *stop != ',')) {
      throw ConfigError(cat(flag, " ", text, ": write ", form));
    }
    at = stop + 1;
  }
  return sizes;
}

}  // namespace dtn::app
