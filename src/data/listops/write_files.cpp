#include "data/listops/write_files.h"

#include <array>
#include <string>
#include <string_view>
#include <system_error>

#include "data/listops/listops_file.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "io/posix.h"

namespace dtn::listops {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxTrees = 1'000'000'000;

DrawOptions drawing_of(const WriteOptions& options) {
  DrawOptions drawing = options;
  drawing.trees = options.all_trees();
  return drawing;
}

void check(const WriteOptions& options) {
  const auto check_trees = [](const char* option, std::int64_t trees) {
    if (1 <= trees && trees <= kMaxTrees) return;
    throw ConfigError(cat(option, " is ", trees, ", but must be from 1 to ", kMaxTrees));
  };
  check_trees("--train", options.train);
  check_trees("--val", options.val);
  check_trees("--test", options.test);
  check_drawing(drawing_of(options));
  std::error_code ignored;
  if (fs::exists(options.output, ignored) && !fs::is_directory(options.output, ignored)) {
    throw ConfigError(cat("--output ", options.output.string(), " is not a folder"));
  }
}

// The output folder. The destructor removes it if this object made it and it is empty.
class OutputFolder {
 public:
  explicit OutputFolder(const fs::path& path) : path_(path) {
    std::error_code error;
    made_ = fs::create_directories(path, error);
    if (error) throw_errno("create the folder", path, error.value());
  }
  ~OutputFolder() {
    std::error_code ignored;
    if (made_) fs::remove(path_, ignored);  // fails if it is not empty
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  fs::path path_;
  bool made_;
};

// Removes temporaries of a killed process. Throws ConfigError if the folder holds anything else.
void clear_folder(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("basic_") && name.find(".tsv.tmp-") != std::string::npos) continue;
    throw ConfigError(
        cat(folder.string(), " already holds files (", name,
            ") and was not changed; choose another --output, or remove the files first"));
  }
  remove_stale_temporaries(folder);
}

// A file that is being written.
class SplitFile {
 public:
  SplitFile(const fs::path& path, std::int64_t trees) : file_(path), left_(trees) {
    buffer_ = cat(kHeader, "\n");
  }

  bool is_full() const { return left_ == 0; }
  void add(std::string_view line) {
    constexpr std::size_t kMaxHeld = 1 << 20;
    buffer_ += line;
    --left_;
    if (buffer_.size() >= kMaxHeld) flush();
  }
  // Writes everything except the final name.
  void finish() {
    flush();
    file_.sync();
  }
  void commit() { file_.commit(); }

 private:
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  std::int64_t left_;
  std::string buffer_;
};

}  // namespace

WriteReport write_files(const WriteOptions& options,
                        const std::function<bool(std::int64_t, std::int64_t)>& keep_going) {
  check(options);
  const OutputFolder output(options.output);
  const DirectoryLock lock = lock_for_writing(options.output);
  clear_folder(options.output);
  std::array<SplitFile, 3> files{SplitFile(options.output / kTrainFile, options.train),
                                 SplitFile(options.output / kValFile, options.val),
                                 SplitFile(options.output / kTestFile, options.test)};
  WriteReport report;
  report.bytes = 3 * static_cast<std::int64_t>(kHeader.size() + 1);
  SplitFile* file = files.data();
  static_cast<DrawReport&>(report) = draw_trees(
      drawing_of(options),
      [&](const DrawnTree& tree) {
        while (file->is_full()) ++file;
        file->add(tree.line);
        report.bytes += static_cast<std::int64_t>(tree.line.size());
      },
      [&](std::int64_t trees) { return !keep_going || keep_going(trees, report.bytes); });
  if (report.stopped) return report;
  for (SplitFile& each : files) each.finish();
  for (SplitFile& each : files) each.commit();
  return report;
}

}  // namespace dtn::listops
