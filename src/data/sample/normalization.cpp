#include "data/sample/normalization.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "dtn/core/check.h"

namespace dtn {
namespace {

// in [n pixels, kChannels] -> one row of every plane. kStep is -1 if the row is mirrored. The
// planes are not in the cache and are always written forwards, which is much faster than backwards.
template <int kChannels, int kStep>
void normalize_row(const std::uint8_t* in, int n, const float* table, std::int64_t plane,
                   float* out) {
  if (kStep < 0) in += std::ptrdiff_t{n - 1} * kChannels;
  for (int x = 0; x < n; ++x, in += std::ptrdiff_t{kStep} * kChannels, ++out)
    for (int c = 0; c < kChannels; ++c) out[c * plane] = table[c * 256 + in[c]];
}

std::vector<float> per_channel(const std::vector<double>& values, int channels, const char* key) {
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(channels))
    throw ConfigError(cat("data.", key, " has ", values.size(), " values for images of ", channels,
                          " channels; give one, or one per channel"));
  std::vector<float> result(static_cast<std::size_t>(channels));
  for (std::size_t c = 0; c < result.size(); ++c)
    result[c] = static_cast<float>(values[values.size() == 1 ? 0 : c]);
  return result;
}

}  // namespace

DataConfig with_statistics(DataConfig data, int channels, const DatasetRegistry& datasets) {
  const DatasetEntry* row = datasets.find(data.dataset);
  const PixelStatistics usual = !row                 ? kImageNetStatistics
                                : row->statistics_of ? row->statistics_of(data)
                                                     : row->statistics;
  const auto fill = [&](std::vector<double>& values, const std::array<double, 3>& color,
                        double gray) {
    if (!values.empty()) return;
    values =
        channels == 1 ? std::vector<double>{gray} : std::vector<double>(color.begin(), color.end());
  };
  fill(data.mean, usual.mean, usual.gray_mean);
  fill(data.std, usual.std, usual.gray_std);
  return data;
}

Normalization resolve_normalization(const DataConfig& config, int channels,
                                    const DatasetRegistry& datasets) {
  DTN_CHECK(channels == 1 || channels == 3, "images have 1 or 3 channels, not ", channels);
  const DataConfig data = with_statistics(config, channels, datasets);
  Normalization n{per_channel(data.mean, channels, "mean"), per_channel(data.std, channels, "std")};
  for (std::size_t c = 0; c < n.std.size(); ++c)
    if (!(n.std[c] > 0) || !std::isfinite(n.std[c]) || !std::isfinite(n.mean[c]))
      throw ConfigError(cat("data.mean and data.std must be finite and std positive; channel ", c,
                            " has ", n.mean[c], " and ", n.std[c]));
  return n;
}

DataConfig symmetric_pixels(DataConfig data) {
  data.mean = data.std = {0.5};
  return data;
}

std::vector<float> normalization_table(const Normalization& n) {
  std::vector<float> table(n.mean.size() * 256);
  for (std::size_t c = 0; c < n.mean.size(); ++c)
    for (std::size_t v = 0; v < 256; ++v)
      table[c * 256 + v] = (static_cast<float>(v) / 255.0f - n.mean[c]) / n.std[c];
  return table;
}

void normalize_image(const Image& image, std::span<const float> table, bool flip, float* out) {
  const std::int64_t plane = static_cast<std::int64_t>(image.width) * image.height;
  const auto row = image.channels == 3 ? (flip ? normalize_row<3, -1> : normalize_row<3, 1>)
                                       : (flip ? normalize_row<1, -1> : normalize_row<1, 1>);
  for (int y = 0; y < image.height; ++y) {
    const std::int64_t at = static_cast<std::int64_t>(y) * image.width;
    row(image.pixels.data() + at * image.channels, image.width, table.data(), plane, out + at);
  }
}

}  // namespace dtn
