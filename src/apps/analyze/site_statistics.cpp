#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "apps/analyze/statistics.h"
#include "dtn/core/parallel.h"
#include "nn/norms/view_means.h"

namespace dtn {
namespace {

// Returns the Euclidean norms of consecutive parts of `width` numbers.
std::vector<double> norms_of_parts(const Tensor& x, std::int64_t width) {
  std::vector<double> norms(static_cast<std::size_t>(x.numel() / width));
  parallel_ranges(x.numel() / width, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double* part = x.data<double>() + i * width;
      double sum = 0;
      for (std::int64_t c = 0; c < width; ++c) sum += part[c] * part[c];
      norms[static_cast<std::size_t>(i)] = std::sqrt(sum);
    }
  });
  return norms;
}

// Adds the mean and standard deviation over the tokens of each image; values [B, T, parts].
void add_over_tokens(const std::vector<double>& values, std::int64_t batch, std::size_t parts,
                     RunningMean* mean, RunningMean* std) {
  const std::size_t tokens = values.size() / static_cast<std::size_t>(batch) / parts;
  for (std::size_t image = 0; image < static_cast<std::size_t>(batch); ++image) {
    for (std::size_t part = 0; part < parts; ++part) {
      RunningMean of_image;
      for (std::size_t t = 0; t < tokens; ++t) {
        of_image.add(values[(image * tokens + t) * parts + part]);
      }
      mean[part].add(of_image.mean());
      std[part].add(of_image.std());
    }
  }
}

double ratio(double x, double mean) {
  const double rest = std::abs(x - mean);
  return x == 0 && rest == 0 ? 1 : rest / std::abs(x);
}

}  // namespace

Tensor patches_of(const Tensor& x, const TokenGrid& grid) {
  Tensor all = in_float64(x);
  if (grid.prefix == 0) return all;
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), width = x.dim(2);
  const std::int64_t kept = tokens - grid.prefix;
  Tensor patches = Tensor::empty({batch, kept, width}, DType::kFloat64);
  for (std::int64_t b = 0; b < batch; ++b) {
    std::copy_n(all.data<double>() + (b * tokens + grid.prefix) * width, kept * width,
                patches.data<double>() + b * kept * width);
  }
  return patches;
}

void SiteStatistics::add(const Normalizer& norm, const Tensor& x, const Tensor& y,
                         const TokenGrid& grid) {
  norm_ = &norm;
  grid_ = grid;
  const Tensor before = patches_of(x, grid), after = patches_of(y, grid);
  add_magnitudes(after);
  add_variation(norm, x, grid);
  add_directions(before, 0);
  add_directions(after, 1);
  const std::int64_t rows = before.dim(0) * before.dim(1);
  raw[0].add(before.reshape({rows, before.dim(2)}));
  raw[1].add(after.reshape({rows, after.dim(2)}));
}

void SiteStatistics::add_magnitudes(const Tensor& y) {
  const auto heads = static_cast<std::size_t>(heads_);
  magnitude_mean.resize(heads + 1);
  magnitude_std.resize(heads + 1);
  const std::vector<double> of_heads = norms_of_parts(y, y.dim(2) / heads_);
  add_over_tokens(of_heads, y.dim(0), heads, magnitude_mean.data(), magnitude_std.data());
  add_over_tokens(norms_of_parts(y, y.dim(2)), y.dim(0), 1, &magnitude_mean[heads],
                  &magnitude_std[heads]);
  if (!magnitude_map.empty()) return;
  const auto tokens = static_cast<std::size_t>(y.dim(1));
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t t = 0; t < tokens; ++t) magnitude_map.push_back(of_heads[t * heads + h]);
  }
}

// Adds norm(x - mu) / norm(x) over the tokens of an image and the channels of a head, and the first
// pass of the median of |x - mu| / |x| over single numbers.
void SiteStatistics::add_variation(const Normalizer& norm, const Tensor& x, const TokenGrid& grid) {
  const NormView view = norm.view(in_float64(x), grid);
  if (!view.mean.defined()) return;
  variation.resize(static_cast<std::size_t>(heads_));
  median.resize(static_cast<std::size_t>(heads_));
  const Tensor values = patches_of(view.x, grid), means = patches_of(view.mean, grid);
  const std::int64_t batch = values.dim(0), tokens = values.dim(1), channels = values.dim(2);
  const std::int64_t width = channels / heads_;
  parallel_for(heads_, [&](std::int64_t h) {
    const auto head = static_cast<std::size_t>(h);
    for (std::int64_t b = 0; b < batch; ++b) {
      double whole = 0, rest = 0;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t first = (b * tokens + t) * channels + h * width;
        for (std::int64_t i = first; i < first + width; ++i) {
          const double value = values.data<double>()[i], mean = means.data<double>()[i];
          whole += value * value;
          rest += (value - mean) * (value - mean);
          median[head].add(ratio(value, mean));
        }
      }
      variation[head].add(std::sqrt(rest / whole));
    }
  });
}

void SiteStatistics::begin_second_pass() {
  for (MedianInTwoPasses& m : median) m.begin_second_pass();
}

void SiteStatistics::add_again(const Normalizer& norm, const Tensor& x, const TokenGrid& grid) {
  if (median.empty()) return;
  const NormView view = norm.view(in_float64(x), grid);
  const Tensor values = patches_of(view.x, grid), means = patches_of(view.mean, grid);
  const std::int64_t rows = values.dim(0) * values.dim(1), channels = values.dim(2);
  const std::int64_t width = channels / heads_;
  parallel_for(heads_, [&](std::int64_t h) {
    MedianInTwoPasses& of_head = median[static_cast<std::size_t>(h)];
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = row * channels + h * width;
      for (std::int64_t i = first; i < first + width; ++i) {
        of_head.add(ratio(values.data<double>()[i], means.data<double>()[i]));
      }
    }
  });
}

void SiteStatistics::add_directions(const Tensor& tokens, int after) {
  const std::int64_t batch = tokens.dim(0), count = tokens.dim(1), channels = tokens.dim(2);
  const std::vector<double> norms = norms_of_parts(tokens, channels);
  Tensor units = Tensor::empty({batch * count, channels}, DType::kFloat64);
  std::vector<double> lengths(static_cast<std::size_t>(batch));  // squared, of each sum of units
  parallel_for(batch, [&](std::int64_t b) {
    std::vector<double> sum(static_cast<std::size_t>(channels));
    for (std::int64_t t = b * count; t < (b + 1) * count; ++t) {
      const double* token = tokens.data<double>() + t * channels;
      double* unit = units.data<double>() + t * channels;
      const double norm = norms[static_cast<std::size_t>(t)];
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += unit[c] = token[c] / norm;
    }
    for (const double s : sum) lengths[static_cast<std::size_t>(b)] += s * s;
  });
  directions[after].add(units);
  const auto all = static_cast<double>(count);
  for (const double length : lengths) cosine[after].add((length - all) / (all * (all - 1)));
  if (!keeps_points_) return;
  const std::int64_t have = static_cast<std::int64_t>(points[after].size()) / channels;
  const std::int64_t more = std::min(kPoints - have, batch * count);
  points[after].insert(points[after].end(), units.data<double>(),
                       units.data<double>() + more * channels);
  point_count = have + more;
}

MedianInTwoPasses::MedianInTwoPasses() : upper_(std::size_t{1} << 15) {}  // no sign bit

void MedianInTwoPasses::add(double value) {
  if (std::isnan(value)) {
    nan_ = true;
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(std::abs(static_cast<float>(value)));
  if (!second_) {
    ++upper_[bits >> 16];
    ++count_;
    return;
  }
  for (Middle& m : middles_) {
    if (m.upper == bits >> 16) ++m.lower[bits & 0xffff];
  }
}

MedianInTwoPasses::Middle MedianInTwoPasses::find(std::uint64_t rank) const {
  std::uint32_t bits = 0;
  while (rank >= upper_[bits]) rank -= upper_[bits++];
  return {bits, rank, std::vector<std::uint64_t>(std::size_t{1} << 16)};
}

void MedianInTwoPasses::begin_second_pass() {
  second_ = true;
  if (count_ > 0) {
    middles_.push_back(find((count_ - 1) / 2));
    if (count_ % 2 == 0) {
      Middle other = find(count_ / 2);
      const bool together = other.upper == middles_.front().upper;
      if (!together) middles_.push_back(std::move(other));
    }
  }
  upper_ = {};
}

float MedianInTwoPasses::Middle::value() const {
  std::uint64_t before = rank;
  std::uint32_t bits = 0;
  while (before >= lower[bits]) before -= lower[bits++];
  return std::bit_cast<float>(upper << 16 | bits);
}

double MedianInTwoPasses::median() const {
  if (nan_ || count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  Middle last = middles_.back();
  if (middles_.size() == 1 && count_ % 2 == 0) ++last.rank;
  return (static_cast<double>(middles_.front().value()) + static_cast<double>(last.value())) / 2;
}

}  // namespace dtn
