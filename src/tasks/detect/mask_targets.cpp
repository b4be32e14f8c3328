#include "tasks/detect/mask_targets.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "kernels/detect/roi_align_taps.h"

namespace dtn {
namespace {

constexpr double kLeastTargetSum = 0.5 - 1e-9;

// One axis from the original image to the padded one, in pixels.
struct AxisMap {
  std::int64_t original, resized, padded;
  bool mirrored;

  // Returns the original pixel of pixel i of the resized image.
  std::int64_t source(std::int64_t i) const {
    return (mirrored ? resized - 1 - i : i) * original / resized;
  }
};

// Weights of the original pixels in each bin: pixels [first, first + count), the weights from
// `offset` on.
struct Bin {
  std::int64_t first = 0, count = 0;
  std::size_t offset = 0;

  std::int64_t end() const { return first + count; }
};
struct BinWeights {
  std::vector<Bin> bins;
  std::vector<double> weights;
};

// Returns the weights of RoIAlign along one axis. Padding adds nothing, so it gets no weight.
BinWeights bin_weights(float begin, float end, std::int64_t bins, const AxisMap& map) {
  const RoiAxis axis = roi_axis(begin, end, 1, bins, map.padded);
  BinWeights all;
  all.bins.resize(static_cast<std::size_t>(bins));
  std::vector<double> taps(static_cast<std::size_t>(map.padded));
  for (std::int64_t p = 0; p < bins; ++p) {
    Bin& bin = all.bins[static_cast<std::size_t>(p)];
    bin.offset = all.weights.size();
    const RoiRange range = roi_range(axis, static_cast<int>(p));
    const std::int64_t count = std::min<std::int64_t>(range.count, map.resized - range.first);
    if (count <= 0) continue;
    roi_weights(axis, static_cast<int>(p), range, taps.data());
    const std::int64_t first = map.source(range.first);
    const std::int64_t last = map.source(range.first + count - 1);
    const std::int64_t low = std::min(first, last), high = std::max(first, last);
    bin.first = low;
    bin.count = high - low + 1;
    all.weights.resize(bin.offset + static_cast<std::size_t>(bin.count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = map.source(range.first + i) - low;
      all.weights[bin.offset + static_cast<std::size_t>(at)] += taps[static_cast<std::size_t>(i)];
    }
  }
  return all;
}

// Replaces the weights of each bin by their sums: count + 1 values, the first is 0.
BinWeights summed(const BinWeights& of) {
  BinWeights sums{of.bins, {}};
  for (Bin& bin : sums.bins) {
    const double* weights = of.weights.data() + bin.offset;
    bin.offset = sums.weights.size();
    double sum = 0;
    sums.weights.push_back(sum);
    for (std::int64_t i = 0; i < bin.count; ++i) sums.weights.push_back(sum += weights[i]);
  }
  return sums;
}

// Original pixels that any bin reads.
struct Extent {
  std::int64_t begin = 0, end = 0;
};
Extent extent_of(const BinWeights& all) {
  Extent extent;
  for (const Bin& bin : all.bins) {
    if (bin.count == 0) continue;
    if (extent.begin == extent.end) extent = {bin.first, bin.end()};
    extent = {std::min(extent.begin, bin.first), std::max(extent.end, bin.end())};
  }
  return extent;
}

}  // namespace

TruthMask::TruthMask(const Rle& mask, const MaskFrame& frame) : frame_(frame) {
  const ResizedImage& image = frame.image;
  DTN_CHECK(mask.height == image.original_height && mask.width == image.original_width,
            "a mask of ", mask.height, " x ", mask.width, " pixels for an image of ",
            image.original_height, " x ", image.original_width);
  DTN_CHECK(0 < image.height && image.height <= frame.padded_height && 0 < image.width &&
                image.width <= frame.padded_width,
            "an image of ", image.height, " x ", image.width, " pixels padded to ",
            frame.padded_height, " x ", frame.padded_width);
  std::int64_t next = 0;  // first column without a start
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < mask.runs.size(); ++i) {
    const std::int64_t end = begin + mask.runs[i];
    for (; i % 2 == 1 && begin < end;) {
      const std::int64_t x = begin / mask.height, top = x * mask.height;
      for (; next <= x; ++next) starts_.push_back(runs_.size());
      const std::int64_t stop = std::min(end, top + mask.height);
      runs_.push_back({begin - top, stop - top});
      begin = stop;
    }
    begin = end;
  }
  for (; next <= mask.width; ++next) starts_.push_back(runs_.size());
}

void TruthMask::write_target(const Box& region, std::span<std::uint8_t> target,
                             std::int64_t size) const {
  DTN_CHECK(size > 0 && static_cast<std::int64_t>(target.size()) == size * size, "a target of ",
            size, " x ", size, " cells in ", target.size(), " values");
  const ResizedImage& image = frame_.image;
  const Box box = clip_box(region, static_cast<float>(frame_.padded_width),
                           static_cast<float>(frame_.padded_height));
  const BinWeights columns =
      bin_weights(box.x1, box.x2, size,
                  {image.original_width, image.width, frame_.padded_width, frame_.mirrored});
  const BinWeights rows = summed(bin_weights(
      box.y1, box.y2, size, {image.original_height, image.height, frame_.padded_height, false}));
  const Extent extent = extent_of(columns);
  const auto bins = static_cast<std::size_t>(size);
  // sums[x][p] is the sum of the weights of bin p over the rows of column x that are set.
  std::vector<double> sums(static_cast<std::size_t>(extent.end - extent.begin) * bins);
  for (std::int64_t x = extent.begin; x < extent.end; ++x) {
    double* sum = sums.data() + static_cast<std::size_t>(x - extent.begin) * bins;
    for (const Run& run : column(x)) {
      for (std::size_t p = 0; p < bins; ++p) {
        const Bin& bin = rows.bins[p];
        const double* upto = rows.weights.data() + bin.offset;
        sum[p] += upto[std::clamp<std::int64_t>(run.end - bin.first, 0, bin.count)] -
                  upto[std::clamp<std::int64_t>(run.begin - bin.first, 0, bin.count)];
      }
    }
  }
  std::vector<double> value(bins);
  for (std::size_t q = 0; q < bins; ++q) {
    std::ranges::fill(value, 0.0);
    const Bin& bin = columns.bins[q];
    for (std::int64_t x = bin.first; x < bin.end(); ++x) {
      const double weight = columns.weights[bin.offset + static_cast<std::size_t>(x - bin.first)];
      const double* sum = sums.data() + static_cast<std::size_t>(x - extent.begin) * bins;
      for (std::size_t p = 0; p < bins; ++p) value[p] += weight * sum[p];
    }
    for (std::size_t p = 0; p < bins; ++p) target[p * bins + q] = value[p] >= kLeastTargetSum;
  }
}

}  // namespace dtn
