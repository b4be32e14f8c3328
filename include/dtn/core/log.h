// Logging for the tools and the trainer; kernels and math never log.
#pragma once

#include <string_view>

namespace dtn {

// Lines go to standard error, so that standard output stays clean for results.
void log_info(std::string_view message);
void log_warn(std::string_view message);
void log_error(std::string_view message);

}  // namespace dtn
