// Repairs text that may not be UTF-8, such as file names.
#pragma once

#include <string>

namespace dtn {

// Returns the text with each byte that is not valid UTF-8 replaced by U+FFFD, as in JSON files.
std::string valid_utf8(const std::string& text);

}  // namespace dtn
