// DTN on the device, on both paths. See dtn_norm_problem.h for the references and tolerances.
#include "cuda/kernels/dtn_norm_problem.h"
#include "cuda/kernels/dtn_warps.h"
#include "dtn/core/check.h"

namespace dtn::test {
namespace {

TEST(CudaDtnNorm, MatchesReferenceAndCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ShapeCase shapes[] = {
      {1, 14, 14, 96, 4}, {1, 14, 14, 48, 1}, {1, 1, 197, 16, 2},
      {3, 7, 5, 32, 4},   {1, 1, 13, 24, 3},  {1, 16, 16, 24, 1},
      {2, 5, 3, 21, 3},   {2, 13, 1, 10, 2},  {2, 1, 1, 9, 3},
  };
  for (const ShapeCase& s : shapes) {
    for (DtnVariant variant : kVariants) {
      check(DtnNormProblem(s, variant, DType::kFloat32));
      check(DtnNormProblem(s, variant, DType::kBFloat16), Runs::kOnce);
    }
  }
  check(DtnNormProblem({2, 7, 5, 24, 2}, DtnVariant::kPaper, DType::kBFloat16));
}

TEST(CudaDtnNorm, TwelveWarpsMatchReferenceAndCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ScopedBackwardWarps twelve(12);
  check(DtnNormProblem({2, 5, 7, 24, 3}, DtnVariant::kPaper, DType::kBFloat16));
  for (const ShapeCase& shape : {ShapeCase{1, 14, 14, 432, 9}, ShapeCase{1, 14, 14, 96, 4},
                                 ShapeCase{3, 7, 5, 32, 4}, ShapeCase{1, 16, 16, 24, 1}}) {
    check(DtnNormProblem(shape, DtnVariant::kPaper, DType::kBFloat16), Runs::kOnce);
  }
}

// Grids too large for tensor cores; heads in several slices; planes in scratch memory for the
// backward pass only, then for both passes.
TEST(CudaDtnNorm, LargeGrids) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ShapeCase shapes[] = {{1, 20, 18, 24, 1}, {1, 23, 20, 9, 1}, {1, 34, 32, 9, 1}};
  for (const ShapeCase& s : shapes) {
    for (DtnVariant variant : kVariants) {
      check(DtnNormProblem(s, variant, DType::kFloat32), Runs::kOnce);
    }
  }
  check(DtnNormProblem({2, 1, 521, 9, 1}, DtnVariant::kPaper, DType::kBFloat16));
}

// Position weights whose windows cover a part of an axis, one per head: narrow and wide bells,
// centred on the token, beside it, near an end and beyond an end. Some rows have their least weight
// inside the axis, and some are uniform.
DtnNormProblem windows(const ShapeCase& shape, DtnVariant variant, DType dtype, int first) {
  const Doubles weights[] = {{0.4, -0.3, -1},  {3, -2, -0.5},   {-4, 5, -0.1}, {0.02, 0.01, 0.02},
                             {-40, 40, -1},    {0, 0, -0.02},   {0.1, 0, 0},   {0, 0, -20},
                             {10, -10, -0.05}, {-0.3, 0.2, -2}, {1, 1, -0.25}, {0, 0, -1e-4}};
  DtnNormProblem p(shape, variant, dtype);
  Doubles all;
  for (int h = 0; h < shape.heads; ++h) {
    const Doubles& of_head = weights[static_cast<std::size_t>(first + h)];
    all.insert(all.end(), of_head.begin(), of_head.end());
  }
  p.pos_weight = Twin(from_doubles(all, {shape.heads, 3}, DType::kFloat32));
  p.dense.pos_weight = doubles(p.pos_weight.host());
  return p;
}

TEST(CudaDtnNorm, WindowsOnWideGrids) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (int first = 0; first < 12; first += 4) {
    for (DtnVariant variant : kVariants) {
      check(windows({1, 21, 37, 8, 4}, variant, DType::kFloat32, first), Runs::kOnce);
      check(windows({1, 40, 17, 8, 4}, variant, DType::kFloat32, first), Runs::kOnce);
    }
    check(windows({1, 19, 33, 12, 4}, DtnVariant::kPaper, DType::kBFloat16, first), Runs::kOnce);
    check(windows({1, 3, 50, 8, 4}, DtnVariant::kPaper, DType::kFloat32, first));
  }
}

// More slices of channels than fit into the scratch memory at a time.
TEST(CudaDtnNorm, ManySlicesInScratch) {
  DTN_SKIP_WITHOUT_DEVICE();
  const DtnNormProblem p({24, 22, 20, 88, 11}, DtnVariant::kPaper, DType::kFloat32);
  Outputs o(p);
  const DtnNormExpected cpu = twin(p, o);
  run_both_passes(p, o);
  expect_outputs(p.name("plain"), Path::kPlain, p, o, cpu, 2);
}

// Longer than the memory for position matrices allows, so the heads run in waves.
TEST(CudaDtnNorm, LongSequence) {
  DTN_SKIP_WITHOUT_DEVICE();
  check(DtnNormProblem({1, 1, 2000, 4, 2}, DtnVariant::kPaper, DType::kFloat32), Runs::kOnce);
}

// The pivot preserves the variance: without it, 1e6 - 1e6 would lose the variance in float32. The
// quotients of the official variant differ in their last digits only.
TEST(CudaDtnNorm, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (double mean : {1e3, -1e3}) {
      check(DtnNormProblem({2, 14, 14, 48, 2}, variant, DType::kFloat32, {.mean = mean}),
            Runs::kOnce);
    }
  }
  check(DtnNormProblem({2, 14, 14, 48, 2}, DtnVariant::kPaper, DType::kFloat32,
                       {.channel_mean = 1e3}),
        Runs::kOnce);
}

TEST(CudaDtnNorm, ZeroWeightConstantRowsAndChannels) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ShapeCase shape{2, 6, 4, 24, 3};
  for (DtnVariant variant : kVariants) {
    for (DType dtype : kTypes) {
      check(DtnNormProblem(shape, variant, dtype, {.zero_weight = true}), Runs::kOnce);
      check(DtnNormProblem(shape, variant, dtype, {.constant_rows = true}), Runs::kOnce);
      check(DtnNormProblem(shape, variant, dtype, {.constant_channels = true}), Runs::kOnce);
    }
  }
}

TEST(CudaDtnNorm, LambdaZeroAndOne) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (double lambda : {0.0, 1.0}) {
      // With lambda 1 positions have no effect.
      check(DtnNormProblem({2, 7, 9, 32, 2}, variant, DType::kFloat32, {.lambda = lambda}),
            Runs::kOnce, 1e-3);
    }
  }
}

TEST(CudaDtnNorm, SharpAndUniformPositions) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (double position : {0.0, 8.0}) {
    check(DtnNormProblem({2, 9, 11, 32, 2}, DtnVariant::kPaper, DType::kFloat32,
                         {.position = position}),
          Runs::kOnce);
  }
}

// Far from the edge between two constant halves, the local variance is only rounding, of either
// sign. With an eps smaller than this rounding, an unguarded negative variance would give NaN.
TEST(CudaDtnNorm, RoundingDoesNotMakeVariancesNegative) {
  DTN_SKIP_WITHOUT_DEVICE();
  DtnNormProblem p({1, 16, 6, 8, 1}, DtnVariant::kPaper, DType::kFloat32, {.lambda = 0});
  p.dense.eps = 1e-12;
  Doubles x(p.dense.x.size());
  for (int t = 0; t < p.dense.tokens(); ++t) {
    for (int c = 0; c < 8; ++c) x[p.dense.at(0, t, c)] = (t < 48 ? 1 : -1) * (1 + 0.1 * c);
  }
  p.x = Twin(from_doubles(x, p.image_shape(), p.dtype));
  p.pos_weight = Twin(from_doubles({0.1, 0.2, -1.5}, {1, 3}, DType::kFloat32));
  on_each_path(p, [&](Path path) {
    Outputs o(p);
    run_both_passes(p, o);
    for (const Tensor& t : o.all()) {
      for (double v : doubles(t)) ASSERT_TRUE(std::isfinite(v)) << name_of(path);
    }
  });
}

// A single NaN stays in its image and affects every token of its channel.
TEST(CudaDtnNorm, NanPropagatesAsOnCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    DtnNormProblem p({2, 4, 5, 16, 2}, variant, DType::kFloat32);
    Doubles x = p.dense.x;
    x[p.dense.at(0, 7, 3)] = NAN;
    p.x = Twin(from_doubles(x, p.image_shape(), p.dtype));
    on_each_path(p, [&](Path path) {
      Outputs o(p);
      run(cpu_queue(), forward_of(p, o, kOnHost));
      run(cuda_queue(), forward_of(p, o, kOnDevice));
      expect_close("dtn_norm", cat(p.name(name_of(path)), " nan"), o.y.device(),
                   doubles(o.y.host()), 2e-5);
    });
  }
}

// The statistics of one path's forward pass are valid for the other path's backward pass.
TEST(CudaDtnNorm, PathsShareStatistics) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    const DtnNormProblem p({2, 14, 14, 32, 2}, DtnVariant::kPaper, dtype, {.mean = 30});
    const DtnNormExpected want = oracle(p);
    for (bool forward_plain : {false, true}) {
      Outputs o(p);
      force_plain_dtn(forward_plain);
      run(cuda_queue(), forward_of(p, o, kOnDevice));
      force_plain_dtn(!forward_plain);
      run(cuda_queue(), backward_of(p, o, kOnDevice));
      force_plain_dtn(false);
      expect_outputs(p.name(forward_plain ? "plain, tensor" : "tensor, plain"), Path::kTensor, p, o,
                     want);
    }
  }
}

TEST(CudaDtnNorm, AccumulatesParameterGradientsAndAddsResidualGradient) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (DType dtype : kTypes) {
      const DtnNormProblem p({2, 4, 5, 24, 3}, variant, dtype);
      DtnNormExpected want = oracle(p);
      const Twin residual = random_twin(p.image_shape(), dtype, 10);
      const Doubles added = doubles(residual.host());
      auto& g = want.gradients;
      for (std::size_t i = 0; i < added.size(); ++i) g.x[i] += added[i];
      for (Doubles* sum : {&g.weight, &g.bias, &g.lambda_mean, &g.lambda_var, &g.pos_weight}) {
        for (double& v : *sum) v *= 2;
      }
      on_each_path(p, [&](Path path) {
        for (bool in_place : {false, true}) {
          Outputs o(p);
          run_both_passes(p, o);
          if (in_place) o.dx = random_twin(p.image_shape(), dtype, 10);
          DtnNormBackward again = backward_of(p, o, kOnDevice);
          again.dx_add = in_place ? again.dx : residual.at(kOnDevice);
          run(cuda_queue(), again);
          expect_outputs(cat(p.name(name_of(path)), " twice"), path, p, o, want);
        }
      });
    }
  }
}

TEST(CudaDtnNorm, AnyGradientIsOptional) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DtnVariant variant : kVariants) {
    for (DType dtype : kTypes) {
      const DtnNormProblem p({2, 4, 5, 24, 3}, variant, dtype);
      on_each_path(p, [&](Path path) {
        SCOPED_TRACE(p.name(name_of(path)));
        Outputs o(p);
        run_both_passes(p, o);
        void* DtnNormBackward::*const members[] = {
            &DtnNormBackward::dx,          &DtnNormBackward::dweight,
            &DtnNormBackward::dbias,       &DtnNormBackward::dlambda_mean,
            &DtnNormBackward::dlambda_var, &DtnNormBackward::dpos_weight,
        };
        Twin Outputs::*const results[] = {&Outputs::dx,          &Outputs::dweight,
                                          &Outputs::dbias,       &Outputs::dlambda_mean,
                                          &Outputs::dlambda_var, &Outputs::dpos_weight};
        constexpr int kCount = 6;
        for (int i = 0; i < kCount; ++i) {  // all outputs except i, or output i alone
          for (bool alone : {false, true}) {
            Outputs other(p);
            run(cuda_queue(), forward_of(p, other, kOnDevice));
            DtnNormBackward backward = backward_of(p, other, kOnDevice);
            auto left_out = [&](int k) { return (k == i) != alone; };
            for (int k = 0; k < kCount; ++k) {
              if (left_out(k)) backward.*members[k] = nullptr;
            }
            run(cuda_queue(), backward);
            for (int k = 0; k < kCount; ++k) {
              const Tensor got = (other.*results[k]).device();
              EXPECT_TRUE(same_bits(
                  got, left_out(k) ? (other.*results[k]).host() : (o.*results[k]).device()))
                  << "gradient " << k << (alone ? " beside " : " without ") << i;
            }
          }
        }
      });
    }
  }
}

// Rows that cannot be read 16 bytes at a time.
TEST(CudaDtnNorm, UnalignedImages) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    const DtnNormProblem p({1, 5, 4, 16, 2}, DtnVariant::kPaper, dtype);
    on_each_path(p, [&](Path path) {
      Outputs o(p);
      run_both_passes(p, o);
      const std::int64_t n = p.x.host().numel();
      auto shifted = [&](const Tensor& from) {
        Doubles values(static_cast<std::size_t>(n) + 1);
        for (std::int64_t i = 0; i < n; ++i)
          values[static_cast<std::size_t>(i) + 1] = element(from, i);
        return Twin(from_doubles(values, {n + 1}, dtype));
      };
      const Twin x = shifted(p.x.host()), dy = shifted(p.dy.host());
      const Twin y = Twin::output({n + 1}, dtype), dx = Twin::output({n + 1}, dtype);
      auto at = [&](const Twin& t) {
        return static_cast<std::byte*>(t.at(kOnDevice)) + size_of(dtype);
      };
      Outputs statistics(p);
      DtnNormForward f = forward_of(p, statistics, kOnDevice);
      f.x = at(x), f.y = at(y);
      run(cuda_queue(), f);
      DtnNormBackward b = backward_of(p, statistics, kOnDevice);
      b.x = at(x), b.dy = at(dy), b.dx = at(dx);
      run(cuda_queue(), b);
      auto values = [&](const Twin& t) {
        Doubles all = doubles(t.device());
        all.erase(all.begin());
        return all;
      };
      const Tolerance allowed = tolerance(path, dtype);
      expect_close("dtn_norm", cat(p.name(name_of(path)), " unaligned y"), o.y.device(), values(y),
                   2 * allowed.y);
      expect_close("dtn_norm", cat(p.name(name_of(path)), " unaligned dx"), o.dx.device(),
                   values(dx), 2 * allowed.dx);
    });
  }
}

TEST(CudaDtnNorm, EmptyBatchIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  const DtnNormProblem p({1, 2, 2, 4, 2}, DtnVariant::kPaper, DType::kFloat32);
  Outputs o(p);
  DtnNormForward f = forward_of(p, o, kOnDevice);
  DtnNormBackward b = backward_of(p, o, kOnDevice);
  f.batch = b.batch = 0;
  run(cuda_queue(), f);
  run(cuda_queue(), b);
  EXPECT_TRUE(same_bits(o.y.device(), o.y.host()));
  EXPECT_TRUE(same_bits(o.dweight.device(), o.dweight.host()));
}

TEST(CudaDtnNorm, RejectsUnsupportedTypes) {
  DTN_SKIP_WITHOUT_DEVICE();
  const DtnNormProblem p({1, 2, 2, 4, 2}, DtnVariant::kPaper, DType::kFloat32);
  const Outputs o(p);
  for (DType dtype : {DType::kFloat64, DType::kInt64}) {
    DtnNormForward f = forward_of(p, o, kOnDevice);
    DtnNormBackward b = backward_of(p, o, kOnDevice);
    f.dtype = b.dtype = dtype;
    EXPECT_THROW(run(cuda_queue(), f), Error);
    EXPECT_THROW(run(cuda_queue(), b), Error);
  }
}

}  // namespace
}  // namespace dtn::test
