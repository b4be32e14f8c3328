// Text that may be no UTF-8, such as names of files.
#pragma once

#include <string>

namespace dtn {

// The text with each byte that is not valid UTF-8 replaced by U+FFFD, as JSON files hold it.
std::string valid_utf8(const std::string& text);

}  // namespace dtn
