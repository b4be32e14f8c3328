// Parses sizes and other numbers on a command line.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

#include "dtn/core/check.h"

namespace dtn::app {

// "0.5,2" -> {0.5, 2}, with each number in [low, high]. `form` says what to write.
template <class T, std::size_t n>
std::array<T, n> parse_numbers(const char* flag, const std::string& text, const char* form, T low,
                               T high) {
  std::array<T, n> numbers{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (std::size_t i = 0; i < n; ++i) {
    auto [stop, error] = std::from_chars(at, end, numbers[i]);
    bool last = i + 1 == n;
    if (error != std::errc() || numbers[i] < low || numbers[i] > high ||
        (last ? stop != end : stop == end || *stop != ',')) {
      throw ConfigError(cat(flag, " ", text, ": write ", form));
    }
    at = stop + 1;
  }
  return numbers;
}

// "16,196,432" -> {16, 196, 432}
template <std::size_t n>
std::array<std::int64_t, n> parse_sizes(const char* flag, const std::string& text,
                                        const char* form) {
  return parse_numbers<std::int64_t, n>(flag, text, form, 1, 65536);
}

}  // namespace dtn::app
