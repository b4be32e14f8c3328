#include "kernels/conv/winograd.h"

#include "convolution_cases.h"
#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(WinogradForward)
DTN_RUN_ON_EACH_ISA(WinogradBackwardInput)
DTN_RUN_ON_EACH_ISA(WinogradBackwardWeight)

namespace dtn::test {
namespace {

std::vector<ConvolutionCase> winograd_cases() {
  const DType f = DType::kFloat32;
  return {
      {"whole tiles", {f, window_of(8, 12, 3, 3, 1, 1, 1, 1), 2, 16, 24}},
      {"cut tiles", {f, window_of(13, 10, 3, 3, 1, 1, 1, 1), 3, 8, 40}},
      {"without padding", {f, window_of(11, 14, 3, 3, 1, 1, 0, 0), 1, 24, 8}},
      {"wide padding", {f, window_of(9, 10, 3, 3, 1, 1, 2, 2), 2, 8, 16}},
      {"uneven padding", {f, window_of(9, 12, 3, 3, 1, 1, 2, 0), 1, 12, 9}},
      {"odd channels", {f, window_of(12, 12, 3, 3, 1, 1, 1, 1), 1, 19, 35}},
      {"one channel", {f, window_of(16, 9, 3, 3, 1, 1, 1, 1), 2, 1, 33}},
      {"to one channel", {f, window_of(16, 9, 3, 3, 1, 1, 1, 1), 2, 33, 1}},
      {"one tile", {f, window_of(3, 2, 3, 3, 1, 1, 1, 1), 1, 8, 8}},
      {"many tiles", {f, window_of(33, 38, 3, 3, 1, 1, 1, 1), 2, 10, 8}},
      {"large blocks", {f, window_of(16, 12, 3, 3, 1, 1, 1, 1), 17, 128, 128}},
  };
}

struct Results {
  Tensor y, dx, dweight;

  bool operator==(const Results& o) const {
    return same_bits(y, o.y) && same_bits(dx, o.dx) && same_bits(dweight, o.dweight);
  }
};

// dweight is added to ones.
Results run_winograd(const ConvolutionValues& v, ConvolutionShape s, DType dtype, Isa isa) {
  s.dtype = dtype;
  Results r{poison(v.dy.shape(), dtype), poison(v.x.shape(), dtype),
            Tensor::full(v.weight.shape(), dtype, 1)};
  const Tensor x = as(v.x, dtype), weight = as(v.weight, dtype), bias = as(v.bias, dtype);
  const Tensor dy = as(v.dy, dtype);
  run_on(isa, WinogradForward{{s, x.raw(), weight.raw(), bias.raw(), r.y.raw()}});
  run_on(isa, WinogradBackwardInput{{s, dy.raw(), weight.raw(), r.dx.raw()}});
  run_on(isa, WinogradBackwardWeight{{s, x.raw(), dy.raw(), r.dweight.raw(), nullptr}});
  return r;
}

// Allows the error of a direct sum of `terms` several times over: the transforms enlarge it.
void expect_near(const Tensor& got, const Doubles& want, DType dtype, std::int64_t terms,
                 const char* what) {
  constexpr double kGrowth = 8;
  const double bound = kGrowth * unit_roundoff(dtype) * std::sqrt(static_cast<double>(terms));
  EXPECT_GT(max_abs(want), 0) << what << ": a test of zeros";
  EXPECT_LE(max_abs_difference(doubles(got), want), bound * max_abs(want)) << what;
}

TEST(Winograd, MatchesFormulaOnEveryInstructionSet) {
  for (const ConvolutionCase& c : winograd_cases()) {
    const ConvolutionValues v(c.shape);
    Doubles dweight = v.dweight;
    for (double& d : dweight) d += 1;
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
      for (Isa isa : isas()) {
        SCOPED_TRACE(cat(c.name, ", ", name_of(dtype), ", ", name_of(isa)));
        Threads one(1);
        const Results got = run_winograd(v, c.shape, dtype, isa);
        expect_near(got.y, v.y, dtype, terms_of_y(c.shape), "y");
        expect_near(got.dx, v.dx, dtype, terms_of_dx(c.shape), "dx");
        expect_near(got.dweight, dweight, dtype, terms_of_dweight(c.shape), "dweight");
        for (int threads : kThreadCounts) {
          Threads several(threads);
          EXPECT_TRUE(run_winograd(v, c.shape, dtype, isa) == got) << threads << " threads";
        }
      }
    }
  }
}

// Rows [begin, begin + 1) of the first dimension.
Tensor image_of(const Tensor& t, std::int64_t n) { return t.slice(n, n + 1); }

TEST(Winograd, ImagesDoNotDependOnTheBatch) {
  const ConvolutionShape s{DType::kFloat32, window_of(14, 17, 3, 3, 1, 1, 1, 1), 5, 20, 40};
  const ConvolutionValues v(s);
  const Tensor x = as(v.x, s.dtype), weight = as(v.weight, s.dtype), dy = as(v.dy, s.dtype);
  Tensor y = Tensor::empty(v.dy.shape(), s.dtype), dx = Tensor::empty(v.x.shape(), s.dtype);
  run(cpu_queue(), WinogradForward{{s, x.raw(), weight.raw(), nullptr, y.raw()}});
  run(cpu_queue(), WinogradBackwardInput{{s, dy.raw(), weight.raw(), dx.raw()}});
  ConvolutionShape alone = s;
  alone.batch = 1;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    Tensor one_y = Tensor::empty(image_of(y, n).shape(), s.dtype);
    Tensor one_dx = Tensor::empty(image_of(dx, n).shape(), s.dtype);
    run(cpu_queue(),
        WinogradForward{{alone, image_of(x, n).raw(), weight.raw(), nullptr, one_y.raw()}});
    run(cpu_queue(),
        WinogradBackwardInput{{alone, image_of(dy, n).raw(), weight.raw(), one_dx.raw()}});
    EXPECT_TRUE(same_bits(one_y, image_of(y, n))) << "image " << n;
    EXPECT_TRUE(same_bits(one_dx, image_of(dx, n))) << "image " << n;
  }
}

TEST(Winograd, TakesShapesThatItSuits) {
  const ConvolutionShape good{DType::kFloat32, window_of(12, 12, 3, 3, 1, 1, 1, 1), 1, 16, 16};
  EXPECT_TRUE(suits_winograd(good) && suits_winograd_weight(good));
  auto changed = [&](auto change) {
    ConvolutionShape s = good;
    change(s);
    return suits_winograd(s);
  };
  EXPECT_TRUE(changed([](auto& s) { s.dtype = DType::kFloat64; }));
  EXPECT_FALSE(changed([](auto& s) { s.dtype = DType::kBFloat16; }));
  EXPECT_FALSE(changed([](auto& s) { s.groups = 2; }));
  EXPECT_FALSE(changed([](auto& s) { s.window = window_of(12, 12, 3, 3, 2, 2, 1, 1); }));
  EXPECT_FALSE(changed([](auto& s) { s.window = window_of(12, 12, 5, 3, 1, 1, 2, 1); }));
  EXPECT_FALSE(changed([](auto& s) { s.window = window_of(12, 12, 3, 3, 1, 1, 3, 1); }));
  EXPECT_FALSE(changed([](auto& s) { s.window = window_of(8, 8, 3, 3, 1, 1, 1, 1); }));
  EXPECT_FALSE(changed([](auto& s) { s.channels = 1; }));
  for (std::int64_t batch : {2, 1000}) {
    EXPECT_TRUE(changed([&](auto& s) { s.batch = batch; }));
  }
  ConvolutionShape stem = good;
  stem.channels = 3;
  EXPECT_TRUE(suits_winograd(stem));
  EXPECT_FALSE(suits_winograd_weight(stem));
}

TEST(Winograd, AddsNothingForNoImages) {
  const ConvolutionShape s{DType::kFloat32, window_of(12, 12, 3, 3, 1, 1, 1, 1), 0, 16, 16};
  Tensor dweight = Tensor::full({16, 16, 3, 3}, s.dtype, 2);
  const Tensor before = dweight.clone();
  run(cpu_queue(), WinogradForward{{s, nullptr, before.raw(), nullptr, nullptr}});
  run(cpu_queue(), WinogradBackwardInput{{s, nullptr, before.raw(), nullptr}});
  run(cpu_queue(), WinogradBackwardWeight{{s, nullptr, nullptr, dweight.raw(), nullptr}});
  EXPECT_TRUE(same_bits(dweight, before));
}

}  // namespace
}  // namespace dtn::test
