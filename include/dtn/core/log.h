// Logging for the tools and the trainer; kernels and math never log.
#pragma once

#include <string>
#include <string_view>

namespace dtn {

// Lines go to standard error, so that standard output stays clean for results.
void log_info(std::string_view message);
void log_warn(std::string_view message);
void log_error(std::string_view message);
// Writes the line of an error to standard error once more, a moment later and from a child process,
// below what a launcher prints when this process ends. A launcher may end before it reads the line.
void repeat_error_at_the_end(std::string_view message);

// From now on lines are also appended to that file, what has been said before with them.
void log_to_file(const std::string& path);

// In a job of several processes: from now on a rank other than the first keeps its information to
// itself and says who it is when it warns.
void log_as_rank(int rank);

}  // namespace dtn
