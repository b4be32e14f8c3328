// Logging for the tools and the trainer. Kernels and math never log.
#pragma once

#include <string>
#include <string_view>

namespace dtn {

// Lines go to standard error, so that standard output stays clean for results.
void log_info(std::string_view message);
// Logs information that a terminal shows in another form: to the file of log_to_file(), and to
// standard error where that is no terminal.
void log_detail(std::string_view message);
// Logs a warning.
void log_warn(std::string_view message);
// Logs a warning, unless this process has logged the same text before.
void log_warn_once(const std::string& message);
// Logs an error.
void log_error(std::string_view message);
// Writes the error line to standard error again, from a child process, 0.2 s later. The line then
// appears below the messages that a launcher prints when this process ends. A launcher may end
// before it reads the line.
void repeat_error_at_the_end(std::string_view message);

// Appends all further lines to this file too, preceded by the lines logged so far.
void log_to_file(const std::string& path);

// For a job of several processes. After this call, a rank other than 0 logs no information, and its
// warnings and errors name the rank.
void log_as_rank(int rank);

}  // namespace dtn
