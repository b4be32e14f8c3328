#include "apps/recipe/folder_summary.h"

#include <algorithm>
#include <vector>

#include "dtn/core/check.h"
#include "dtn/io/image.h"

namespace dtn::app {
namespace {

constexpr std::int64_t kMost = 500;

int median(std::vector<int> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

FolderSummary summarize(const Dataset& dataset) {
  FolderSummary summary{.gray = true};
  std::vector<int> widths, heights, short_sides;
  SampleWorkspace workspace;
  const std::int64_t count = std::min(dataset.size(), kMost);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * dataset.size() / count;
    try {
      const Sample sample = dataset.load(index, workspace);
      const ImageInfo info =
          read_image_info(sample.encoded, dataset.sample_name(index), {.upright = true});
      summary.turned += exif_orientation(sample.encoded) != 1;
      widths.push_back(info.width);
      heights.push_back(info.height);
      short_sides.push_back(std::min(info.width, info.height));
      summary.gray = summary.gray && info.channels == 1;
    } catch (const DataError&) {  // the run reports it, and skips it
    }
  }
  if (widths.empty()) {
    throw DataError(cat(dataset.description(), ": none of ", count,
                        " images that were tried can be read; `dtn-data verify` says why"));
  }
  summary.looked_at = std::ssize(widths);
  summary.width = median(widths);
  summary.height = median(heights);
  summary.short_side = median(short_sides);
  return summary;
}

}  // namespace dtn::app
