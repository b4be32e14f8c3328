#include "train/record/step_pictures.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step-", kSuffix = ".png";

fs::path folder_of(const fs::path& run) { return run / "samples"; }

std::string file_name(std::int64_t step) {
  return format("step-%08lld.png", static_cast<long long>(step));
}

// The step of a file, if file_name() makes its name; -1 for any other name.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  const auto step = parse_number<std::int64_t>(name);
  return step && *step >= 0 && file_name(*step) == cat(kPrefix, name, kSuffix) ? *step : -1;
}

}  // namespace

fs::path step_picture_path(const fs::path& run, std::int64_t step) {
  return folder_of(run) / file_name(step);
}

void write_step_picture(const fs::path& run, std::int64_t step, std::span<const std::byte> png) {
  std::error_code error;
  fs::create_directories(folder_of(run), error);
  if (error) throw Error(cat(folder_of(run).string(), ": ", error.message()));
  write_file_atomic(step_picture_path(run, step),
                    {reinterpret_cast<const char*>(png.data()), png.size()});
}

std::vector<std::pair<std::int64_t, fs::path>> step_pictures(const fs::path& run) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder_of(run), absent)) {
    const std::int64_t step = step_of(entry.path().filename().string());
    if (step >= 0) found.emplace_back(step, entry.path());
  }
  std::ranges::sort(found);
  return found;
}

void remove_step_pictures_after(const fs::path& run, std::int64_t step) {
  std::error_code ignored;
  if (!fs::is_directory(folder_of(run), ignored)) return;
  remove_stale_temporaries(folder_of(run));
  for (const auto& [of, file] : step_pictures(run)) {
    if (of > step) fs::remove(file, ignored);
  }
}

}  // namespace dtn
