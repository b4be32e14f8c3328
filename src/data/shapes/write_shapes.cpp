#include "data/shapes/write_shapes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/shapes/coco_text.h"
#include "data/shapes/scene.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "io/atomic_file.h"
#include "io/image/stored_png.h"
#include "io/output_folder.h"

namespace dtn::shapes {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxPictures = 1'000'000;

void check_number(const char* option, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (min <= value && value <= max) return;
  throw ConfigError(cat(option, " is ", value, ", but must be from ", min, " to ", max));
}

void check(const ShapesOptions& options) {
  check_number("--train", options.train, 1, kMaxPictures);
  check_number("--val", options.val, 1, kMaxPictures);
  check_number("--size", options.size, kMinSize, kMaxSize);
  check_output_folder(options.output);
}

void write_file(const fs::path& path, const auto& content, ShapesReport& report) {
  AtomicFile file(path);
  file.write(content);
  file.commit_unsynced();  // the folder is synced as a whole
  report.bytes += static_cast<std::int64_t>(content.size());
}

// A picture of a split that is ready to be written.
struct MadePicture {
  Scene scene;
  std::vector<std::byte> png;
};

// Pictures that are made at a time, so that they need about 64 MiB.
std::int64_t block_size(std::int64_t size) {
  return std::clamp<std::int64_t>((64 << 20) / (3 * size * size), 1, 64);
}

void count(const Scene& scene, ShapesReport& report) {
  ++report.pictures;
  report.shapes += static_cast<std::int64_t>(scene.shapes.size());
  report.crowds += scene.crowd ? 1 : 0;
  report.empty += scene.shapes.empty() && !scene.crowd ? 1 : 0;
}

// Writes the pictures of a split into `folder`. Returns its annotations.
std::string write_split(const ShapesOptions& options, std::uint32_t split, std::int64_t pictures,
                        const fs::path& folder, ShapesReport& report,
                        const std::function<bool(std::int64_t)>& keep_going) {
  CocoText text;
  const std::int64_t block = block_size(options.size);
  std::vector<MadePicture> made(static_cast<std::size_t>(block));
  for (std::int64_t first = 0; first < pictures && !report.stopped; first += block) {
    const std::int64_t n = std::min(block, pictures - first);
    parallel_for(n, [&](std::int64_t i) {
      MadePicture& picture = made[static_cast<std::size_t>(i)];
      picture.scene = plan_scene({static_cast<int>(options.size), options.seed, split,
                                  static_cast<std::uint32_t>(first + i)});
      encode_stored_png(draw_scene(picture.scene), picture.png);
    });
    for (std::int64_t i = 0; i < n; ++i) {
      const MadePicture& picture = made[static_cast<std::size_t>(i)];
      const auto number = static_cast<std::uint32_t>(first + i);
      write_file(folder / text.add(picture.scene, split, number),
                 std::span<const std::byte>(picture.png), report);
      count(picture.scene, report);
    }
    report.stopped = keep_going && !keep_going(report.pictures);
  }
  return text.finish();
}

}  // namespace

ShapesReport write_shapes(const ShapesOptions& options,
                          const std::function<bool(std::int64_t)>& keep_going) {
  check(options);
  const OutputFolder output(options.output, {"train", "val", "annotations"});
  AtomicDirectory train(options.output / "train"), val(options.output / "val");
  AtomicDirectory annotations(options.output / "annotations");
  ShapesReport report;
  const std::string train_text =
      write_split(options, 0, options.train, train.staging(), report, keep_going);
  if (report.stopped) return report;
  const std::string val_text =
      write_split(options, 1, options.val, val.staging(), report, keep_going);
  if (report.stopped) return report;
  write_file(annotations.staging() / "instances_train.json", std::string_view(train_text), report);
  write_file(annotations.staging() / "instances_val.json", std::string_view(val_text), report);
  for (AtomicDirectory* folder : {&train, &val, &annotations}) folder->commit();
  return report;
}

}  // namespace dtn::shapes
