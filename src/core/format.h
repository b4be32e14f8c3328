// Text from printf patterns, which the compiler checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtn {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// Quotes a word for a shell command line, if it needs quotes.
std::string shell_quoted(const std::string& word);

// A number of bytes with 3 or 4 digits: "12.3 MiB", "40.25 GiB", and "12 bytes" for a few.
std::string bytes_text(double bytes);

// A number with its noun: "1 image", "2 images".
std::string counted(std::int64_t n, std::string_view one, std::string_view many);

}  // namespace dtn
