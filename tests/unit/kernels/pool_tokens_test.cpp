// Token pooling and the soft split, against loops that follow their definitions.
#include "kernels/conv/pool_tokens.h"

#include "convolution_cases.h"
#include "kernels/conv/soft_split.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(PoolTokensForward)
DTN_RUN_ON_EACH_ISA(PoolTokensBackward)
DTN_RUN_ON_EACH_ISA(SoftSplitForward)
DTN_RUN_ON_EACH_ISA(SoftSplitBackward)

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};
const WindowPooling kKinds[] = {WindowPooling::kMax, WindowPooling::kAverage,
                                WindowPooling::kAveragePadded};

struct Case {
  Window window;
  std::int64_t batch, channels;
};
std::vector<Case> cases() {
  return {
      {window_of(14, 13, 3, 3, 2, 2, 1, 1), 2, 40}, {window_of(6, 4, 2, 2, 2, 2, 0, 0), 1, 3},
      {window_of(7, 9, 3, 2, 1, 3, 2, 0), 3, 17},   {window_of(5, 6, 1, 1, 2, 3, 0, 0), 2, 33},
      {window_of(1, 11, 1, 4, 1, 2, 0, 3), 1, 1},   {window_of(40, 41, 3, 3, 2, 2, 1, 1), 1, 64}};
}

// Values with many duplicates, so that the first of several maxima matters.
Tensor coarse(const Shape& shape, std::uint32_t stream) {
  Tensor t = random_tensor(shape, stream);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.data<double>()[i] = std::round(t.data<double>()[i] * 3) / 4;
  }
  return t;
}

// Calls f(output, input, inside the grid, tap) for the taps of all windows, in order.
template <class F>
void for_each_tap(const Case& s, F&& f) {
  const Window& w = s.window;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t o = 0; o < w.out_h * w.out_w; ++o) {
      for (std::int64_t tap = 0; tap < w.kernel_h * w.kernel_w; ++tap) {
        const std::int64_t i = o / w.out_w * w.stride_h + tap / w.kernel_w - w.pad_h;
        const std::int64_t j = o % w.out_w * w.stride_w + tap % w.kernel_w - w.pad_w;
        const bool inside = i >= 0 && i < w.height && j >= 0 && j < w.width;
        f(b * w.out_h * w.out_w + o, (b * w.height + i) * w.width + j, inside, tap);
      }
    }
  }
}

struct Values {
  Tensor x, dy, split_dy;
  Doubles y, dx, split, split_dx;

  Values(const Case& s, WindowPooling kind) {
    const Window& w = s.window;
    const std::int64_t taps = w.kernel_h * w.kernel_w, outputs = w.out_h * w.out_w;
    x = coarse({s.batch, w.height * w.width, s.channels}, 1);
    dy = coarse({s.batch, outputs, s.channels}, 2);
    split_dy = coarse({s.batch, outputs, s.channels * taps}, 3);
    y.assign(static_cast<std::size_t>(dy.numel()), 0);
    dx.assign(static_cast<std::size_t>(x.numel()), 0);
    split.assign(static_cast<std::size_t>(split_dy.numel()), 0);
    split_dx = dx;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      pool_channel(s, kind, c);
      for_each_tap(s, [&](std::int64_t o, std::int64_t i, bool inside, std::int64_t tap) {
        const auto copy = static_cast<std::size_t>((o * s.channels + c) * taps + tap);
        if (!inside) return;
        split[copy] = element(x, i * s.channels + c);
        split_dx[static_cast<std::size_t>(i * s.channels + c)] +=
            element(split_dy, static_cast<std::int64_t>(copy));
      });
    }
  }

 private:
  void pool_channel(const Case& s, WindowPooling kind, std::int64_t c) {
    const std::int64_t taps = s.window.kernel_h * s.window.kernel_w;
    std::vector<std::int64_t> inputs;  // of the current window
    for_each_tap(s, [&](std::int64_t o, std::int64_t i, bool inside, std::int64_t tap) {
      if (inside) inputs.push_back(i * s.channels + c);
      if (tap + 1 < taps) return;
      const std::int64_t out = o * s.channels + c;
      double& result = y[static_cast<std::size_t>(out)];
      if (kind == WindowPooling::kMax) {
        std::int64_t best = inputs[0];
        for (std::int64_t k : inputs) best = element(x, k) > element(x, best) ? k : best;
        result = element(x, best);
        dx[static_cast<std::size_t>(best)] += element(dy, out);
      } else {
        const auto count = static_cast<double>(
            kind == WindowPooling::kAverage ? static_cast<std::int64_t>(inputs.size()) : taps);
        for (std::int64_t k : inputs) {
          result += element(x, k) / count;
          dx[static_cast<std::size_t>(k)] += element(dy, out) / count;
        }
      }
      inputs.clear();
    });
  }
};

void expect_near(const Tensor& got, const Doubles& want, const char* what) {
  EXPECT_GT(max_abs(want), 0) << what << ": a test of zeros";
  const double bound = unit_roundoff(got.dtype()) + 12 * unit_roundoff(accumulator_of(got.dtype()));
  EXPECT_LE(max_abs_difference(doubles(got), want), bound * max_abs(want)) << what;
}

TEST(PoolTokens, MatchWindowFormula) {
  for (const Case& s : cases()) {
    for (WindowPooling kind : kKinds) {
      const Values v(s, kind);
      for (DType dtype : kTypes) {
        for (Isa isa : isas()) {
          SCOPED_TRACE(cat(s.window.kernel_h, " x ", s.window.kernel_w, ", kind ",
                           static_cast<int>(kind), ", ", name_of(dtype), ", ", name_of(isa)));
          const Tensor x = as(v.x, dtype), dy = as(v.dy, dtype);
          for (int threads : {1, 3}) {
            Threads some(threads);
            Tensor y = poison(v.dy.shape(), dtype), dx = poison(v.x.shape(), dtype);
            run_on(isa,
                   PoolTokensForward{dtype, kind, s.window, s.batch, s.channels, x.raw(), y.raw()});
            run_on(isa, PoolTokensBackward{dtype, kind, s.window, s.batch, s.channels,
                                           kind == WindowPooling::kMax ? x.raw() : nullptr,
                                           dy.raw(), dx.raw()});
            expect_near(y, v.y, "y");
            expect_near(dx, v.dx, "dx");
          }
        }
      }
    }
  }
}

TEST(PoolTokens, PropagateNaN) {
  const Window w = window_of(3, 3, 3, 3, 2, 2, 1, 1);
  for (Isa isa : isas()) {
    const std::vector<float> x = {1, NAN, 2, 3, 4, 5, 6, NAN, 7};
    const std::vector<float> dy = {1, 2, 4, 8};
    std::vector<float> y(4), dx(9);
    run_on(isa,
           PoolTokensForward{DType::kFloat32, WindowPooling::kMax, w, 1, 1, x.data(), y.data()});
    run_on(isa, PoolTokensBackward{DType::kFloat32, WindowPooling::kMax, w, 1, 1, x.data(),
                                   dy.data(), dx.data()});
    for (float v : y) EXPECT_TRUE(std::isnan(v));
    EXPECT_EQ(dx, (std::vector<float>{0, 3, 0, 0, 0, 0, 0, 12, 0})) << "the first NaN has it";
  }
}

TEST(SoftSplit, CopiesWindowsAndSumsGradients) {
  for (const Case& s : cases()) {
    const Values v(s, WindowPooling::kMax);
    for (DType dtype : kTypes) {
      for (Isa isa : isas()) {
        SCOPED_TRACE(cat(s.window.kernel_h, " x ", s.window.kernel_w, ", ", name_of(dtype)));
        const Tensor x = as(v.x, dtype), dy = as(v.split_dy, dtype);
        for (int threads : {1, 3}) {
          Threads some(threads);
          Tensor y = poison(v.split_dy.shape(), dtype), dx = poison(v.x.shape(), dtype);
          run_on(isa, SoftSplitForward{dtype, s.window, s.batch, s.channels, x.raw(), y.raw()});
          run_on(isa, SoftSplitBackward{dtype, s.window, s.batch, s.channels, dy.raw(), dx.raw()});
          EXPECT_EQ(doubles(y), v.split);
          expect_near(dx, v.split_dx, "dx");
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
