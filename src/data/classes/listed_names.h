// Formats class names for messages.
#pragma once

#include <string>
#include <vector>

namespace dtn {

// Returns the first few names: "'cat', 'dog', 'fish' and 4 others".
std::string listed_names(const std::vector<std::string>& names);

}  // namespace dtn
