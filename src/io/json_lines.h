// Append-only JSON lines (metrics.jsonl): one object per line. Each line goes to the system at
// once, so a killed process loses no line that it has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "io/posix.h"

namespace dtn {

using JsonValue = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string>;
// Fields in the order in which they are written.
using JsonFields = std::vector<std::pair<std::string, JsonValue>>;

// Returns one line without the line break. Non-finite numbers become null.
std::string to_json(const JsonFields& fields);

// Returns the text with each byte that is not valid UTF-8 replaced by U+FFFD, as in JSON files.
std::string valid_utf8(const std::string& text);

class JsonLinesWriter {
 public:
  // Opens or creates `path` for appending. Throws Error with the path and the system's reason.
  explicit JsonLinesWriter(std::filesystem::path path);
  // The same for a run that resumes after `step`. First removes, in one atomic rewrite, lines with
  // a greater `step` and lines torn by a kill. If `evaluated_step` is given, this also removes
  // evaluations (lines with a `split`) after it: that of `step` itself may have to be repeated.
  static JsonLinesWriter open_for_resume(const std::filesystem::path& path, std::int64_t step,
                                         std::optional<std::int64_t> evaluated_step = {});

  // Throws Error if the line cannot be written whole; the file then ends where it did before.
  void write(const JsonFields& fields);
  // The same for an object that is already text, without line breaks.
  void write(const std::string& object);
  // Syncs the written lines to disk.
  void sync();

 private:
  std::filesystem::path path_;
  FileHandle file_;
};

}  // namespace dtn
