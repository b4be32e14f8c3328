#include "kernels/norm/channel_norm.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

struct Sizes {
  std::int64_t sets, rows, channels, groups;
};

// Inputs and outputs of the kernels, on both sides. Activations begin `shift` elements into their
// memory. With shift 1 no vector load can read them.
struct Problem {
  DType dtype;
  Sizes n;
  std::int64_t shift = 0;
  bool of_sets = false;  // separate weight and bias per set
  bool unbiased = false, frozen = false, relu = false;
  std::int64_t total_rows = 0;
  Twin x, weight, bias, dy, add;
  Twin y, mean, rest, variance, sums, dx, dweight, dbias;

  Problem(DType d, const Sizes& sizes, double x_mean = 0, std::int64_t shifted = 0,
          bool gains_of_sets = false)
      : dtype(d), n(sizes), shift(shifted), of_sets(gains_of_sets) {
    x = random_twin(activation(), d, 1, 1.7, x_mean);
    weight = random_twin(gains(), DType::kFloat32, 2, 0.5, 1);
    bias = random_twin(gains(), DType::kFloat32, 3);
    dy = random_twin(activation(), d, 4);
    add = random_twin(activation(), d, 5);
    dweight = Twin::accumulated(gains(), DType::kFloat32, 6);
    dbias = Twin::accumulated(gains(), DType::kFloat32, 7);
    make_outputs();
  }

  // The same numbers, to be computed in float64.
  Problem in_float64() const {
    Problem p = *this;
    p.dtype = DType::kFloat64;
    for (Twin* t : {&p.x, &p.weight, &p.bias, &p.dy, &p.add, &p.dweight, &p.dbias}) {
      if (t->host().defined()) *t = Twin(as(t->host(), DType::kFloat64));
    }
    p.make_outputs();
    return p;
  }

  Shape activation() const { return {n.sets * n.rows * n.channels + shift}; }
  Shape gains() const { return {of_sets ? n.sets : 1, n.channels}; }
  void make_outputs() {
    DType acc = accumulator_of(dtype);
    for (Twin* t : {&y, &dx}) *t = Twin::output(activation(), dtype);
    for (Twin* t : {&mean, &rest, &variance}) *t = Twin::output({n.sets, n.groups}, acc);
    sums = Twin::output({n.sets, 2, n.channels}, acc);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }

  ChannelNormForward forward(Where w, ChannelNormPart part = ChannelNormPart::kWhole) const {
    ChannelNormForward a{};
    a.dtype = dtype;
    a.part = part;
    a.sets = n.sets;
    a.rows = n.rows;
    a.channels = n.channels;
    a.groups = n.groups;
    a.eps = 1e-5;
    a.unbiased = unbiased;
    a.x = at(x, w);
    a.weight = weight.at(w);
    a.bias = bias.at(w);
    a.parameter_stride = of_sets ? n.channels : 0;
    a.relu = relu;
    a.y = at(y, w);
    a.mean = mean.at(w);
    a.mean_rest = rest.at(w);
    a.variance = variance.at(w);
    return a;
  }
  ChannelNormBackward backward(Where w, ChannelNormPart part = ChannelNormPart::kWhole) const {
    ChannelNormBackward a{};
    a.dtype = dtype;
    a.part = part;
    a.sets = n.sets;
    a.rows = n.rows;
    a.channels = n.channels;
    a.groups = n.groups;
    a.eps = 1e-5;
    a.unbiased = unbiased;
    a.frozen = frozen;
    a.total_rows = total_rows;
    a.x = at(x, w);
    a.weight = weight.at(w);
    a.bias = bias.at(w);
    a.parameter_stride = of_sets ? n.channels : 0;
    a.relu = relu;
    a.mean = mean.at(w);
    a.mean_rest = rest.at(w);
    a.variance = variance.at(w);
    a.dy = at(dy, w);
    a.sums = sums.at(w);
    a.dx_add = at(add, w);
    a.dx = at(dx, w);
    a.dweight = dweight.at(w);
    a.dbias = dbias.at(w);
    return a;
  }

  std::vector<Tensor> results() const {
    std::vector<Tensor> r;
    for (const Twin* t : {&y, &mean, &rest, &variance, &sums, &dx, &dweight, &dbias}) {
      r.push_back(t->device());
    }
    return r;
  }
};

void run_whole(const Problem& p, Where w) {
  auto on = [&](const auto& args) {
    w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args);
  };
  on(p.forward(w));
  on(p.backward(w));
}

void run_in_parts(const Problem& p, Where w) {
  auto on = [&](const auto& args) {
    w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args);
  };
  for (ChannelNormPart part : {ChannelNormPart::kStatistics, ChannelNormPart::kApplication}) {
    on(p.forward(w, part));
  }
  for (ChannelNormPart part : {ChannelNormPart::kStatistics, ChannelNormPart::kApplication}) {
    on(p.backward(w, part));
  }
}

// Compares all results of one side with float64. Statistics sum over the values of a group, and
// parameter gradients sum over all rows. dx is a difference of terms of the size rstd dy weight.
// The error of the mean is relative to the standard deviation, however large the mean is.
void expect_results(const Problem& p, const Problem& exact, Where w) {
  const std::int64_t values = p.n.rows * (p.n.channels / p.n.groups);
  auto side = [&](const Twin& t) { return w == kOnDevice ? t.device() : t.host(); };
  auto expect = [&](const char* what, const Twin& got, const Twin& want, double bound,
                    double floor = 1e-30) {
    if (!want.host().defined()) return;
    std::string name = cat(what, " ", p.n.sets, " x ", p.n.rows, " x ", p.n.channels, " / ",
                           p.n.groups, p.shift ? " shifted" : "");
    if (w == kOnDevice) {
      expect_close("channel_norm", name, got.device(), doubles(want.host()), bound, floor);
    } else {
      EXPECT_LE(relative_error(doubles(got.host()), doubles(want.host()), floor), bound)
          << name << " on the host";
    }
  };
  constexpr DType kFloat = DType::kFloat32;
  const double stored = rounding_bound(p.dtype, values);
  double largest_root = 0, deviation = 0;
  for (double v : doubles(exact.variance.host())) {
    largest_root = std::max(largest_root, 1 / std::sqrt(v + 1e-5));
    deviation = std::max(deviation, std::sqrt(v));
  }
  expect("y", p.y, exact.y, stored);
  expect("variance", p.variance, exact.variance, rounding_bound(kFloat, values), 1e-30);
  expect("dx", p.dx, exact.dx, stored, 2 * largest_root);
  expect("sums", p.sums, exact.sums, rounding_bound(kFloat, values));
  const double of_rows = rounding_bound(kFloat, p.n.rows * p.n.sets + values);
  expect("dweight", p.dweight, exact.dweight, of_rows);
  expect("dbias", p.dbias, exact.dbias, of_rows);
  Doubles mean = doubles(side(p.mean)), rest = doubles(side(p.rest));
  const Doubles want = doubles(exact.mean.host()), want_rest = doubles(exact.rest.host());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    EXPECT_LE(std::abs((mean[i] - want[i]) + (rest[i] - want_rest[i])),
              rounding_bound(kFloat, values) * std::max(deviation, 1e-30))
        << "mean " << i;
  }
}

void check(Problem p, void (*run_parts)(const Problem&, Where) = run_whole) {
  SCOPED_TRACE(cat(name_of(p.dtype), " ", p.n.sets, " x ", p.n.rows, " x ", p.n.channels, " / ",
                   p.n.groups, p.shift ? " shifted" : ""));
  Problem exact = p.in_float64();
  run_whole(exact, kOnHost);
  run_parts(p, kOnHost);
  run_parts(p, kOnDevice);
  expect_results(p, exact, kOnHost);
  expect_results(p, exact, kOnDevice);
}

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// One block per tile of each set.
const Sizes kFused[] = {{96, 5, 8, 8}, {48, 9, 128, 8}, {100, 3, 21, 3}, {96, 37, 24, 1}};
// Chunks of rows; single channels and groups of channels; groups larger than a tile; odd ends.
const Sizes kCut[] = {{1, 197, 192, 192}, {2, 196, 48, 4},  {3, 35, 77, 7},   {1, 1, 24, 24},
                      {2, 5, 7, 1},       {1, 700, 40, 40}, {1, 70, 1100, 1}, {2, 131, 33, 33}};

TEST(CudaChannelNorm, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Sizes& n : kFused) {
      check(Problem(dtype, n));
      check(Problem(dtype, n, 0, 1, true));
    }
    for (const Sizes& n : kCut) {
      check(Problem(dtype, n));
      check(Problem(dtype, n, 0, 1, n.sets > 1));
    }
  }
}

TEST(CudaChannelNorm, SplitPassesMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Sizes& n : {kFused[1], kCut[0], kCut[1]}) {
      Problem p(dtype, n);
      p.unbiased = n.groups == n.channels;
      check(p, run_in_parts);
    }
  }
}

// A quarter of a batch; the sums are gathered over four processes.
TEST(CudaChannelNorm, ShareOfDistributedBatchMatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Sizes& n : {Sizes{1, 50, 40, 40}, Sizes{2, 9, 24, 3}}) {
    Problem p(DType::kFloat32, n);
    p.total_rows = 4 * n.rows;
    check(p, run_in_parts);
  }
}

TEST(CudaChannelNorm, NoParametersOrFrozenStatisticsMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Sizes& n : {kFused[0], kFused[1], kCut[1], kCut[7]}) {
      Problem bare(dtype, n);
      bare.weight = bare.bias = bare.dweight = bare.dbias = Twin();
      check(bare);
      Problem frozen(dtype, n);
      frozen.frozen = true;
      check(frozen);
    }
  }
}

// A rounding error at the kink of relu would be as large as the gradient.
void ignore_kinks(Problem& p) {
  p.relu = false;
  Problem exact = p.in_float64();
  run(cpu_queue(), exact.forward(kOnHost));
  p.relu = true;
  const Doubles y = doubles(exact.y.host());
  Tensor dy = as(p.dy.host(), DType::kFloat64).clone();
  for (std::int64_t i = 0; i < dy.numel(); ++i) {
    if (std::abs(y[static_cast<std::size_t>(i)]) < 1e-2) dy.data<double>()[i] = 0;
  }
  p.dy = Twin(as(dy, p.dtype));
}

TEST(CudaChannelNorm, ReluMatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Sizes& n : {kFused[0], kFused[3], kCut[0], kCut[1], kCut[6]}) {
      Problem p(dtype, n);
      ignore_kinks(p);
      check(p);
      check(p, run_in_parts);
      p.frozen = true;
      check(p);
    }
    Problem shifted(dtype, kCut[1], 0, 1, true);
    ignore_kinks(shifted);
    check(shifted);
  }
}

TEST(CudaChannelNorm, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Sizes& n : {kFused[0], kFused[1], kCut[0], kCut[1]}) check(Problem(dtype, n, 1e3));
  }
}

TEST(CudaChannelNorm, ZeroWeightAndConstantRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Sizes& n : {kFused[1], kCut[0], kCut[2]}) {
      Problem zero(dtype, n);
      zero.weight = Twin(as(Tensor::full(zero.gains(), DType::kFloat64, 0), DType::kFloat32));
      check(zero);
      Problem constant(dtype, n);
      constant.x = Twin(Tensor::full(constant.activation(), dtype, 3));
      check(constant);
    }
  }
}

// A single row has no spread: y is the bias, and the gradient is 0.
TEST(CudaChannelNorm, SingleRowGivesBiasAndZeroGradient) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Sizes& n : {Sizes{1, 1, 24, 24}, Sizes{96, 1, 8, 8}}) {
    Problem p(DType::kFloat32, n);
    ChannelNormBackward back = p.backward(kOnDevice);
    back.dx_add = nullptr;
    run(cuda_queue(), p.forward(kOnDevice));
    run(cuda_queue(), back);
    EXPECT_EQ(max_abs(doubles(p.dx.device())), 0);
    Doubles y = doubles(p.y.device()), bias = doubles(p.bias.host());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], bias[i % bias.size()]);
  }
}

TEST(CudaChannelNorm, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Sizes sizes[] = {{96, 5, 8, 8}, {48, 3, 72, 6}, {1, 200, 40, 40}, {2, 131, 33, 3}};
  for (const Sizes& n : sizes) {
    under_every_schedule([&] {
      Problem p(n.sets == 1 ? DType::kBFloat16 : DType::kFloat32, n);
      run_whole(p, kOnDevice);
      return p.results();
    });
  }
}

TEST(CudaChannelNorm, RunsInPlace) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (const Sizes& n : {kFused[1], kCut[1], kCut[7]}) {
      Problem apart(dtype, n), in_place(dtype, n);
      for (const Problem* p : {&apart, &in_place}) run(cuda_queue(), p->forward(kOnDevice));
      run(cuda_queue(), apart.backward(kOnDevice));
      ChannelNormBackward over_add = in_place.backward(kOnDevice);
      over_add.dx = const_cast<void*>(over_add.dx_add);
      run(cuda_queue(), over_add);
      EXPECT_TRUE(same_bits(in_place.add.device(), apart.dx.device()));
      EXPECT_TRUE(same_bits(in_place.dweight.device(), apart.dweight.device()));

      ChannelNormBackward without_add = apart.backward(kOnDevice);
      without_add.dx_add = nullptr;
      run(cuda_queue(), without_add);
      ChannelNormBackward over_dy = in_place.backward(kOnDevice);
      over_dy.dx_add = nullptr;
      over_dy.dx = const_cast<void*>(over_dy.dy);
      run(cuda_queue(), over_dy);
      EXPECT_TRUE(same_bits(in_place.dy.device(), apart.dx.device()));

      ChannelNormForward forward = in_place.forward(kOnDevice);
      forward.y = const_cast<void*>(forward.x);
      run(cuda_queue(), forward);
      EXPECT_TRUE(same_bits(in_place.x.device(), apart.y.device()));
    }
  }
}

TEST(CudaChannelNorm, NullOutputsAreSkipped) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const Sizes& n : {kFused[1], kCut[1]}) {
    Problem all(DType::kFloat32, n), some(DType::kFloat32, n);
    for (const Problem* p : {&all, &some}) run(cuda_queue(), p->forward(kOnDevice));
    run(cuda_queue(), all.backward(kOnDevice));
    ChannelNormBackward only_bias = some.backward(kOnDevice);
    only_bias.dx = only_bias.dweight = only_bias.sums = nullptr;
    run(cuda_queue(), only_bias);
    EXPECT_LE(relative_error(doubles(some.dbias.device()), doubles(all.dbias.device())),
              rounding_bound(DType::kFloat32, n.rows * n.sets));
    EXPECT_TRUE(same_bits(some.dweight.device(), some.dweight.host()));
    EXPECT_TRUE(same_bits(some.dx.device(), some.dx.host()));
    EXPECT_TRUE(same_bits(some.sums.device(), some.sums.host()));
    ChannelNormBackward only_dx = some.backward(kOnDevice);
    only_dx.dweight = only_dx.dbias = nullptr;
    run(cuda_queue(), only_dx);
    EXPECT_TRUE(same_bits(some.dx.device(), all.dx.device()));
    EXPECT_TRUE(same_bits(some.dweight.device(), some.dweight.host()));
  }
}

TEST(CudaChannelNorm, NaNAndInfinityStayInTheirGroup) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (const Sizes& n : {kFused[1], kCut[0], kCut[1]}) {
      Problem p(DType::kFloat32, n);
      Doubles x = doubles(p.x.host());
      const std::int64_t size = n.channels / n.groups, last_set = n.sets - 1;
      x[static_cast<std::size_t>((last_set * n.rows + n.rows / 2) * n.channels + size)] = bad;
      p.x = Twin(from_doubles(x, p.activation(), DType::kFloat32));
      run_whole(p, kOnDevice);
      for (const Twin* t : {&p.y, &p.dx}) {
        Doubles got = doubles(t->device());
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::int64_t at = static_cast<std::int64_t>(i);
          const bool hit = at / (n.rows * n.channels) == last_set && at % n.channels / size == 1;
          ASSERT_EQ(std::isnan(got[i]), hit) << i;
        }
      }
    }
  }
}

TEST(CudaChannelNorm, UpdatesRunningStatistics) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t rows : {1, 300}) {
    const std::int64_t channels = 300;
    Twin batch[3], next[2], exact[2];
    for (std::uint32_t i = 0; i < 3; ++i) {
      batch[i] = random_twin({channels}, DType::kFloat32, i + 1, 1, 2);
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      next[i] = Twin::accumulated({channels}, DType::kFloat32, i + 4);
      exact[i] = Twin(as(next[i].host(), DType::kFloat64));
    }
    auto move = [&](Where w) {
      return MoveRunningStatistics{DType::kFloat32, channels,       rows,           0.1,
                                   batch[0].at(w),  batch[1].at(w), batch[2].at(w), next[0].at(w),
                                   next[1].at(w)};
    };
    Twin wide[3];
    for (int i = 0; i < 3; ++i) wide[i] = Twin(as(batch[i].host(), DType::kFloat64));
    run(cpu_queue(),
        MoveRunningStatistics{DType::kFloat64, channels, rows, 0.1, wide[0].at(kOnHost),
                              wide[1].at(kOnHost), wide[2].at(kOnHost), exact[0].at(kOnHost),
                              exact[1].at(kOnHost)});
    run(cpu_queue(), move(kOnHost));
    run(cuda_queue(), move(kOnDevice));
    for (int i = 0; i < 2; ++i) {
      expect_close("move_running_statistics", i ? "variance" : "mean", next[i].device(),
                   doubles(exact[i].host()), rounding_bound(DType::kFloat32, 4));
      EXPECT_LE(relative_error(doubles(next[i].host()), doubles(exact[i].host())),
                rounding_bound(DType::kFloat32, 4));
    }
  }
}

TEST(CudaChannelNorm, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  ChannelNormForward empty{};
  empty.dtype = DType::kFloat32;
  empty.rows = 3;
  empty.channels = empty.groups = 192;
  run(cuda_queue(), empty);
  ChannelNormBackward empty_backward{};
  empty_backward.dtype = DType::kBFloat16;
  empty_backward.sets = 3;
  empty_backward.channels = empty_backward.groups = 192;
  run(cuda_queue(), empty_backward);
  Problem p(DType::kFloat32, {1, 2, 8, 8});
  ChannelNormForward wrong = p.forward(kOnDevice);
  wrong.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong), Error);
  ChannelNormBackward wrong_backward = p.backward(kOnDevice);
  wrong_backward.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong_backward), Error);
}

}  // namespace
}  // namespace dtn::test
