#include "data/corrupt/corrupt_folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "core/seconds_since.h"
#include "data/source/parallel_ordered.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/posix.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

bool is_finished(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_errno("create the folder", folder, error.value());
}

// Result for one image.
struct Made {
  std::int64_t files = 0, bytes = 0;
  std::string failure;
};

constexpr std::int64_t kMaxRecordBytes = 1 << 16;
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
  std::istringstream text(read_text(file.string(), kMaxRecordBytes));
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

CorruptFolders::CorruptFolders(const Dataset& dataset, CorruptOptions options)
    : dataset_(dataset), options_(std::move(options)) {
  if (!dataset.has_pixels())
    throw ConfigError("a data set of tensors or sequences has no pixels to corrupt");
  const auto images = static_cast<std::size_t>(dataset.size());
  items_.reserve(images);
  files_.reserve(images);
  std::unordered_map<std::string_view, std::size_t> taken;
  for (std::size_t i = 0; i < images; ++i) {
    items_.push_back(corruption_item(dataset, static_cast<std::int64_t>(i)));
    files_.push_back(corrupted_file_name(items_.back(), options_.format));
    const auto [at, is_new] = taken.emplace(files_.back(), i);
    if (is_new) continue;
    throw DataError(cat(items_[at->second], " and ", items_[i], " would both become ", files_[i],
                        "; rename one"));
  }
}

std::string CorruptFolders::path(const CorruptionCell& cell, const std::string& file) const {
  return cat(options_.output, "/", cell.name(), "/", file);
}

std::vector<bool> CorruptFolders::find_finished(std::int64_t& there) const {
  const std::size_t cells = options_.cells.size();
  std::vector<bool> finished(files_.size() * cells);
  there = 0;
  for (std::size_t c = 0; c < cells; ++c) {
    if (!fs::exists(path(options_.cells[c], ""))) continue;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      finished[i * cells + c] = is_finished(path(options_.cells[c], files_[i]));
      there += finished[i * cells + c];
    }
  }
  return finished;
}

CorruptPlan CorruptFolders::plan(int samples) const {
  CorruptPlan plan;
  plan.images = dataset_.size();
  plan.files = plan.images * static_cast<std::int64_t>(options_.cells.size());
  find_finished(plan.there);
  samples = static_cast<int>(std::min<std::int64_t>(samples, plan.images));
  CorruptWorkspace ws;
  double seconds = 0, bytes = 0;
  int made = 0;
  // The first image is made twice: the first pass builds tables that are then reused.
  for (int sample = -1; sample < samples; ++sample) {
    const std::int64_t index = std::max(sample, 0) * plan.images / std::max(samples, 1);
    const auto start = std::chrono::steady_clock::now();
    double image_bytes = 0;
    try {
      const Image& image = load_for_corruption(dataset_, index, CorruptSource::kCrop, ws);
      for (const CorruptionCell& cell : options_.cells) {
        apply_corruption(image, cell, {options_.seed, items_[static_cast<std::size_t>(index)]},
                         options_.frost.get(), ws.scratch, ws.corrupted);
        encode_corrupted(ws.corrupted, options_.format, ws);
        image_bytes += static_cast<double>(ws.encoded.size());
      }
    } catch (const DataError&) {
      continue;  // run() reports it
    }
    if (sample < 0) continue;
    seconds += seconds_since(start);
    bytes += image_bytes;
    ++made;
  }
  if (made == 0) return plan;
  const double missing = static_cast<double>(plan.files - plan.there);
  const double per_image = static_cast<double>(options_.cells.size());
  plan.bytes = bytes / made * static_cast<double>(plan.images);
  plan.seconds = seconds / made / per_image * missing / std::max(options_.jobs, 1);
  return plan;
}

// Creates all folders for the files, and deletes temporaries of a killed run in existing ones.
void CorruptFolders::make_folders() const {
  std::set<fs::path> parents;
  for (const std::string& file : files_) parents.insert(fs::path(file).parent_path());
  for (const CorruptionCell& cell : options_.cells) {
    for (const fs::path& parent : parents) {
      const fs::path folder = path(cell, parent.string());
      std::error_code ignored;
      if (fs::is_directory(folder, ignored)) {
        remove_stale_temporaries(folder);
      } else {
        create_folders(folder);
      }
    }
  }
}

CorruptReport CorruptFolders::run(
    const std::function<bool(std::int64_t)>& keep_going,
    const std::function<void(const BadSample&)>& on_unreadable) const {
  create_folders(options_.output);
  extend_corrupt_record(options_.output, {options_.seed, options_.format,
                                          options_.frost ? options_.frost->identity() : ""});
  std::vector<DirectoryLock> locks;
  locks.reserve(options_.cells.size());
  for (const CorruptionCell& cell : options_.cells) {
    create_folders(path(cell, ""));
    locks.push_back(lock_for_writing(path(cell, "")));
  }
  make_folders();

  CorruptReport report;
  const std::size_t cells = options_.cells.size();
  report.images = dataset_.size();
  report.files = report.images * static_cast<std::int64_t>(cells);
  const std::vector<bool> finished = find_finished(report.there);
  std::int64_t done = report.there;
  const auto make = [&](std::int64_t index, CorruptWorkspace& ws, Made& made) {
    made = {};
    const auto i = static_cast<std::size_t>(index);
    const Image* image = nullptr;
    for (std::size_t c = 0; c < cells; ++c) {
      if (finished[i * cells + c]) continue;
      if (!image) {
        try {
          image = &load_for_corruption(dataset_, index, CorruptSource::kCrop, ws);
        } catch (const DataError& e) {
          made.failure = e.what();
          return;
        }
      }
      const CorruptionCell& cell = options_.cells[c];
      apply_corruption(*image, cell, {options_.seed, items_[i]}, options_.frost.get(), ws.scratch,
                       ws.corrupted);
      encode_corrupted(ws.corrupted, options_.format, ws);
      AtomicFile file(path(cell, files_[i]));
      file.write(ws.encoded);
      file.commit_unsynced();
      ++made.files;
      made.bytes += static_cast<std::int64_t>(ws.encoded.size());
    }
  };
  for_each_in_order<CorruptWorkspace, Made>(
      0, report.images, options_.jobs, make, [&](std::int64_t i, const Made& made) {
        if (!made.failure.empty()) {
          report.unreadable.push_back({i, dataset_.sample_name(i), made.failure});
          if (on_unreadable) on_unreadable(report.unreadable.back());
        }
        report.made += made.files;
        report.bytes += made.bytes;
        done += made.files;
        report.stopped = keep_going && !keep_going(done) && i + 1 < report.images;
        return !report.stopped;
      });
  return report;
}

}  // namespace dtn
