#include "data/source/inspect.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/source/parallel_ordered.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

struct InspectWorkspace {
  SampleWorkspace sample;
  Image decoded;
};

// Sums of pixel values of one image or of many, as RGB. 64 bits hold the squares of 2^48 pixels.
struct PixelSums {
  std::uint64_t pixels = 0;
  std::array<std::uint64_t, 3> sum{}, squares{};

  void operator+=(const PixelSums& other) {
    pixels += other.pixels;
    for (std::size_t c = 0; c < 3; ++c) {
      sum[c] += other.sum[c];
      squares[c] += other.squares[c];
    }
  }
};

// Result for one sample.
struct Finding {
  std::optional<std::string> failure;
  int width = 0, height = 0, channels = 0;
  std::int64_t bytes = 0;
  const char* format = "none";
  PixelSums sums;
};

// Counts a histogram first: sums over 256 values are cheaper than over pixels.
PixelSums sum_pixels(const Image& image) {
  const auto channels = static_cast<std::size_t>(image.channels);
  std::array<std::array<std::uint64_t, 256>, 3> counts{};
  for (std::size_t i = 0; i < image.pixels.size(); i += channels) {
    for (std::size_t c = 0; c < channels; ++c) ++counts[c][image.pixels[i + c]];
  }
  PixelSums sums;
  sums.pixels = image.pixels.size() / channels;
  for (std::size_t c = 0; c < 3; ++c) {
    const auto& count = counts[channels == 1 ? 0 : c];
    for (std::uint64_t v = 0; v < 256; ++v) {
      sums.sum[c] += v * count[v];
      sums.squares[c] += v * v * count[v];
    }
  }
  return sums;
}

enum class Wanted { kBytes, kPixels, kSums };

// Loads a sample and decodes all of it, unless only its bytes are wanted.
void examine(const Dataset& dataset, std::int64_t index, Wanted wanted, InspectWorkspace& workspace,
             Finding& finding) {
  finding = {};
  try {
    const Sample sample = dataset.load(index, workspace.sample);
    if (!sample.ready.empty() || !sample.tokens.empty() || wanted == Wanted::kBytes) return;
    const Image* image = sample.image;
    if (!image) {
      finding.bytes = static_cast<std::int64_t>(sample.encoded.size());
      decode_image_into(sample.encoded, workspace.sample.name, workspace.decoded, {},
                        ColorMode::kAsStored);
      finding.format = image_format(sample.encoded);
      image = &workspace.decoded;
    }
    finding.width = image->width;
    finding.height = image->height;
    finding.channels = image->channels;
    if (wanted == Wanted::kSums) finding.sums = sum_pixels(*image);
  } catch (const DataError& e) {
    finding.failure = e.what();
  }
}

template <class Take>
void examine_all(const Dataset& dataset, int jobs, Wanted wanted, const KeepLooking& keep_looking,
                 Take&& take) {
  for_each_in_order<InspectWorkspace, Finding>(
      0, dataset.size(), jobs,
      [&](std::int64_t i, InspectWorkspace& workspace, Finding& finding) {
        examine(dataset, i, wanted, workspace, finding);
      },
      [&](std::int64_t i, const Finding& finding) {
        take(i, finding);
        return !keep_looking || keep_looking(i + 1);
      });
}

// Counts a sample for each of its classes.
void count_classes(const Dataset& dataset, std::int64_t index, DatasetStats& stats) {
  const Tensor* labels = dataset.ready_fields().find("labels");
  if (!labels) {
    ++stats.per_class.at(static_cast<std::size_t>(dataset.label(index)));
    return;
  }
  const std::int64_t classes = labels->dim(1);
  const std::uint8_t* row = labels->data<std::uint8_t>() + index * classes;
  bool any = false;
  for (std::int64_t k = 0; k < classes; ++k) {
    stats.per_class[static_cast<std::size_t>(k)] += row[k];
    any = any || row[k] != 0;
  }
  stats.without_class += !any;
}

Spread spread(std::vector<std::int64_t>& values) {
  if (values.empty()) return {};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  const std::int64_t median = *middle;
  const auto [min, max] = std::ranges::minmax(values);
  return {min, median, max};
}

}  // namespace

std::vector<BadSample> verify_dataset(const Dataset& dataset, VerifyDepth depth, int jobs,
                                      const KeepLooking& keep_looking) {
  std::vector<BadSample> bad;
  const Wanted wanted = depth == VerifyDepth::kDecode ? Wanted::kPixels : Wanted::kBytes;
  examine_all(dataset, jobs, wanted, keep_looking, [&](std::int64_t i, const Finding& finding) {
    if (finding.failure) bad.push_back({i, dataset.sample_name(i), *finding.failure});
  });
  return bad;
}

DatasetStats dataset_stats(const Dataset& dataset, int jobs, const KeepLooking& keep_looking) {
  if (!dataset.has_pixels())
    throw ConfigError("a data set of tensors or sequences has no images to show");
  DatasetStats stats;
  stats.per_class.resize(static_cast<std::size_t>(dataset.num_classes()));
  std::vector<std::int64_t> widths, heights, bytes;
  PixelSums sums;
  examine_all(dataset, jobs, Wanted::kSums, keep_looking,
              [&](std::int64_t i, const Finding& finding) {
                if (finding.failure) {
                  stats.bad.push_back({i, dataset.sample_name(i), *finding.failure});
                  return;
                }
                ++stats.images;
                count_classes(dataset, i, stats);
                ++stats.formats[finding.format];
                stats.gray += finding.channels == 1;
                widths.push_back(finding.width);
                heights.push_back(finding.height);
                bytes.push_back(finding.bytes);
                sums += finding.sums;
              });
  stats.width = spread(widths);
  stats.height = spread(heights);
  stats.bytes = spread(bytes);
  for (std::size_t c = 0; c < 3 && sums.pixels > 0; ++c) {
    const auto n = static_cast<long double>(sums.pixels);
    const long double mean = static_cast<long double>(sums.sum[c]) / n;
    const long double variance = static_cast<long double>(sums.squares[c]) / n - mean * mean;
    stats.mean[c] = static_cast<double>(mean / 255);
    stats.std[c] = static_cast<double>(std::sqrt(std::max(variance, 0.0L)) / 255);
  }
  return stats;
}

}  // namespace dtn
