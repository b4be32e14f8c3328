// Views of Dynamic Token Normalization for the analysis of a model: the mean that it subtracts, and
// the position weights of its heads. Computes both directly from the formulas, in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dtn/core/parallel.h"
#include "nn/norms/dtn.h"
#include "nn/norms/view_means.h"

namespace dtn {
namespace {

// Returns P of one head over n positions of a row or column:
//    softmax over j of a_d d^2 + a_1 d, d = j - i
std::vector<double> line_factor(std::int64_t n, double a_1, double a_d) {
  std::vector<double> p(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = p.data() + i * n;
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto d = static_cast<double>(j - i);
      row[j] = a_d * d * d + a_1 * d;
      top = std::max(top, row[j]);
    }
    for (std::int64_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - top);
    for (std::int64_t j = 0; j < n; ++j) row[j] /= sum;
  }
  return p;
}

// out [n, width] = p [n, n] in [n, width]. The rows of in and out are `stride` apart.
void multiply(const double* p, std::int64_t n, const double* in, double* out, std::int64_t stride,
              std::int64_t width) {
  for (std::int64_t i = 0; i < n; ++i) {
    double* to = out + i * stride;
    std::fill_n(to, width, 0.0);
    for (std::int64_t j = 0; j < n; ++j) {
      const double weight = p[i * n + j];
      const double* from = in + j * stride;
      for (std::int64_t c = 0; c < width; ++c) to[c] += weight * from[c];
    }
  }
}

// Divides each (token, head) by the root mean square of its channels.
Tensor over_head_rms(const Tensor& x, std::int64_t heads, double eps) {
  const std::int64_t width = x.dim(2) / heads;
  Tensor y = Tensor::empty_like(x);
  parallel_ranges(x.numel() / width, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const double* in = x.data<double>() + row * width;
      double* out = y.data<double>() + row * width;
      double power = 0;
      for (std::int64_t c = 0; c < width; ++c) power += in[c] * in[c];
      const double rms = std::sqrt(power / static_cast<double>(width) + eps);
      for (std::int64_t c = 0; c < width; ++c) out[c] = in[c] / rms;
    }
  });
  return y;
}

}  // namespace

// P of every head, as two factors or as a dense matrix.
struct DynamicTokenNorm::Positions {
  TokenGrid cells;
  std::vector<std::vector<double>> of_rows, of_columns;  // [H] of [w w] and [h h]
  Tensor dense;                                          // [H, T', T'] if P has no factors

  // out [T', D] = P in [T', D], with rows `stride` apart.
  void apply(std::int64_t head, const double* in, double* out, std::int64_t stride,
             std::int64_t width) const {
    const std::int64_t n = cells.tokens(), h = cells.height, w = cells.width;
    if (dense.defined()) {
      return multiply(dense.data<double>() + head * n * n, n, in, out, stride, width);
    }
    const double* px = of_rows[static_cast<std::size_t>(head)].data();
    const double* py = of_columns[static_cast<std::size_t>(head)].data();
    std::vector<double> along(static_cast<std::size_t>(n * stride));
    for (std::int64_t y = 0; y < h; ++y) {
      multiply(px, w, in + y * w * stride, along.data() + y * w * stride, stride, width);
    }
    for (std::int64_t x = 0; x < w; ++x) {
      multiply(py, h, along.data() + x * stride, out + x * stride, w * stride, width);
    }
  }

  double weight(std::int64_t head, std::int64_t i, std::int64_t j) const {
    const std::int64_t n = cells.tokens(), h = cells.height, w = cells.width;
    if (dense.defined()) return dense.data<double>()[(head * n + i) * n + j];
    const auto at = static_cast<std::size_t>(head);
    return of_columns[at][static_cast<std::size_t>(i / w * h + j / w)] *
           of_rows[at][static_cast<std::size_t>(i % w * w + j % w)];
  }
};

DynamicTokenNorm::Positions DynamicTokenNorm::positions(const TokenGrid& grid) const {
  Positions p{options_.cells({grid.height, grid.width}), {}, {}, {}};
  if (!options_.separable()) {
    Context plain;
    p.dense = in_float64(reference_positions(plain, grid, DType::kFloat64, kCpu).value());
    return p;
  }
  // Uniform positions are relative positions with weights of zero. The offsets of the official
  // variant point from the key to the query.
  const double sign = options_.variant == DtnVariant::kOfficial ? -1 : 1;
  const Tensor a = position_ ? in_float64(position_->variable.value())
                             : Tensor::zeros({shape_.heads, 3}, DType::kFloat64);
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    const double* of_head = a.data<double>() + 3 * h;
    p.of_rows.push_back(line_factor(p.cells.width, sign * of_head[0], of_head[2]));
    p.of_columns.push_back(line_factor(p.cells.height, sign * of_head[1], of_head[2]));
  }
  return p;
}

NormView DynamicTokenNorm::view(const Tensor& input, const TokenGrid& arrangement) const {
  const TokenGrid grid = seen(arrangement);
  const Tensor x = options_.variant == DtnVariant::kOfficial
                       ? over_head_rms(input, shape_.heads, shape_.eps)
                       : input;
  Tensor mean = means_of_tokens(x);
  if (grid.height * grid.width == 0) return {x, mean};
  const Positions p = positions(grid);
  const Variable* logit = lambda_mean_.logit();
  const Tensor lambda = in_float64(
      lambda_mean_.value(logit ? accumulator_of(logit->dtype()) : DType::kFloat32, kCpu));
  const std::int64_t channels = x.dim(2), width = channels / shape_.heads, pool = options_.pool;
  const std::int64_t cells = p.cells.tokens(), w = grid.width;
  const auto cell_of = [&](std::int64_t t) { return t / w / pool * p.cells.width + t % w / pool; };
  parallel_for(x.dim(0), [&](std::int64_t image) {
    const std::int64_t first = (image * x.dim(1) + grid.prefix) * channels;
    const double* in = x.data<double>() + first;
    double* out = mean.data<double>() + first;
    std::vector<double> pooled(static_cast<std::size_t>(cells * channels)), across(pooled.size());
    for (std::int64_t t = 0; t < grid.height * w; ++t) {
      double* cell = pooled.data() + cell_of(t) * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        cell[c] += in[t * channels + c] / static_cast<double>(pool * pool);
      }
    }
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      const std::int64_t c0 = head * width;
      p.apply(head, pooled.data() + c0, across.data() + c0, channels, width);
      const double share = lambda.data<double>()[head];
      for (std::int64_t t = 0; t < grid.height * w; ++t) {
        for (std::int64_t c = c0; c < c0 + width; ++c) {
          double& mu = out[t * channels + c];
          mu = share * mu +
               (1 - share) * across[static_cast<std::size_t>(cell_of(t) * channels + c)];
        }
      }
    }
  });
  return {x, mean};
}

Tensor DynamicTokenNorm::position_rows(const TokenGrid& arrangement, std::int64_t token) const {
  const TokenGrid grid = seen(arrangement);
  if (grid.prefix != arrangement.prefix) return {};  // a sequence with the prefix, not a grid
  const std::int64_t w = grid.width, tokens = grid.height * w, pool = options_.pool;
  const Positions p = positions(grid);
  const auto cell_of = [&](std::int64_t t) { return t / w / pool * p.cells.width + t % w / pool; };
  Tensor rows = Tensor::empty({shape_.heads, tokens}, DType::kFloat64);
  for (std::int64_t head = 0; head < shape_.heads; ++head) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      rows.data<double>()[head * tokens + t] =
          p.weight(head, cell_of(token), cell_of(t)) / static_cast<double>(pool * pool);
    }
  }
  return rows;
}

}  // namespace dtn
