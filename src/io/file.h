// Reads whole files. Errors name the file and the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtn {

// Throws DataError: "cannot read <name>: <reason>".
[[noreturn]] void fail_to_read(const std::string& name, const std::string& reason);

inline constexpr std::int64_t kDefaultMaxFileBytes = 1ll << 30;

// Returns the bytes of a regular file. Throws DataError if it is absent, not a regular file,
// unreadable or larger than `max_bytes`, or if it shrinks during the read.
std::vector<std::byte> read_file(const std::string& path,
                                 std::int64_t max_bytes = kDefaultMaxFileBytes);

// The same into `out`, whose memory is reused.
void read_file_into(const std::string& path, std::vector<std::byte>& out,
                    std::int64_t max_bytes = kDefaultMaxFileBytes);

}  // namespace dtn
