// Errors and precondition checks. Every message says what went wrong, where, and what to do next.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace dtn {

// Base of all errors this library throws on purpose. Tools map the type to an exit code.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bad usage or configuration (exit code 2).
class ConfigError : public Error {
 public:
  using Error::Error;
};

// Data that is missing, damaged or inconsistent (exit code 3).
class DataError : public Error {
 public:
  using Error::Error;
};

// Training produced non-finite numbers and cannot go on (exit code 4).
class DivergedError : public Error {
 public:
  using Error::Error;
};

// Concatenates its arguments with operator<<.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

namespace detail {
[[noreturn]] void fail_check(const char* file, int line, const char* condition,
                             const std::string& message);
}  // namespace detail
}  // namespace dtn

// Checks a precondition or an invariant. A failure is a bug in the caller and throws dtn::Error.
#define DTN_CHECK(condition, ...)                                                         \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::dtn::detail::fail_check(__FILE__, __LINE__, #condition, ::dtn::cat(__VA_ARGS__)); \
  } while (false)
