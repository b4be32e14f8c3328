// L2 normalization against its formulas in float64, with rows of zeros and rows shorter than 1e-12.
#include <algorithm>

#include "dtn/ops/norm.h"
#include "op_runs.h"

namespace dtn {
namespace {

using test::Doubles;
using test::doubles;

constexpr double kMinimum = 1e-12;
const std::vector<double> kLengths = {1, 0, 1e-13, 1e-11, 3e4, 1e-3};

// A row of each length, rounded to `dtype`.
Tensor rows_of_lengths(std::int64_t channels, DType dtype) {
  Tensor x = test::random_tensor({static_cast<std::int64_t>(kLengths.size()), channels}, 1);
  for (std::size_t r = 0; r < kLengths.size(); ++r) {
    double* row = x.data<double>() + static_cast<std::int64_t>(r) * channels;
    double squares = 0;
    for (std::int64_t c = 0; c < channels; ++c) squares += row[c] * row[c];
    for (std::int64_t c = 0; c < channels; ++c) row[c] *= kLengths[r] / std::sqrt(squares);
  }
  return test::as(x, dtype);
}

struct Expected {
  Doubles y, dx;
};

// y = x / max(|x|, 1e-12) and the gradient of it, row by row.
Expected expected(const Doubles& x, const Doubles& dy, std::size_t channels) {
  Expected e{Doubles(x.size()), Doubles(x.size())};
  for (std::size_t first = 0; first < x.size(); first += channels) {
    double squares = 0, dot = 0;
    for (std::size_t i = first; i < first + channels; ++i) squares += x[i] * x[i];
    const double length = std::max(std::sqrt(squares), kMinimum);
    for (std::size_t i = first; i < first + channels; ++i) dot += dy[i] * x[i] / length;
    const bool is_short = std::sqrt(squares) <= kMinimum;
    for (std::size_t i = first; i < first + channels; ++i) {
      e.y[i] = x[i] / length;
      e.dx[i] = (is_short ? dy[i] : dy[i] - e.y[i] * dot) / length;
    }
  }
  return e;
}

void expect_row(const Doubles& got, const Doubles& want, std::size_t row, double tolerance) {
  const std::size_t channels = want.size() / kLengths.size();
  const auto part = [&](const Doubles& of) {
    const auto begin = of.begin() + static_cast<std::ptrdiff_t>(row * channels);
    return Doubles(begin, begin + static_cast<std::ptrdiff_t>(channels));
  };
  EXPECT_LE(test::max_abs_difference(part(got), part(want)), tolerance * test::max_abs(part(want)))
      << "a row of length " << kLengths[row];
}

TEST(L2Normalize, MatchesFormulasInEveryRow) {
  for (std::int64_t channels : {2, 37, 256}) {
    for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
      for (auto op : {ops::l2_normalize, ops::reference::l2_normalize}) {
        SCOPED_TRACE(cat(channels, " channels, ", name_of(dtype)));
        const Tensor x = rows_of_lengths(channels, dtype);
        const Tensor dy = test::as(test::random_tensor(x.shape(), 2), dtype);
        const Variable leaf(x.clone(), true);
        Tape tape;
        Context ctx;
        ctx.tape = &tape;
        const Variable y = op(ctx, leaf);
        tape.backward(y, dy);
        const Expected want = expected(doubles(x), doubles(dy), static_cast<std::size_t>(channels));
        const double tolerance = dtype == DType::kBFloat16 ? 1.01 * test::unit_roundoff(dtype)
                                                           : 16 * test::unit_roundoff(dtype);
        for (std::size_t row = 0; row < kLengths.size(); ++row) {
          expect_row(doubles(y.value()), want.y, row, tolerance);
          expect_row(doubles(leaf.grad()), want.dx, row, tolerance);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn
