// Attention on the device against its CPU twin in float64.
#include "kernels/attention/attention.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

using std::int64_t;

struct Size {
  int64_t b, t, h, d;
  Shape qkv() const { return {b, t, 3, h, d}; }
  Shape out() const { return {b, t, h, d}; }
  Shape lse() const { return {b, h, t}; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
  int64_t at(int64_t token, int64_t part, int64_t head, int64_t c) const {  // in image 0 of qkv
    return ((token * 3 + part) * h + head) * d + c;
  }
  int64_t at(int64_t token, int64_t head, int64_t c) const { return (token * h + head) * d + c; }
};

std::string name(const Size& s, DType dtype) {
  return cat("B ", s.b, " T ", s.t, " H ", s.h, " D ", s.d, " ", name_of(dtype));
}

// A problem in float64 whose numbers bfloat16 holds exactly, so that every type has the same one.
struct Problem {
  Size size;
  double scale;
  Tensor qkv, dout;
  Tensor pos_weight;  // [H, 3]; undefined: no bias
  int64_t grid_h = 0, grid_w = 0;

  explicit Problem(const Size& s, double spread = 2)
      : size(s),
        scale(s.scale()),
        qkv(representable(random_tensor(s.qkv(), 1, spread))),
        dout(representable(random_tensor(s.out(), 2))) {}

  // The tokens on a grid, each head looking nearby, around some offset.
  static Problem on_grid(int64_t b, int64_t grid_h, int64_t grid_w, int64_t h, int64_t d) {
    Problem p({b, grid_h * grid_w, h, d});
    p.grid_h = grid_h, p.grid_w = grid_w;
    p.pos_weight = representable(random_tensor({h, 3}, 3, 1, -0.5));
    for (int64_t i = 0; i < h; ++i) p.pos_weight.data<double>()[3 * i + 2] = -0.375;
    return p;
  }
};

struct Result {
  Tensor out, lse, dqkv;
  Tensor dpos;  // with a bias, added to what was there
  std::vector<Tensor> all() const {
    if (!dpos.defined()) return {out, lse, dqkv};
    return {out, lse, dqkv, dpos};
  }
};

template <class Queue>
Result run_on_queue(Queue& queue, Where where, const Problem& p, DType dtype,
                    bool dpos_wanted = true) {
  const Size& s = p.size;
  Twin qkv(as(p.qkv, dtype)), dout(as(p.dout, dtype));
  Twin out = Twin::output(s.out(), dtype), dqkv = Twin::output(s.qkv(), dtype);
  Twin lse = Twin::output(s.lse(), accumulator_of(dtype));
  Twin pos_weight, dpos;
  if (p.pos_weight.defined()) {
    pos_weight = Twin(as(p.pos_weight, accumulator_of(dtype)));
    dpos = Twin::accumulated(p.pos_weight.shape(), accumulator_of(dtype), 4);
  }
  AttentionForward forward{dtype,   s.b,           s.t,           s.h,          s.d,
                           p.scale, qkv.at(where), out.at(where), lse.at(where)};
  AttentionBackward backward{
      dtype,         s.b,           s.t,           s.h,           s.d,
      p.scale,       qkv.at(where), out.at(where), lse.at(where), dout.at(where),
      dqkv.at(where)};
  forward.pos_weight = backward.pos_weight = pos_weight.at(where);
  forward.grid_h = backward.grid_h = p.grid_h;
  forward.grid_w = backward.grid_w = p.grid_w;
  if (dpos_wanted) backward.dpos_weight = dpos.at(where);
  run(queue, forward);
  run(queue, backward);
  Result r = where == kOnHost ? Result{out.host(), lse.host(), dqkv.host(), {}}
                              : Result{out.device(), lse.device(), dqkv.device(), {}};
  if (p.pos_weight.defined()) r.dpos = where == kOnHost ? dpos.host() : dpos.device();
  return r;
}
Result on_host(const Problem& p, DType dtype) {
  return run_on_queue(cpu_queue(), kOnHost, p, dtype);
}
Result on_device(const Problem& p, DType dtype) {
  return run_on_queue(cuda_queue(), kOnDevice, p, dtype);
}

// dq, dk or dv as [B T, H D].
Tensor part_of(const Tensor& dqkv, const Size& s, int64_t part) {
  int64_t row = s.h * s.d;
  Tensor slice = Tensor::empty({s.b * s.t, row}, dqkv.dtype());
  for (int64_t i = 0; i < s.b * s.t; ++i) {
    std::memcpy(static_cast<char*>(slice.raw()) + i * row * size_of(dqkv.dtype()),
                static_cast<const char*>(dqkv.raw()) + (i * 3 + part) * row * size_of(dqkv.dtype()),
                row * size_of(dqkv.dtype()));
  }
  return slice;
}

// Roundings to bfloat16 on the way to a result: to out p and out itself; to dv p and dv; to dq and
// dk out (by delta), ds and themselves. Each is a relative error of the terms of a sum, which add
// up as the terms do. In float32 four sums follow one another, of D and of T terms, and an error of
// a score or of lse is a relative error of p.
double error_bound(const Size& s, DType dtype, double largest_lse, int roundings) {
  double u = unit_roundoff(DType::kFloat32);
  double bound = u * (4 * std::sqrt(static_cast<double>(s.t + s.d)) + 4 * largest_lse);
  return dtype == DType::kBFloat16 ? bound + roundings * unit_roundoff(dtype) : bound;
}

void expect_close_to(const Result& got, const Result& want, const Problem& p, DType dtype) {
  const Size& s = p.size;
  std::string what = name(s, dtype);
  double lse = max_abs(doubles(want.lse));
  expect_close("attention_forward", what + " out", got.out, doubles(want.out),
               error_bound(s, dtype, lse, 2));
  // lse stays in float32; 2^x by the special function unit is good for two units more.
  expect_close("attention_forward", what + " lse", got.lse, doubles(want.lse),
               error_bound(s, DType::kFloat32, 1, 0), 1);
  // With one token dq and dk are 0 up to the rounding of what cancels.
  double floor = s.t > 1 ? 1e-30 : max_abs(doubles(p.dout)) * max_abs(doubles(p.qkv));
  for (int part = 0; part < 3; ++part) {
    expect_close("attention_backward", cat(what, " d", "qkv"[part]), part_of(got.dqkv, s, part),
                 doubles(part_of(want.dqkv, s, part)), error_bound(s, dtype, lse, part < 2 ? 3 : 2),
                 floor);
  }
  // Like dq: the terms of its sum are those of the rows of ds.
  if (!want.dpos.defined()) return;
  expect_close("attention_bias_gradient", what, got.dpos, doubles(want.dpos),
               error_bound(s, dtype, lse, 3));
}

void expect_matches(const Problem& p, DType dtype) {
  SCOPED_TRACE(name(p.size, dtype));
  Result want = on_host(p, DType::kFloat64);
  under_every_schedule([&] {
    Result got = on_device(p, dtype);
    expect_close_to(got, want, p, dtype);
    return got.all();
  });
}

TEST(CudaAttention, MatchesFloat64InBfloat16) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Size& s : {Size{1, 197, 1, 64}, Size{1, 196, 1, 48}, Size{2, 65, 3, 24},
                        Size{2, 64, 2, 17}, Size{1, 5, 3, 8}, Size{2, 1, 2, 48}, Size{1, 35, 1, 80},
                        Size{1, 67, 1, 128}, Size{1, 20, 1, 100}, Size{1, 33, 1, 112},
                        Size{1, 90, 1, 32}, Size{1, 130, 1, 96}, Size{1, 300, 1, 16}}) {
    expect_matches(Problem(s), DType::kBFloat16);
  }
}

TEST(CudaAttention, MatchesFloat64InFloat32) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Size& s : {Size{1, 197, 1, 48}, Size{1, 196, 1, 64}, Size{2, 65, 3, 24},
                        Size{2, 64, 2, 17}, Size{1, 5, 3, 8}, Size{2, 1, 2, 48}, Size{1, 65, 1, 80},
                        Size{1, 37, 2, 128}, Size{1, 35, 1, 130}, Size{1, 33, 1, 256}}) {
    expect_matches(Problem(s), DType::kFloat32);
  }
}

TEST(CudaAttention, WideHeadsInBfloat16) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Size& s : {Size{1, 35, 2, 136}, Size{1, 9, 1, 255}}) {
    expect_matches(Problem(s), DType::kBFloat16);
  }
}

TEST(CudaAttention, OnAGridMatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Problem& p : {Problem::on_grid(1, 14, 14, 1, 48), Problem::on_grid(2, 13, 5, 3, 24),
                           Problem::on_grid(2, 2, 3, 2, 16), Problem::on_grid(3, 1, 1, 2, 8),
                           Problem::on_grid(1, 23, 3, 1, 64), Problem::on_grid(1, 1, 35, 1, 80),
                           Problem::on_grid(1, 5, 7, 1, 96), Problem::on_grid(1, 7, 5, 1, 112),
                           Problem::on_grid(1, 11, 3, 1, 128)}) {
    expect_matches(p, DType::kBFloat16);
  }
  for (const Problem& p : {Problem::on_grid(1, 9, 8, 1, 48), Problem::on_grid(2, 7, 5, 3, 17),
                           Problem::on_grid(3, 1, 1, 2, 8), Problem::on_grid(1, 7, 5, 2, 128),
                           Problem::on_grid(1, 5, 7, 1, 136), Problem::on_grid(1, 3, 11, 1, 256)}) {
    expect_matches(p, DType::kFloat32);
  }
  expect_matches(Problem::on_grid(1, 5, 7, 2, 136), DType::kBFloat16);
  expect_matches(Problem::on_grid(1, 9, 1, 1, 255), DType::kBFloat16);
}

// Fixed weights of a bias change nothing else, and weights of 0 nothing at all, up to the rounding
// of scores that tensor cores take with less of it.
TEST(CudaAttention, BiasOfFixedOrZeroWeights) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    Problem p = Problem::on_grid(2, 13, 5, 2, 32);
    Result learned = on_device(p, dtype);
    Result fixed = run_on_queue(cuda_queue(), kOnDevice, p, dtype, false);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(same_bits(learned.all()[k], fixed.all()[k]));
    EXPECT_TRUE(same_bits(fixed.dpos, as(random_tensor({2, 3}, 4), DType::kFloat32)));
    p.pos_weight.zero();
    Result zero = on_device(p, dtype), none = on_device(Problem(p.size), dtype);
    expect_close_to(none, {zero.out, zero.lse, zero.dqkv, {}}, p, dtype);
    for (std::size_t k = 0; k < 3 && dtype == DType::kFloat32; ++k) {
      EXPECT_TRUE(same_bits(zero.all()[k], none.all()[k]));
    }
  }
}

// Scores that grow with the distance beyond what 2^x holds: rows that are not there stay unseen.
TEST(CudaAttention, SteepBias) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    Problem p = Problem::on_grid(1, 5, 7, 1, 16);
    p.pos_weight.data<double>()[2] = 16;
    Result want = on_host(p, DType::kFloat64), got = on_device(p, dtype);
    EXPECT_LE(relative_error(doubles(got.out), doubles(want.out)),
              error_bound(p.size, dtype, max_abs(doubles(want.lse)), 2));
    for (const Tensor& t : got.all()) {
      for (double v : doubles(t)) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

// A key is nearly certain, so that most of the softmax underflows and its shift moves often.
TEST(CudaAttention, LargeScores) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    expect_matches(Problem({1, 131, 1, 48}, 16), dtype);
    // Scores that grow from key to key by more than the shift allows for.
    Problem rising({1, 131, 1, 8}, 1);
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
      Problem p({1, 70, 1, 16}, 4);
      p.scale = scale;
      // Without scores dq and dk are 0, and an error has nothing to be measured against.
      if (scale != 0) {
        expect_matches(p, dtype);
      } else {
        Result want = on_host(p, DType::kFloat64), got = on_device(p, dtype);
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
TEST(CudaAttention, EqualScoresAverageTheValues) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    Problem p({1, 197, 1, 16});
    const Size& s = p.size;
    for (int64_t i = 0; i < s.t; ++i) {
      for (int64_t c = 0; c < s.d; ++c) p.qkv.data<double>()[s.at(i, 1, 0, c)] = 0.5;
    }
    Result want = on_host(p, DType::kFloat64);
    under_every_schedule([&] {
      Result got = on_device(p, dtype);
      double bound = error_bound(s, dtype, max_abs(doubles(want.lse)), 2);
      EXPECT_LE(relative_error(doubles(got.out), doubles(want.out)), bound);
      EXPECT_LE(relative_error(doubles(got.lse), doubles(want.lse)),
                error_bound(s, DType::kFloat32, 1, 0));
      return got.all();
    });
  }
}

// A NaN, or an infinity, in one place reaches exactly what it reaches on the CPU.
void expect_same_spread(const Size& s, int64_t token, int part, double value, DType dtype) {
  SCOPED_TRACE(cat(name(s, dtype), " token ", token, " part ", part, " value ", value));
  Problem p(s);
  int64_t channel = s.d - 1;
  (part == 3 ? p.dout.data<double>()[s.at(token, 0, channel)]
             : p.qkv.data<double>()[s.at(token, part, 0, channel)]) = value;
  Result want = on_host(p, DType::kFloat64), got = on_device(p, dtype);
  for (std::size_t k = 0; k < 3; ++k) {
    Doubles g = doubles(got.all()[k]), w = doubles(want.all()[k]);
    for (std::size_t i = 0; i < g.size(); ++i) {
      ASSERT_EQ(std::isnan(g[i]), std::isnan(w[i])) << "result " << k << ", element " << i;
      if (!std::isinf(w[i])) continue;
      ASSERT_EQ(g[i], w[i]) << "result " << k << ", element " << i;
    }
  }
}

TEST(CudaAttention, NanReachesWhatItReachesOnTheCpu) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (int part = 0; part < 4; ++part) {
      expect_same_spread({1, 37, 2, 7}, 17, part, NAN, dtype);
      expect_same_spread({1, 70, 1, 24}, 69, part, NAN, dtype);
      expect_same_spread({1, 66, 1, 48}, 0, part, NAN, dtype);
    }
  }
}

TEST(CudaAttention, NanAmongTheWeightsReachesItsHead) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (int64_t k = 0; k < 3; ++k) {
      Problem p = Problem::on_grid(1, 5, 7, 2, 16);
      p.pos_weight.data<double>()[k] = NAN;
      std::vector<Tensor> want = on_host(p, DType::kFloat64).all(), got = on_device(p, dtype).all();
      for (std::size_t i = 0; i < want.size(); ++i) {
        Doubles g = doubles(got[i]), w = doubles(want[i]);
        for (std::size_t j = 0; j < g.size(); ++j) ASSERT_EQ(std::isnan(g[j]), std::isnan(w[j]));
      }
    }
  }
}

TEST(CudaAttention, InfinityIsNotHidden) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (int part : {2, 3}) expect_same_spread({1, 70, 1, 24}, 69, part, INFINITY, dtype);
  }
}

// Tensors that start anywhere and rows that end anywhere.
TEST(CudaAttention, UnalignedTensors) {
  DTN_SKIP_WITHOUT_DEVICE();
  Size s{1, 67, 2, 16};
  Problem p(s);
  Result want = on_host(p, DType::kFloat64);
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
      Result got{unshifted(out, s.out()), lse.device(), unshifted(dqkv, s.qkv()), {}};
      expect_close_to(got, want, p, dtype);
      return got.all();
    });
  }
}

TEST(CudaAttention, MoreImagesThanAGridHas) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Problem p = Problem::on_grid(5, 3, 3, 2, 8);
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    const Result at_once = on_device(p, dtype);
    attention::images_of_grid = 2;
    const Result in_turn = on_device(p, dtype);
    attention::images_of_grid = 65535;
    for (std::size_t i = 0; i < at_once.all().size(); ++i) {
      EXPECT_TRUE(same_bits(in_turn.all()[i], at_once.all()[i])) << i;
    }
  }
}

TEST(CudaAttention, NothingToDo) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const Size& s : {Size{0, 5, 2, 8}, Size{2, 0, 2, 8}, Size{2, 5, 0, 8}, Size{2, 5, 2, 0}}) {
      run(cuda_queue(), AttentionForward{dtype, s.b, s.t, s.h, s.d, 1, nullptr, nullptr, nullptr});
      run(cuda_queue(), AttentionBackward{dtype, s.b, s.t, s.h, s.d, 1, nullptr, nullptr, nullptr,
                                          nullptr, nullptr});
    }
  }
}

TEST(CudaAttention, RefusesWhatItDoesNotCompute) {
  DTN_SKIP_WITHOUT_DEVICE();
  AttentionForward forward{DType::kFloat64, 1, 1, 1, 8, 1, nullptr, nullptr, nullptr};
  EXPECT_THROW(run(cuda_queue(), forward), Error);
  forward.dtype = DType::kFloat32, forward.head_dim = 257;
  EXPECT_THROW(run(cuda_queue(), forward), Error);
}

}  // namespace
}  // namespace dtn::test
