#include "data/listops/write_files.h"

#include <array>
#include <string>
#include <string_view>

#include "data/listops/listops_file.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "io/output_folder.h"

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
  check_output_folder(options.output);
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
  const OutputFolder output(options.output, {kTrainFile, kValFile, kTestFile});
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
