#include <algorithm>
#include <cmath>

#include "cuda/kernels/layer_norm_problem.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::test {
namespace {

// Returns the largest column sum of |dbranch|.
double column_of_dbranch(const LayerNormProblem& exact) {
  const Doubles all = doubles(exact.dbranch.host());
  double largest = 0;
  for (std::int64_t c = 0; c < exact.channels; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < exact.rows; ++r) {
      sum += std::abs(all[static_cast<std::size_t>(exact.shift + r * exact.channels + c)]);
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

// Compares both kernels of the device and of the host with float64, within the same bounds. Sums
// over a row have `channels` terms. dx is a difference of terms of the size rstd dy weight.
void check(LayerNormProblem p) {
  LayerNormProblem exact = p.in_float64();
  run(cpu_queue(), exact.forward(kOnHost));
  run(cpu_queue(), exact.backward(kOnHost));
  run(cpu_queue(), p.forward(kOnHost));
  run(cpu_queue(), p.backward(kOnHost));
  run(cuda_queue(), p.forward(kOnDevice));
  run(cuda_queue(), p.backward(kOnDevice));

  constexpr DType kFloat = DType::kFloat32;
  const double stored = rounding_bound(p.dtype, p.channels);
  const double terms = 2 * max_abs(doubles(exact.rstd.host()));
  expect_near_layer_norm("y", p, p.y, exact.y, stored);
  expect_near_layer_norm("mean", p, p.mean, exact.mean, rounding_bound(kFloat, p.channels), 1);
  expect_near_layer_norm("rstd", p, p.rstd, exact.rstd, rounding_bound(kFloat, p.channels));
  expect_near_layer_norm("dx", p, p.dx, exact.dx, stored, terms);
  expect_near_layer_norm("dbranch", p, p.dbranch, exact.dbranch, stored + unit_roundoff(p.dtype),
                         terms);
  expect_near_layer_norm("dweight", p, p.dweight, exact.dweight,
                         rounding_bound(kFloat, p.rows + p.channels));
  expect_near_layer_norm("dbias", p, p.dbias, exact.dbias, rounding_bound(kFloat, p.rows));
  const double of_sums = stored + unit_roundoff(p.dtype) + rounding_bound(kFloat, p.rows);
  const double column = column_of_dbranch(exact) + terms;
  expect_near_layer_norm("dbranch_sums", p, p.dbranch_sums, exact.dbranch_sums, of_sums, column);
  EXPECT_LE(
      relative_error(doubles(p.dbranch_sums.host()), doubles(exact.dbranch_sums.host()), column),
      of_sums);
  EXPECT_LE(relative_error(doubles(p.y.host()), doubles(exact.y.host())), stored);
  EXPECT_LE(relative_error(doubles(p.dx.host()), doubles(exact.dx.host()), terms), stored);
  EXPECT_LE(relative_error(doubles(p.dbranch.host()), doubles(exact.dbranch.host()), terms),
            stored + unit_roundoff(p.dtype));
}

TEST(CudaLayerNorm, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  // All layouts of a row over a warp (with and without vectors) and over a block; several chunks of
  // rows and incomplete chunks.
  const std::int64_t shapes[][2] = {{197, 192}, {196, 100}, {69, 433}, {33, 432},  {1, 384},
                                    {5, 768},   {3, 1024},  {3, 515},  {70, 1032}, {41, 7}};
  for (DType dtype : kLayerNormTypes) {
    for (auto [rows, channels] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", channels));
      check(LayerNormProblem(dtype, rows, channels));
      check(LayerNormProblem(dtype, rows, channels, 0, 1));
    }
  }
}

TEST(CudaLayerNorm, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kLayerNormTypes) {
    for (std::int64_t channels : {432, 433, 1032}) check(LayerNormProblem(dtype, 9, channels, 1e3));
  }
  check(LayerNormProblem(DType::kFloat32, 9, 432, -1e3));
}

TEST(CudaLayerNorm, ZeroWeightAndConstantRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kLayerNormTypes) {
    for (std::int64_t channels : {1, 50, 192, 515}) {
      LayerNormProblem zero(dtype, 19, channels);
      zero.weight = Twin(as(Tensor::full({channels}, DType::kFloat64, 0), DType::kFloat32));
      check(zero);
      LayerNormProblem constant(dtype, 19, channels);
      constant.x = Twin(Tensor::full({19 * channels}, dtype, 3));
      check(constant);
    }
  }
}

void check(const LayerNormSetProblem& p) {
  const LayerNormSetProblem exact = p.in_float64();
  exact.run_at(kOnHost);
  p.run_at(kOnHost);
  p.run_at(kOnDevice);
  constexpr DType kFloat = DType::kFloat32;
  const double stored = rounding_bound(p.dtype, p.channels);
  const double sums = rounding_bound(kFloat, p.sets.rows + p.channels);
  const double terms = 2 * max_abs(doubles(exact.rstd.host())) + 3;
  const double of_mean = rounding_bound(kFloat, p.channels);
  const struct {
    const char* name;
    Twin LayerNormSetProblem::*twin;
    double bound, floor;
  } outputs[] = {{"y by sets", &LayerNormSetProblem::y, stored, 1e-30},
                 {"dx by sets", &LayerNormSetProblem::dx, stored, terms},
                 {"row mean", &LayerNormSetProblem::row_mean, of_mean, 1},
                 {"row std", &LayerNormSetProblem::row_std, of_mean, 1e-30},
                 {"dweight by sets", &LayerNormSetProblem::dweight, sums, 1},
                 {"dbias by sets", &LayerNormSetProblem::dbias, sums, 1}};
  for (const auto& o : outputs) {
    expect_near_layer_norm(o.name, p, p.*o.twin, exact.*o.twin, o.bound, o.floor);
    EXPECT_LE(relative_error(doubles((p.*o.twin).host()), doubles((exact.*o.twin).host()), o.floor),
              o.bound)
        << o.name << " on the host";
  }
}

TEST(CudaLayerNorm, RowGroupsWithSeparateParameters) {
  DTN_SKIP_WITHOUT_DEVICE();
  // Sets smaller than a group of rows and than a chunk, larger than a chunk, and a single set.
  const std::int64_t shapes[][3] = {{5, 3, 192},  {2, 67, 100}, {3, 37, 433},
                                    {1, 41, 432}, {4, 1, 768},  {2, 5, 1032}};
  for (DType dtype : kLayerNormTypes) {
    for (auto [count, rows, channels] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", count, " x ", rows, " x ", channels));
      check(LayerNormSetProblem(dtype, count, rows, channels, 2 * channels));
      check(LayerNormSetProblem(dtype, count, rows, channels, channels, 0, 1));
      LayerNormSetProblem scales(dtype, count, rows, channels, 2 * channels);
      scales.sets.scales = true;  // of about 1, so gains of about 2
      check(scales);
      check(
          LayerNormSetProblem(dtype, count, rows, channels, 0, dtype == DType::kFloat32 ? 1e3 : 0));
    }
    under_every_schedule([&] {
      const LayerNormSetProblem p(dtype, 3, 37, 96, 192);
      p.run_at(kOnDevice);
      return p.results();
    });
  }
}

TEST(CudaLayerNorm, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kLayerNormTypes) {
    const std::int64_t shapes[][2] = {{37, 96}, {3, 433}, {3, 515}};
    for (auto [rows, channels] : shapes) {
      under_every_schedule([&, rows = rows, channels = channels] {
        LayerNormProblem p(dtype, rows, channels);
        run(cuda_queue(), p.forward(kOnDevice));
        run(cuda_queue(), p.backward(kOnDevice));
        return p.results();
      });
    }
  }
}

TEST(CudaLayerNorm, ResidualHasBitsOfSeparateKernels) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t shapes[][2] = {{37, 192}, {11, 432}, {11, 433}, {3, 768}, {2, 1024}, {6, 515}};
  for (DType dtype : kLayerNormTypes) {
    for (auto [rows, channels] : shapes) {
      for (bool scaled : {true, false}) {
        SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", channels, scaled ? " scaled" : ""));
        LayerNormProblem fused(dtype, rows, channels), parts(dtype, rows, channels);
        auto args = [&](Where w) {
          LayerNormForward a = fused.residual(w);
          if (!scaled) a.row_scale = nullptr;
          return a;
        };
        run(cuda_queue(), args(kOnDevice));
        run(cpu_queue(), args(kOnHost));
        const std::int64_t count = rows * channels;
        if (scaled) {
          ScaleRows scale{};
          scale.dtype = dtype;
          scale.count = count;
          scale.per_scale = kLayerNormRowsPerScale * channels;
          scale.scale = parts.row_scale.at(kOnDevice);
          scale.x = parts.branch.at(kOnDevice);
          scale.residual = parts.x.at(kOnDevice);
          scale.y = parts.sum.at(kOnDevice);
          run(cuda_queue(), scale);
        } else {
          run(cuda_queue(), Add{dtype, count, parts.x.at(kOnDevice), parts.branch.at(kOnDevice),
                                parts.sum.at(kOnDevice)});
        }
        parts.x = parts.sum;
        run(cuda_queue(), parts.forward(kOnDevice));
        EXPECT_TRUE(same_bits(fused.sum.device(), parts.sum.device()));
        EXPECT_TRUE(same_bits(fused.y.device(), parts.y.device()));
        EXPECT_TRUE(same_bits(fused.mean.device(), parts.mean.device()));
        EXPECT_TRUE(same_bits(fused.rstd.device(), parts.rstd.device()));
        // If the host rounds a sum the other way, y changes by the same amount.
        expect_near_layer_norm("residual sum", fused, fused.sum, fused.sum,
                               2 * unit_roundoff(dtype));
        expect_near_layer_norm("residual y", fused, fused.y, fused.y,
                               4 * unit_roundoff(dtype) + rounding_bound(dtype, channels));

        LayerNormForward in_place = args(kOnDevice);
        in_place.sum = fused.at(fused.x, kOnDevice);
        fused.y = Twin::output({count}, dtype);
        in_place.y = fused.y.at(kOnDevice);
        run(cuda_queue(), in_place);
        EXPECT_TRUE(same_bits(fused.x.device(), parts.sum.device()));
        EXPECT_TRUE(same_bits(fused.y.device(), parts.y.device()));
      }
    }
  }
}

TEST(CudaLayerNorm, RunsInPlace) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kLayerNormTypes) {
    for (std::int64_t channels : {192, 433, 515}) {
      SCOPED_TRACE(cat(name_of(dtype), " ", channels));
      LayerNormProblem apart(dtype, 9, channels), in_place(dtype, 9, channels);
      for (const LayerNormProblem* p : {&apart, &in_place})
        run(cuda_queue(), p->forward(kOnDevice));
      run(cuda_queue(), apart.backward(kOnDevice));
      LayerNormBackward over_add = in_place.backward(kOnDevice);
      over_add.dx = const_cast<void*>(over_add.dx_add);
      run(cuda_queue(), over_add);
      EXPECT_TRUE(same_bits(in_place.add.device(), apart.dx.device()));
      EXPECT_TRUE(same_bits(in_place.dbranch.device(), apart.dbranch.device()));
      EXPECT_TRUE(same_bits(in_place.dweight.device(), apart.dweight.device()));

      LayerNormBackward without_add = apart.backward(kOnDevice);
      without_add.dx_add = nullptr;
      run(cuda_queue(), without_add);
      LayerNormBackward over_dy = in_place.backward(kOnDevice);
      over_dy.dx_add = over_dy.dbranch = over_dy.dbranch_sums = nullptr;
      over_dy.dx = const_cast<void*>(over_dy.dy);
      run(cuda_queue(), over_dy);
      EXPECT_TRUE(same_bits(in_place.dy.device(), apart.dx.device()));
      EXPECT_TRUE(same_bits(in_place.dweight.device(), apart.dweight.device()));
      EXPECT_TRUE(same_bits(in_place.dbias.device(), apart.dbias.device()));

      LayerNormForward forward = in_place.forward(kOnDevice);
      forward.y = const_cast<void*>(forward.x);
      run(cuda_queue(), forward);
      EXPECT_TRUE(same_bits(in_place.x.device(), apart.y.device()));
    }
  }
}

TEST(CudaLayerNorm, NullOutputsAreSkipped) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t channels : {100, 515}) {
    LayerNormProblem all(DType::kFloat32, 9, channels), some(DType::kFloat32, 9, channels);
    for (const LayerNormProblem* p : {&all, &some}) run(cuda_queue(), p->forward(kOnDevice));
    run(cuda_queue(), all.backward(kOnDevice));
    LayerNormBackward only_bias = some.backward(kOnDevice);
    only_bias.dx = only_bias.dbranch = only_bias.dbranch_sums = only_bias.dweight = nullptr;
    run(cuda_queue(), only_bias);
    EXPECT_TRUE(same_bits(some.dbias.device(), all.dbias.device()));
    EXPECT_TRUE(same_bits(some.dweight.device(), some.dweight.host()));
    EXPECT_TRUE(same_bits(some.dx.device(), some.dx.host()));
    LayerNormBackward only_dx = some.backward(kOnDevice);
    only_dx.dweight = only_dx.dbias = nullptr;
    run(cuda_queue(), only_dx);
    EXPECT_TRUE(same_bits(some.dx.device(), all.dx.device()));
    EXPECT_TRUE(same_bits(some.dbranch_sums.device(), all.dbranch_sums.device()));
    EXPECT_TRUE(same_bits(some.dweight.device(), some.dweight.host()));
  }
}

TEST(CudaLayerNorm, BranchSumsChangeNoOtherOutput) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t shapes[][2] = {{197, 192}, {69, 433}, {37, 432},  {5, 768},
                                    {3, 1024},  {3, 515},  {70, 1032}, {41, 7}};
  for (DType dtype : kLayerNormTypes) {
    for (auto [rows, channels] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", channels));
      LayerNormProblem with(dtype, rows, channels), without(dtype, rows, channels);
      for (const LayerNormProblem* p : {&with, &without}) run(cuda_queue(), p->forward(kOnDevice));
      run(cuda_queue(), with.backward(kOnDevice));
      LayerNormBackward args = without.backward(kOnDevice);
      args.dbranch_sums = nullptr;
      run(cuda_queue(), args);
      EXPECT_TRUE(same_bits(with.dx.device(), without.dx.device()));
      EXPECT_TRUE(same_bits(with.dbranch.device(), without.dbranch.device()));
      EXPECT_TRUE(same_bits(with.dweight.device(), without.dweight.device()));
      EXPECT_TRUE(same_bits(with.dbias.device(), without.dbias.device()));
      EXPECT_TRUE(same_bits(without.dbranch_sums.device(), without.dbranch_sums.host()));
    }
  }
}

TEST(CudaLayerNorm, NaNAndInfinityStayInTheirRow) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (std::int64_t channels : {192, 100, 515}) {
      LayerNormProblem p(DType::kFloat32, 9, channels);
      Doubles x = doubles(p.x.host());
      x[static_cast<std::size_t>(4 * channels + channels - 1)] = bad;
      p.x = Twin(from_doubles(x, p.activation(), DType::kFloat32));
      run(cuda_queue(), p.forward(kOnDevice));
      run(cuda_queue(), p.backward(kOnDevice));
      for (const Twin* t : {&p.y, &p.dx}) {
        Doubles got = doubles(t->device());
        for (std::int64_t i = 0; i < p.x.host().numel(); ++i) {
          EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(i)]), i / channels == 4) << i;
        }
      }
    }
  }
}

TEST(CudaLayerNorm, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  LayerNormForward empty{};
  empty.dtype = DType::kFloat32;
  empty.channels = 192;
  run(cuda_queue(), empty);
  LayerNormBackward empty_backward{};
  empty_backward.dtype = DType::kBFloat16;
  empty_backward.channels = 192;
  run(cuda_queue(), empty_backward);
  LayerNormForward wrong = LayerNormProblem(DType::kFloat32, 2, 8).forward(kOnDevice);
  wrong.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong), Error);
}

}  // namespace
}  // namespace dtn::test
