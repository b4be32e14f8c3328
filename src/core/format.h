// Text from printf patterns, which the compiler checks.
#pragma once

#include <concepts>
#include <string>

namespace dtn {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// Quotes a word for a shell command line, if it needs quotes.
std::string shell_quoted(const std::string& word);

// Returns a regular plural noun, or its singular if `one`.
std::string noun_form(std::string plural, bool one);

// A number with its noun: "1 image", "2 images" of "images".
std::string counted(std::integral auto n, const std::string& plural) {
  return std::to_string(n) + " " + noun_form(plural, n == 1);
}

// A number of bytes with 3 or 4 digits: "12.3 MiB", "40.25 GiB", and "12 bytes" for a few.
std::string bytes_text(double bytes);

}  // namespace dtn
