// Append-only JSON lines (metrics.jsonl): one object per line, handed to the system line by line,
// so that a killed process loses nothing it had written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dtn {

using JsonValue = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string>;
// In the order they are written.
using JsonFields = std::vector<std::pair<std::string, JsonValue>>;

// One line without the line break. Non-finite numbers become null.
std::string to_json(const JsonFields& fields);

class JsonLinesWriter {
 public:
  // Opens `path` for appending, creating it. Throws Error naming the path and the system's reason.
  explicit JsonLinesWriter(std::filesystem::path path);
  // The same for a run that goes on after `step`: lines with a greater `step`, and lines torn by a
  // kill, are first removed in a single atomic rewrite. So are evaluations (lines with a `split`)
  // after `evaluated_step`, when given: the one of `step` itself may have to be done again.
  static JsonLinesWriter open_for_resume(const std::filesystem::path& path, std::int64_t step,
                                         std::optional<std::int64_t> evaluated_step = {});

  ~JsonLinesWriter();
  JsonLinesWriter(JsonLinesWriter&& other) noexcept;
  JsonLinesWriter& operator=(JsonLinesWriter&&) = delete;

  // Throws Error when the line could not be written whole; the file then ends where it did before.
  void write(const JsonFields& fields);
  // The same of an object that is text already, without line breaks.
  void write(const std::string& object);
  // Makes what is written durable.
  void sync();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace dtn
