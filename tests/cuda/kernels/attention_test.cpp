// Compares attention on the device with the CPU in float64.
#include "cuda/kernels/attention_problem.h"

namespace dtn::test {
namespace {

TEST(CudaAttention, MatchesFloat64InBfloat16) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const AttentionSize& s :
       {AttentionSize{1, 197, 1, 64}, AttentionSize{1, 196, 1, 48}, AttentionSize{2, 65, 3, 24},
        AttentionSize{2, 64, 2, 17}, AttentionSize{1, 5, 3, 8}, AttentionSize{2, 1, 2, 48},
        AttentionSize{1, 35, 1, 80}, AttentionSize{1, 67, 1, 128}, AttentionSize{1, 20, 1, 100},
        AttentionSize{1, 33, 1, 112}, AttentionSize{1, 90, 1, 32}, AttentionSize{1, 130, 1, 96},
        AttentionSize{1, 300, 1, 16}}) {
    expect_matches(AttentionProblem(s), DType::kBFloat16);
  }
}

TEST(CudaAttention, MatchesFloat64InFloat32) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const AttentionSize& s :
       {AttentionSize{1, 197, 1, 48}, AttentionSize{1, 196, 1, 64}, AttentionSize{2, 65, 3, 24},
        AttentionSize{2, 64, 2, 17}, AttentionSize{1, 5, 3, 8}, AttentionSize{2, 1, 2, 48},
        AttentionSize{1, 65, 1, 80}, AttentionSize{1, 37, 2, 128}, AttentionSize{1, 35, 1, 130},
        AttentionSize{1, 33, 1, 256}}) {
    expect_matches(AttentionProblem(s), DType::kFloat32);
  }
}

TEST(CudaAttention, WideHeadsInBfloat16) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const AttentionSize& s : {AttentionSize{1, 35, 2, 136}, AttentionSize{1, 9, 1, 255}}) {
    expect_matches(AttentionProblem(s), DType::kBFloat16);
  }
}

TEST(CudaAttention, GridBiasMatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const AttentionProblem& p :
       {AttentionProblem::on_grid(1, 14, 14, 1, 48), AttentionProblem::on_grid(2, 13, 5, 3, 24),
        AttentionProblem::on_grid(2, 2, 3, 2, 16), AttentionProblem::on_grid(3, 1, 1, 2, 8),
        AttentionProblem::on_grid(1, 23, 3, 1, 64), AttentionProblem::on_grid(1, 1, 35, 1, 80),
        AttentionProblem::on_grid(1, 5, 7, 1, 96), AttentionProblem::on_grid(1, 7, 5, 1, 112),
        AttentionProblem::on_grid(1, 11, 3, 1, 128)}) {
    expect_matches(p, DType::kBFloat16);
  }
  for (const AttentionProblem& p :
       {AttentionProblem::on_grid(1, 9, 8, 1, 48), AttentionProblem::on_grid(2, 7, 5, 3, 17),
        AttentionProblem::on_grid(3, 1, 1, 2, 8), AttentionProblem::on_grid(1, 7, 5, 2, 128),
        AttentionProblem::on_grid(1, 5, 7, 1, 136), AttentionProblem::on_grid(1, 3, 11, 1, 256)}) {
    expect_matches(p, DType::kFloat32);
  }
  expect_matches(AttentionProblem::on_grid(1, 5, 7, 2, 136), DType::kBFloat16);
  expect_matches(AttentionProblem::on_grid(1, 9, 1, 1, 255), DType::kBFloat16);
}

// Fixed bias weights give the same results as learned ones. Weights of 0 change nothing in float32.
// In bfloat16 they change only the rounding of the scores.
TEST(CudaAttention, FixedAndZeroBiasWeights) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    AttentionProblem p = AttentionProblem::on_grid(2, 13, 5, 2, 32);
    AttentionResult learned = on_device(p, dtype);
    AttentionResult fixed = run_on_queue(cuda_queue(), kOnDevice, p, dtype, false);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(same_bits(learned.all()[k], fixed.all()[k]));
    EXPECT_TRUE(same_bits(fixed.dpos, as(random_tensor({2, 3}, 4), DType::kFloat32)));
    p.pos_weight.zero();
    AttentionResult zero = on_device(p, dtype), none = on_device(AttentionProblem(p.size), dtype);
    expect_close_to(none, {zero.out, zero.lse, zero.dqkv, {}}, p, dtype);
    for (std::size_t k = 0; k < 3 && dtype == DType::kFloat32; ++k) {
      EXPECT_TRUE(same_bits(zero.all()[k], none.all()[k]));
    }
  }
}

// The bias grows with the distance beyond the range of 2^x. Rows outside the tensors stay masked.
TEST(CudaAttention, SteepBias) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    AttentionProblem p = AttentionProblem::on_grid(1, 5, 7, 1, 16);
    p.pos_weight.data<double>()[2] = 16;
    AttentionResult want = on_host(p, DType::kFloat64), got = on_device(p, dtype);
    EXPECT_LE(relative_error(doubles(got.out), doubles(want.out)),
              error_bound(p.size, dtype, max_abs(doubles(want.lse)), 2));
    for (const Tensor& t : got.all()) {
      for (double v : doubles(t)) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

// One key has almost all the weight, so most of the softmax underflows and its shift changes often.
TEST(CudaAttention, LargeScores) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    expect_matches(AttentionProblem({1, 131, 1, 48}, 16), dtype);
    // Scores that grow from key to key by more than the shift allows.
    AttentionProblem rising({1, 131, 1, 8}, 1);
    for (int64_t i = 0; i < rising.size.t; ++i) {
      rising.qkv.data<double>()[rising.size.at(i, 0, 0, 0)] = 64;
      rising.qkv.data<double>()[rising.size.at(i, 1, 0, 0)] = static_cast<double>(i) / 128;
    }
    expect_matches(rising, dtype);
  }
}

TEST(CudaAttention, AnyScale) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (double scale : {-4.0, 0.0}) {
      AttentionProblem p({1, 70, 1, 16}, 4);
      p.scale = scale;
      // With scale 0, dq and dk are 0, so a relative error has no scale.
      if (scale != 0) {
        expect_matches(p, dtype);
      } else {
        AttentionResult want = on_host(p, DType::kFloat64), got = on_device(p, dtype);
        EXPECT_LE(relative_error(doubles(got.out), doubles(want.out)),
                  error_bound(p.size, dtype, max_abs(doubles(want.lse)), 2));
        for (int part = 0; part < 2; ++part) {
          EXPECT_EQ(max_abs(doubles(part_of(got.dqkv, p.size, part))), 0);
        }
      }
    }
  }
}

// Equal keys: every probability is 1 / T.
TEST(CudaAttention, EqualScoresAverageValues) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    AttentionProblem p({1, 197, 1, 16});
    const AttentionSize& s = p.size;
    for (int64_t i = 0; i < s.t; ++i) {
      for (int64_t c = 0; c < s.d; ++c) p.qkv.data<double>()[s.at(i, 1, 0, c)] = 0.5;
    }
    AttentionResult want = on_host(p, DType::kFloat64);
    under_every_schedule([&] {
      AttentionResult got = on_device(p, dtype);
      double bound = error_bound(s, dtype, max_abs(doubles(want.lse)), 2);
      EXPECT_LE(relative_error(doubles(got.out), doubles(want.out)), bound);
      EXPECT_LE(relative_error(doubles(got.lse), doubles(want.lse)),
                error_bound(s, DType::kFloat32, 1, 0));
      return got.all();
    });
  }
}

TEST(CudaAttention, NanPropagatesAsOnCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (int part = 0; part < 4; ++part) {
      expect_same_spread({1, 37, 2, 7}, 17, part, NAN, dtype);
      expect_same_spread({1, 70, 1, 24}, 69, part, NAN, dtype);
      expect_same_spread({1, 66, 1, 48}, 0, part, NAN, dtype);
    }
  }
}

TEST(CudaAttention, NanInBiasWeightStaysInItsHead) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (int64_t k = 0; k < 3; ++k) {
      AttentionProblem p = AttentionProblem::on_grid(1, 5, 7, 2, 16);
      p.pos_weight.data<double>()[k] = NAN;
      std::vector<Tensor> want = on_host(p, DType::kFloat64).all(), got = on_device(p, dtype).all();
      for (std::size_t i = 0; i < want.size(); ++i) {
        Doubles g = doubles(got[i]), w = doubles(want[i]);
        for (std::size_t j = 0; j < g.size(); ++j) ASSERT_EQ(std::isnan(g[j]), std::isnan(w[j]));
      }
    }
  }
}

TEST(CudaAttention, InfinityPropagatesAsOnCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (int part : {2, 3}) expect_same_spread({1, 70, 1, 24}, 69, part, INFINITY, dtype);
  }
}

// Tensors at any address and rows of any length.
TEST(CudaAttention, UnalignedTensors) {
  DTN_SKIP_WITHOUT_DEVICE();
  AttentionSize s{1, 67, 2, 16};
  AttentionProblem p(s);
  AttentionResult want = on_host(p, DType::kFloat64);
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    under_every_schedule([&] {
      auto shifted = [&](const Tensor& t) {
        Tensor bigger = Tensor::empty({t.numel() + 1}, dtype);
        Tensor values = as(t, dtype);
        std::memset(bigger.raw(), 0xff, bigger.nbytes());
        std::memcpy(static_cast<char*>(bigger.raw()) + size_of(dtype), values.raw(),
                    values.nbytes());
        return Twin(bigger);
      };
      auto at = [&](const Twin& t) { return static_cast<char*>(t.at(kOnDevice)) + size_of(dtype); };
      Twin qkv = shifted(p.qkv), dout = shifted(p.dout);
      Twin out = Twin::output({p.dout.numel() + 1}, dtype);
      Twin dqkv = Twin::output({p.qkv.numel() + 1}, dtype),
           lse = Twin::output(s.lse(), DType::kFloat32);
      run(cuda_queue(), AttentionForward{dtype, s.b, s.t, s.h, s.d, p.scale, at(qkv), at(out),
                                         lse.at(kOnDevice)});
      run(cuda_queue(), AttentionBackward{dtype, s.b, s.t, s.h, s.d, p.scale, at(qkv), at(out),
                                          lse.at(kOnDevice), at(dout), at(dqkv)});
      auto unshifted = [&](const Twin& t, const Shape& shape) {
        Tensor all = t.device(), values = Tensor::empty(shape, dtype);
        EXPECT_TRUE(std::isnan(element(all, 0))) << "written before the beginning";
        std::memcpy(values.raw(), static_cast<char*>(all.raw()) + size_of(dtype), values.nbytes());
        return values;
      };
      AttentionResult got{unshifted(out, s.out()), lse.device(), unshifted(dqkv, s.qkv()), {}};
      expect_close_to(got, want, p, dtype);
      return got.all();
    });
  }
}

TEST(CudaAttention, MoreImagesThanGridLimit) {
  DTN_SKIP_WITHOUT_DEVICE();
  const AttentionProblem p = AttentionProblem::on_grid(5, 3, 3, 2, 8);
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    const AttentionResult at_once = on_device(p, dtype);
    attention::images_of_grid = 2;
    const AttentionResult in_turn = on_device(p, dtype);
    attention::images_of_grid = 65535;
    for (std::size_t i = 0; i < at_once.all().size(); ++i) {
      EXPECT_TRUE(same_bits(in_turn.all()[i], at_once.all()[i])) << i;
    }
  }
}

TEST(CudaAttention, EmptyInputIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const AttentionSize& s : {AttentionSize{0, 5, 2, 8}, AttentionSize{2, 0, 2, 8},
                                   AttentionSize{2, 5, 0, 8}, AttentionSize{2, 5, 2, 0}}) {
      run(cuda_queue(), AttentionForward{dtype, s.b, s.t, s.h, s.d, 1, nullptr, nullptr, nullptr});
      run(cuda_queue(), AttentionBackward{dtype, s.b, s.t, s.h, s.d, 1, nullptr, nullptr, nullptr,
                                          nullptr, nullptr});
    }
  }
}

TEST(CudaAttention, RejectsFloat64AndTooWideHeads) {
  DTN_SKIP_WITHOUT_DEVICE();
  AttentionForward forward{DType::kFloat64, 1, 1, 1, 8, 1, nullptr, nullptr, nullptr};
  EXPECT_THROW(run(cuda_queue(), forward), Error);
  forward.dtype = DType::kFloat32, forward.head_dim = 257;
  EXPECT_THROW(run(cuda_queue(), forward), Error);
}

}  // namespace
}  // namespace dtn::test
