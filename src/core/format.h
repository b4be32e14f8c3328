// Text by printf's patterns, checked by the compiler.
#pragma once

#include <string>

namespace dtn {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// A word of a shell's command line, in quotes if it needs them.
std::string shell_quoted(const std::string& word);

// A number of bytes with 3 or 4 digits: "12.3 MiB", "40.25 GiB".
std::string bytes_text(double bytes);

}  // namespace dtn
