#include "nn/norms/view_means.h"

#include <algorithm>

#include "dtn/autograd/variable.h"
#include "dtn/core/parallel.h"

namespace dtn {

Tensor in_float64(const Tensor& values) {
  return Variable(values.to(kCpu)).value_as(DType::kFloat64);
}

Tensor means_of_tokens(const Tensor& x) {
  const std::int64_t rows = x.dim(0) * x.dim(1), channels = x.dim(2);
  Tensor means = Tensor::empty_like(x);
  parallel_ranges(rows, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const double* in = x.data<double>() + row * channels;
      double sum = 0;
      for (std::int64_t c = 0; c < channels; ++c) sum += in[c];
      std::fill_n(means.data<double>() + row * channels, channels,
                  sum / static_cast<double>(channels));
    }
  });
  return means;
}

Tensor means_of_groups(const Tensor& x, std::int64_t groups) {
  const std::int64_t tokens = x.dim(1), channels = x.dim(2), width = channels / groups;
  Tensor means = Tensor::empty_like(x);
  parallel_for(x.dim(0), [&](std::int64_t image) {
    const double* in = x.data<double>() + image * tokens * channels;
    double* out = means.data<double>() + image * tokens * channels;
    std::fill_n(out, channels, 0.0);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t c = 0; c < channels; ++c) out[c / width * width] += in[t * channels + c];
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      out[c] = c % width == 0 ? out[c] / static_cast<double>(tokens * width) : out[c - 1];
    }
    for (std::int64_t t = 1; t < tokens; ++t) std::copy_n(out, channels, out + t * channels);
  });
  return means;
}

Tensor means_of_channels(const Tensor& x, const Tensor& mean) {
  const Tensor row = in_float64(mean);
  const std::int64_t channels = x.dim(2);
  Tensor means = Tensor::empty_like(x);
  for (std::int64_t i = 0; i < x.dim(0) * x.dim(1); ++i) {
    std::copy_n(row.data<double>(), channels, means.data<double>() + i * channels);
  }
  return means;
}

}  // namespace dtn
