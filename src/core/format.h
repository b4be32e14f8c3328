// Text from printf patterns, which the compiler checks.
#pragma once

#include <string>

namespace dtn {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// Quotes a word for a shell command line, if it needs quotes.
std::string shell_quoted(const std::string& word);

// A number of bytes with 3 or 4 digits: "12.3 MiB", "40.25 GiB".
std::string bytes_text(double bytes);

}  // namespace dtn
