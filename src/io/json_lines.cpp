#include "io/json_lines.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/format.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

enum class LineFate { kKeep, kLater, kTorn };

LineFate judge(const std::string& line, std::int64_t step, std::int64_t evaluated_step) {
  auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return LineFate::kTorn;
  auto found = object.find("step");
  if (found == object.end() || !found->is_number()) return LineFate::kKeep;
  std::int64_t limit = object.contains("split") ? evaluated_step : step;
  return found->get<double>() > static_cast<double>(limit) ? LineFate::kLater : LineFate::kKeep;
}

void drop_later_lines(const fs::path& path, std::int64_t step, std::int64_t evaluated_step) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_errno("read", path);
  AtomicFile kept(path);
  int dropped = 0;
  int torn = 0;
  for (std::string line; std::getline(in, line);) {
    // A line without a line break is torn even if it parses: 12 may be the start of 1234.
    LineFate fate = in.eof() ? LineFate::kTorn : judge(line, step, evaluated_step);
    if (fate == LineFate::kKeep) kept.write(line + "\n");
    dropped += fate != LineFate::kKeep;
    torn += fate == LineFate::kTorn;
  }
  if (in.bad()) throw_errno("read", path);
  if (torn) log_warn(cat(path.string(), ": removed ", counted(torn, "incomplete lines")));
  if (dropped) kept.commit();
}

}  // namespace

std::string to_json(const JsonFields& fields) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : fields) {
    auto& slot = object[name];
    std::visit([&slot](const auto& v) { slot = v; }, value);
  }
  // Text that is not UTF-8 (such as a file name) must not stop a run.
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string valid_utf8(const std::string& text) {
  using Json = nlohmann::json;
  if (std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; })) return text;
  const std::string json = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(json).get<std::string>();
}

JsonLinesWriter::JsonLinesWriter(fs::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_.get() < 0) throw_errno("open", path_);
}

JsonLinesWriter JsonLinesWriter::open_for_resume(const fs::path& path, std::int64_t step,
                                                 std::optional<std::int64_t> evaluated_step) {
  std::error_code error;
  if (fs::exists(path, error)) drop_later_lines(path, step, evaluated_step.value_or(step));
  return JsonLinesWriter(path);
}

void JsonLinesWriter::write(const JsonFields& fields) { write(to_json(fields)); }

void JsonLinesWriter::write(const std::string& object) {
  append_all(file_.get(), object + "\n", path_);
}

void JsonLinesWriter::sync() {
  if (::fsync(file_.get()) != 0 && errno != EINVAL) throw_errno("sync", path_);
}

}  // namespace dtn
