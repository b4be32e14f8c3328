// Compares the tensor-core path of DTN with the dense formulas in float64. The tests assert that
// this path takes each shape, so that no case runs on the other path.
#include <algorithm>

#include "cuda/kernels/dtn_warps.h"
#include "cuda/twin.h"
#include "dense_dtn.h"
#include "dtn/core/check.h"
#include "kernels/dtn/dtn_norm_cuda.h"

namespace dtn::test {
namespace {

struct Case {
  int grid_h, grid_w, channels, heads, batch = 1;
  DType dtype = DType::kFloat32;
  double mean = 0, spread = 1;  // of x
  double lambda_mean = -1;      // below 0: another value per head
  double lambda_var = -1;
  double gamma = 1;       // factor on the weights
  bool residual = false;  // dx_add, in the memory of dx
  bool position_gradient = true;
  bool constant = false;  // the first token and, in the first image, the last channel

  std::string name() const {
    return cat(name_of(dtype), " ", batch, " x ", grid_h, " x ", grid_w, " x ", channels, ", ",
               heads, " heads, mean ", mean, ", spread ", spread);
  }
  std::int64_t tokens() const { return std::int64_t{grid_h} * grid_w; }
  std::int64_t image() const { return tokens() * channels; }
};

// Inputs in both memories and in float64, and the expected results.
class Problem {
 public:
  explicit Problem(const Case& c)
      : case_(c),
        x_(make_x(c)),
        dy_(random_twin({c.batch, c.tokens(), c.channels}, c.dtype, 2)),
        weight_(random_twin({c.channels}, DType::kFloat32, 3, 0.5 * c.gamma, c.gamma)),
        bias_(random_twin({c.channels}, DType::kFloat32, 4)),
        lambda_mean_(shares(c.lambda_mean, 5)),
        lambda_var_(shares(c.lambda_var, 6)),
        pos_weight_(positions()),
        dense_{c.batch,
               c.grid_h,
               c.grid_w,
               c.channels,
               c.heads,
               kEps,
               false,
               doubles(x_.host()),
               doubles(weight_.host()),
               doubles(bias_.host()),
               doubles(lambda_mean_.host()),
               doubles(lambda_var_.host()),
               doubles(pos_weight_.host())} {}

  const DenseDtn& dense() const { return dense_; }
  // Sets one element of x to NaN.
  void spoil(int b, int t, int c) {
    Doubles x = dense_.x;
    x[dense_.at(b, t, c)] = NAN;
    x_ = Twin(from_doubles(x, x_.host().shape(), case_.dtype));
  }
  Doubles output_gradient() const { return doubles(dy_.host()); }

  struct Forward {
    Twin y, mean, var, pivot;
  };
  DtnNormArguments shared_arguments(const Forward& f) const {
    const Case& c = case_;
    return {.dtype = c.dtype,
            .batch = c.batch,
            .grid_h = c.grid_h,
            .grid_w = c.grid_w,
            .channels = c.channels,
            .heads = c.heads,
            .eps = kEps,
            .x = x_.at(kOnDevice),
            .weight = weight_.at(kOnDevice),
            .lambda_mean = lambda_mean_.at(kOnDevice),
            .lambda_var = lambda_var_.at(kOnDevice),
            .pos_weight = pos_weight_.at(kOnDevice),
            .token_mean = f.mean.at(kOnDevice),
            .token_var = f.var.at(kOnDevice),
            .pivot = f.pivot.at(kOnDevice)};
  }
  Forward forward() const {
    const Case& c = case_;
    Forward f{Twin::output({c.batch, c.tokens(), c.channels}, c.dtype),
              Twin::output({c.batch, c.tokens()}, DType::kFloat32),
              Twin::output({c.batch, c.tokens()}, DType::kFloat32),
              Twin::output({c.batch, c.channels}, DType::kFloat32)};
    const DtnNormForward args{shared_arguments(f), bias_.at(kOnDevice), f.y.at(kOnDevice)};
    EXPECT_TRUE(tensor_cores_take(args));
    run(cuda_queue(), args);
    return f;
  }

  struct Backward {
    Twin x, weight, bias, lambda_mean, lambda_var, pos_weight;

    std::vector<Tensor> results() const {
      std::vector<Tensor> all;
      for (const Twin* t : {&x, &weight, &bias, &lambda_mean, &lambda_var, &pos_weight}) {
        if (t->host().defined()) all.push_back(t->device());
      }
      return all;
    }
  };
  Backward outputs() const {
    const Case& c = case_;
    const Shape image{c.batch, c.tokens(), c.channels};
    return {c.residual ? random_twin(image, c.dtype, 10) : Twin::output(image, c.dtype),
            Twin::accumulated({c.channels}, DType::kFloat32, 11),
            Twin::accumulated({c.channels}, DType::kFloat32, 12),
            Twin::accumulated({c.heads}, DType::kFloat32, 13),
            Twin::accumulated({c.heads}, DType::kFloat32, 14),
            c.position_gradient ? Twin::accumulated({c.heads, 3}, DType::kFloat32, 15) : Twin()};
  }
  DtnNormBackward arguments(const Forward& f, const Backward& out) const {
    DtnNormBackward args{shared_arguments(f), dy_.at(kOnDevice)};
    if (case_.residual) args.dx_add = out.x.at(kOnDevice);
    args.dx = out.x.at(kOnDevice);
    args.dweight = out.weight.at(kOnDevice);
    args.dbias = out.bias.at(kOnDevice);
    args.dlambda_mean = out.lambda_mean.at(kOnDevice);
    args.dlambda_var = out.lambda_var.at(kOnDevice);
    args.dpos_weight = out.pos_weight.at(kOnDevice);
    return args;
  }
  void run_backward(const DtnNormBackward& args) const {
    EXPECT_TRUE(tensor_cores_take(args));
    run(cuda_queue(), args);
  }

  void check_forward(const Forward& f) const;
  void check_backward(const Backward& out) const;

 private:
  static constexpr double kEps = 1e-5;

  static Twin make_x(const Case& c) {
    Tensor x = random_tensor({c.batch, c.tokens(), c.channels}, 1, c.spread, c.mean);
    if (c.constant) {
      auto* v = x.data<double>();
      for (int k = 0; k < c.channels; ++k) v[k] = c.mean + 0.5;
      for (int t = 0; t < c.tokens(); ++t) v[(t + 1) * c.channels - 1] = c.mean - 0.25;
    }
    return Twin(as(x, c.dtype));
  }
  Twin shares(double value, std::uint32_t stream) const {
    if (value < 0) return random_twin({case_.heads}, DType::kFloat32, stream, 0.4, 0.5);
    return Twin(as(random_tensor({case_.heads}, stream, 0, value), DType::kFloat32));
  }
  // The first head attends to near tokens, as at the start of training. The other heads attend
  // further away, but to more than one token: if the local variance is only rounding, so is y.
  Twin positions() const {
    Tensor a = random_tensor({case_.heads, 3}, 7, 0.5);
    auto* v = a.data<double>();
    for (int h = 0; h < case_.heads; ++h) v[3 * h + 2] = h == 0 ? -1 : -std::abs(v[3 * h + 2]);
    return Twin(as(a, DType::kFloat32));
  }

  Case case_;
  Twin x_, dy_, weight_, bias_, lambda_mean_, lambda_var_, pos_weight_;
  DenseDtn dense_;
};

// The error bound of y includes 2^-8 for the one rounding to bfloat16.
void Problem::check_forward(const Forward& f) const {
  const double bound = 1e-5 + (case_.dtype == DType::kBFloat16 ? 0x1p-8 : 0);
  expect_close("dtn_tensor_forward", case_.name(), f.y.device(), dense_.forward(), bound);
}

// The bound for float32 is 1e-5 everywhere. For bfloat16, dx is rounded twice and goes through
// products with 11 bits. Moments are accurate to 2^-17. Local variances may be as small as 1/64 of
// the squares that they are differences of, so they are accurate to 2^-11. The factors of dP (dm,
// P, x and the products P x) are rounded to 8 bits, with an error of 2^-9 each. The terms of these
// sums have either sign, and the sums of the two moments cancel in addition. The sums may therefore
// be several times smaller than the terms.
void Problem::check_backward(const Backward& out) const {
  const DenseDtn::Gradients want = dense_.backward(output_gradient());
  const bool narrow = case_.dtype == DType::kBFloat16;
  auto check = [&](const char* what, const Twin& got, const Doubles& gradient, double bound,
                   double size = 1e-30) {
    if (!got.host().defined()) return;
    Doubles sum = doubles(got.host());
    const bool adds = std::isfinite(sum[0]);  // otherwise the output was poisoned
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = gradient[i] + (adds ? sum[i] : 0);
    expect_close("dtn_tensor_backward", cat(what, " ", case_.name()), got.device(), sum, bound,
                 std::max(max_abs(gradient), size));
  };
  check("dx", out.x, want.x, narrow ? 2 * 0x1p-8 + 0x1p-10 : 1e-5);
  check("dweight", out.weight, want.weight, narrow ? 0x1p-11 : 1e-5);
  check("dbias", out.bias, want.bias, 1e-5);
  check("dlambda_mean", out.lambda_mean, want.lambda_mean, narrow ? 0x1p-11 : 1e-5);
  check("dlambda_var", out.lambda_var, want.lambda_var, narrow ? 0x1p-11 : 1e-5);
  // Products of three bfloat16 numbers (one of them P) whose sum nearly cancels. Each channel of a
  // head adds 16 products to an element of dP for each of the two moments.
  const std::int64_t products = std::int64_t{2} * 16 * (case_.channels / case_.heads);
  check("dpos_weight", out.pos_weight, want.pos_weight,
        (narrow ? 4 * 0x1p-8 : 1e-5) + truncation_bound(case_.dtype, products),
        narrow ? dense_.position_terms(output_gradient()) : 1e-30);
}

// Returns the results, for comparison bit by bit.
std::vector<Tensor> check_both(const Case& c) {
  SCOPED_TRACE(c.name());
  const Problem problem(c);
  const Problem::Forward f = problem.forward();
  problem.check_forward(f);
  const Problem::Backward out = problem.outputs();
  problem.run_backward(problem.arguments(f, out));
  problem.check_backward(out);
  std::vector<Tensor> results = out.results();
  results.push_back(f.y.device());
  return results;
}

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

TEST(CudaDtnTensor, Shapes) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (Case c : {
             Case{14, 14, 48, 2, 2},  // D = 24
             Case{14, 14, 144, 3},    // D = 48: slices of a head go to several warps
             Case{16, 16, 64, 1},     // no padding
             Case{7, 5, 48, 1, 3},    //
             Case{1, 13, 16, 2, 2},   // a sequence of a prime length
             Case{14, 1, 8, 1},       // a single slice: warps without work
             Case{3, 4, 272, 34}, Case{3, 2, 520, 65},  // warps with several heads
             Case{2, 3, 1024, 1},                       // maximum number of channels
             Case{1, 1, 24, 3, 2},                      // each token is an image
         }) {
      c.dtype = dtype;
      check_both(c);
    }
  }
}

TEST(CudaDtnTensor, SizesOfModels) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (Case c : {Case{14, 14, 192, 4}, Case{14, 14, 432, 9}, Case{14, 14, 768, 12},
                 Case{16, 16, 1024, 16}}) {
    c.dtype = DType::kBFloat16;
    check_both(c);
  }
}

bool have_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return a.size() == b.size() && std::ranges::equal(a, b, same_bits);
}

#ifdef DTN_CUDA_EMULATED
// Compute capability 8.6, 8.9 and 12.0: slices are staged in one buffer instead of two, with the
// same bits.
TEST(CudaDtnTensor, LittleSharedMemoryGivesSameBits) {
  for (DType dtype : kTypes) {
    for (Case c : {Case{14, 14, 432, 9}, Case{16, 16, 1024, 16}, Case{14, 1, 8, 1}}) {
      c.dtype = dtype;
      c.residual = c.channels == 432;
      const std::vector<Tensor> two_buffers = check_both(c);
      const emu::ScopedDeviceModel small(with_shared_kib(99));
      EXPECT_TRUE(have_same_bits(check_both(c), two_buffers));
    }
  }
  const emu::ScopedDeviceModel small(with_shared_kib(99));
  Case c{5, 9, 144, 6, 2};
  c.dtype = DType::kBFloat16;
  under_every_schedule([&] { return check_both(c); });
  const ScopedBackwardWarps twelve(12);  // which do not fit
  const std::vector<Tensor> with_twelve = check_both(c);
  set_dtn_backward_warps(8);
  EXPECT_TRUE(have_same_bits(with_twelve, check_both(c)));
}
#endif

// Twelve warps sum the gradients of token statistics in another order than eight. Equal bits would
// mean that eight warps have run.
TEST(CudaDtnTensor, TwelveWarps) {
  DTN_SKIP_WITHOUT_DEVICE();
#ifdef DTN_CUDA_EMULATED
  const emu::ScopedDeviceModel sm_80(with_shared_kib(163));
#endif
  for (Case c : {Case{14, 14, 432, 9, 2}, Case{14, 14, 384, 8}, Case{14, 14, 768, 12},
                 Case{16, 16, 1024, 16}}) {
    c.dtype = DType::kBFloat16;
    const std::vector<Tensor> with_eight = check_both(c);
    const ScopedBackwardWarps twelve(12);
    const std::vector<Tensor> with_twelve = check_both(c);
#ifdef DTN_CUDA_EMULATED
    EXPECT_FALSE(have_same_bits(with_twelve, with_eight));  // a small card has no room for 12
    const emu::ScopedDeviceModel sm_90(with_shared_kib(227));
    EXPECT_TRUE(have_same_bits(check_both(c), with_twelve));
#endif
  }
}

TEST(CudaDtnTensor, TwelveWarpsOnSmallGrids) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ScopedBackwardWarps twelve(12);
  for (Case c :
       {Case{7, 5, 48, 1, 3}, Case{1, 13, 16, 2, 2}, Case{14, 1, 8, 1}, Case{3, 4, 272, 34},
        Case{3, 2, 520, 65}, Case{2, 3, 1024, 1}, Case{1, 1, 24, 3, 2}}) {
    c.dtype = DType::kBFloat16;
    c.residual = c.grid_h == 3;
    c.position_gradient = c.grid_w != 2;
    check_both(c);
  }
}

// float32 has eight warps whatever is asked for: twelve would not have the registers.
TEST(CudaDtnTensor, TwelveWarpsRequireBfloat16) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Case c{14, 14, 432, 9};
  const std::vector<Tensor> want = check_both(c);
  const ScopedBackwardWarps twelve(12);
  EXPECT_TRUE(have_same_bits(check_both(c), want));
}

TEST(CudaDtnTensor, TwelveWarpsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  const ScopedBackwardWarps twelve(12);
  for (Case c : {Case{14, 14, 24, 1, 2}, Case{5, 9, 144, 6, 2}}) {
    c.dtype = DType::kBFloat16;
    for (bool residual : {false, true}) {
      c.residual = residual;
      under_every_schedule([&] { return check_both(c); });
    }
  }
}

TEST(CudaDtnTensor, EnvironmentSetsWarps) {
  EXPECT_EQ(parse_dtn_warps(nullptr), 8);
  EXPECT_EQ(parse_dtn_warps(""), 8);
  EXPECT_EQ(parse_dtn_warps("8"), 8);
  EXPECT_EQ(parse_dtn_warps("12"), 12);
  for (const char* text : {"4", "16", "012", "12 ", "twelve"}) {
    try {
      parse_dtn_warps(text);
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(std::string(error.what()),
                cat("DTN_CUDA_DTN_WARPS is \"", text, "\"; set it to 8 or 12"));
    }
  }
}

TEST(CudaDtnTensor, Schedules) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (Case c : {Case{14, 14, 24, 1, 2}, Case{5, 9, 144, 6, 2}}) {
      c.dtype = dtype;
      under_every_schedule([&] { return check_both(c); });
    }
  }
}

TEST(CudaDtnTensor, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (double share : {0.0, 0.4, 1.0}) {
    Case c{14, 14, 48, 2};
    c.mean = 1000;
    c.lambda_mean = c.lambda_var = share;
    check_both(c);
  }
  // bfloat16 holds only multiples of 4 in this range.
  Case c{14, 14, 48, 2};
  c.dtype = DType::kBFloat16;
  c.mean = 1000;
  c.spread = 40;
  check_both(c);
}

TEST(CudaDtnTensor, LambdaZeroAndOne) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (double of_mean : {0.0, 1.0}) {
      for (double of_var : {0.0, 1.0}) {
        Case c{6, 7, 32, 2};
        c.dtype = dtype;
        c.lambda_mean = of_mean;
        c.lambda_var = of_var;
        check_both(c);
      }
    }
  }
}

TEST(CudaDtnTensor, ConstantTokensAndChannels) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (double of_var : {0.0, 0.5, 1.0}) {
      Case c{14, 3, 48, 2, 2};
      c.dtype = dtype;
      c.constant = true;
      c.lambda_var = of_var;
      check_both(c);
    }
  }
}

TEST(CudaDtnTensor, ZeroWeights) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Case c{5, 5, 24, 1};
    c.dtype = dtype;
    c.gamma = 0;
    check_both(c);
  }
}

TEST(CudaDtnTensor, ResidualGradient) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Case c{14, 14, 48, 2, 2};
    c.dtype = dtype;
    c.residual = true;
    const std::vector<Tensor> in_place = check_both(c);
    // The same, with dx in separate memory.
    const Problem problem(c);
    const Problem::Forward f = problem.forward();
    const Problem::Backward out = problem.outputs();
    Twin apart = Twin::output(out.x.host().shape(), dtype);
    DtnNormBackward args = problem.arguments(f, out);
    args.dx = apart.at(kOnDevice);
    problem.run_backward(args);
    EXPECT_TRUE(same_bits(apart.device(), in_place[0]));
  }
}

// Null outputs are skipped, and the other outputs keep their bits.
TEST(CudaDtnTensor, NullOutputs) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Case c{7, 5, 48, 2, 2};
    c.dtype = dtype;
    const Problem problem(c);
    const Problem::Forward f = problem.forward();
    const Problem::Backward all = problem.outputs();
    problem.run_backward(problem.arguments(f, all));
    const std::vector<Tensor> want = all.results();
    for (std::size_t missing = 0; missing < want.size(); ++missing) {
      const Problem::Backward out = problem.outputs();
      const std::vector<Tensor> before = out.results();
      DtnNormBackward args = problem.arguments(f, out);
      void** outputs[] = {&args.dx,           &args.dweight,     &args.dbias,
                          &args.dlambda_mean, &args.dlambda_var, &args.dpos_weight};
      *outputs[missing] = nullptr;
      problem.run_backward(args);
      const std::vector<Tensor> got = out.results();
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i], i == missing ? before[i] : want[i])) << missing << " " << i;
      }
    }
  }
}

// The statistics of each path are valid for the other path.
TEST(CudaDtnTensor, AcceptsStatisticsOfPlainPath) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Case c{14, 14, 48, 2, 2};
    c.dtype = dtype;
    c.mean = dtype == DType::kFloat32 ? 1000 : 4;
    const Problem problem(c);
    const Problem::Forward own = problem.forward();
    force_plain_dtn(true);
    const Problem::Forward plain = problem.forward();
    force_plain_dtn(false);
    const double bound = rounding_bound(DType::kFloat32, c.tokens());
    expect_close("dtn_tensor_forward", "token_mean", own.mean.device(),
                 doubles(plain.mean.device()), bound, c.spread);
    expect_close("dtn_tensor_forward", "token_var", own.var.device(), doubles(plain.var.device()),
                 bound);
    expect_close("dtn_tensor_forward", "pivot", own.pivot.device(), doubles(plain.pivot.device()),
                 bound);
    const Problem::Backward out = problem.outputs();
    problem.run_backward(problem.arguments(plain, out));
    problem.check_backward(out);
  }
}

// A NaN affects its channel and its token in its image, as on the host, and nothing else.
TEST(CudaDtnTensor, NanPropagation) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    Case c{5, 4, 32, 2, 2};
    c.dtype = dtype;
    Problem problem(c);
    problem.spoil(1, 7, 19);
    const Tensor y = problem.forward().y.device();
    for (int b = 0; b < c.batch; ++b) {
      for (int t = 0; t < c.tokens(); ++t) {
        for (int k = 0; k < c.channels; ++k) {
          const bool reached = b == 1 && (t == 7 || k == 19);
          const auto at = static_cast<std::int64_t>(problem.dense().at(b, t, k));
          ASSERT_EQ(std::isnan(element(y, at)), reached) << b << " " << t << " " << k;
        }
      }
    }
  }
}

TEST(CudaDtnTensor, RejectsUnsupportedArguments) {
  alignas(16) static char aligned[32];
  DtnNormForward args{{.dtype = DType::kBFloat16,
                       .batch = 1,
                       .grid_h = 14,
                       .grid_w = 14,
                       .channels = 48,
                       .heads = 2,
                       .eps = 1e-5,
                       .x = aligned,
                       .weight = aligned,
                       .lambda_mean = aligned,
                       .lambda_var = aligned,
                       .pos_weight = aligned,
                       .token_mean = aligned,
                       .token_var = aligned,
                       .pivot = aligned},
                      aligned,
                      aligned};
  EXPECT_TRUE(tensor_cores_take(args));
  auto leaves = [&](auto change) {
    DtnNormForward changed = args;
    change(changed);
    return !tensor_cores_take(changed);
  };
  EXPECT_TRUE(leaves([](auto& a) { a.grid_h = 17; }));
  EXPECT_TRUE(leaves([](auto& a) { a.grid_w = 17; }));
  EXPECT_TRUE(leaves([](auto& a) { a.heads = 12; }));
  EXPECT_TRUE(leaves([](auto& a) { a.channels = 1040; }));
  EXPECT_TRUE(leaves([](auto& a) { a.variant = DtnVariant::kOfficial; }));
  EXPECT_TRUE(leaves([](auto& a) { a.dtype = DType::kFloat64; }));
  EXPECT_TRUE(leaves([](auto& a) { a.x = aligned + 2; }));
  EXPECT_TRUE(leaves([](auto& a) { a.y = aligned + 8; }));
  EXPECT_TRUE(leaves([](auto& a) { a.eps = 0; }));
}

}  // namespace
}  // namespace dtn::test
