#include "data/corrupt/corrupt_record.h"

#include <sstream>

#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxBytes = 1 << 16;
constexpr const char* kTitle = "corrupted images made by dtn-data corrupt";

fs::path record_file(const fs::path& folder) { return folder / "corruptions.txt"; }

std::string text_of(const CorruptRecord& record) {
  return cat(kTitle, "\nseed ", record.seed, "\nformat ", name_of(record.format), "\n",
             record.frost.empty() ? "" : cat("frost ", record.frost, "\n"));
}

void check_same(const fs::path& folder, const char* what, const std::string& was,
                const std::string& now) {
  if (was == now) return;
  throw ConfigError(cat(folder.string(), ": its images were made with ", what, " ", was, ", not ",
                        now, "; name another output, or delete this one"));
}

[[noreturn]] void fail_record(const fs::path& file) {
  throw DataError(cat(file.string(), ": is not what dtn-data corrupt writes; remove it, or name ",
                      "another folder"));
}

}  // namespace

std::optional<CorruptRecord> read_corrupt_record(const fs::path& folder) {
  const fs::path file = record_file(folder);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  const std::vector<std::byte> bytes = read_file(file.string(), kMaxBytes);
  std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::string title, seed_key, format_key, format, frost_key;
  CorruptRecord record;
  std::getline(text, title);
  text >> seed_key >> record.seed >> format_key >> format;
  if (title != kTitle || !text || seed_key != "seed" || format_key != "format" ||
      (format != "jpeg" && format != "png")) {
    fail_record(file);
  }
  record.format = corrupt_format(format);
  if (text >> frost_key && (frost_key != "frost" || !(text >> record.frost))) fail_record(file);
  return record;
}

void extend_corrupt_record(const fs::path& folder, CorruptRecord record) {
  const std::optional<CorruptRecord> was = read_corrupt_record(folder);
  if (was) {
    check_same(folder, "--seed", std::to_string(was->seed), std::to_string(record.seed));
    check_same(folder, "--format", name_of(was->format), name_of(record.format));
    if (!was->frost.empty() && !record.frost.empty()) {
      check_same(folder, "frost textures", was->frost, record.frost);
    }
    if (record.frost.empty()) record.frost = was->frost;
    if (text_of(record) == text_of(*was)) return;
  }
  write_file_atomic(record_file(folder), text_of(record));
}

}  // namespace dtn
