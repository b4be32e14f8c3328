#include "kernels/conv/convolution.h"

#include "convolution_cases.h"
#include "cuda/twin.h"

namespace dtn::test {
namespace {

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// Inputs of a case on the device, `shift` elements after an aligned address.
struct Problem {
  const ConvolutionValues& values;
  ConvolutionShape shape;
  std::int64_t shift;
  Twin x, weight, bias, dy;

  Problem(const ConvolutionValues& v, ConvolutionShape s, DType dtype, std::int64_t shifted)
      : values(v), shape(s), shift(shifted) {
    shape.dtype = dtype;
    x = input(v.x), weight = input(v.weight), dy = input(v.dy);
    bias = Twin(as(v.bias, DType::kFloat32));
  }
  // Returns y, dx, dweight and dbias; the last two are added to ones.
  std::vector<Tensor> run_all() const {
    const Twin y = output(values.dy), dx = output(values.x);
    const Twin dweight(Tensor::full(values.weight.shape(), DType::kFloat32, 1));
    const Twin dbias(Tensor::full(values.bias.shape(), DType::kFloat32, 1));
    run(cuda_queue(), ConvolutionForward{shape, at(x), at(weight), bias.at(kOnDevice), at(y)});
    run(cuda_queue(), ConvolutionBackwardInput{shape, at(dy), at(weight), at(dx)});
    run(cuda_queue(), ConvolutionBackwardWeight{shape, at(x), at(dy), dweight.at(kOnDevice),
                                                dbias.at(kOnDevice)});
    return {unshifted(y), unshifted(dx), dweight.device(), dbias.device()};
  }

 private:
  Twin input(const Tensor& t) const {
    Doubles shifted(static_cast<std::size_t>(shift), 77.0);
    for (double v : doubles(t)) shifted.push_back(v);
    return Twin(from_doubles(shifted, {t.numel() + shift}, shape.dtype));
  }
  Twin output(const Tensor& t) const { return Twin::output({t.numel() + shift}, shape.dtype); }
  void* at(const Twin& t) const {
    return static_cast<std::byte*>(t.at(kOnDevice)) +
           static_cast<std::size_t>(shift) * size_of(shape.dtype);
  }
  Tensor unshifted(const Twin& t) const {
    const Tensor all = t.device();
    return all.slice(shift, all.numel()).clone();
  }
};

void check(const ConvolutionCase& c, const char* kernel) {
  const ConvolutionValues values(c.shape);
  auto plus_one = [](Doubles d) {
    for (double& x : d) x += 1;
    return d;
  };
  for (DType dtype : kTypes) {
    for (std::int64_t shift : {0, 1}) {
      const Problem problem(values, c.shape, dtype, shift);
      std::vector<Tensor> got;
      // Large cases test many tiles and long sums, and take seconds on the emulator.
      if (shift == 0 && c.shape.multiply_adds() < 1e5) {
        under_every_schedule([&] { return got = problem.run_all(); });
      } else {
        got = problem.run_all();
      }
      auto expect = [&](std::size_t i, const char* what, const Doubles& want, DType stored,
                        std::int64_t terms) {
        const double bound = rounding_bound(stored, terms, 4) + truncation_bound(dtype, terms);
        expect_close(kernel, cat(c.name, ", ", what), got[i], want, bound);
      };
      const ConvolutionShape& s = c.shape;
      expect(0, "y", values.y, dtype, terms_of_y(s));
      expect(1, "dx", values.dx, dtype, terms_of_dx(s));
      expect(2, "dweight", plus_one(values.dweight), DType::kFloat32, terms_of_dweight(s));
      expect(3, "dbias", plus_one(values.dbias), DType::kFloat32, terms_of_dweight(s));
    }
  }
}

TEST(CudaConvolution, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const ConvolutionCase& c : dense_cases()) {
    SCOPED_TRACE(c.name);
    check(c, "convolution");
  }
}

// Enough positions to be split among several blocks.
TEST(CudaConvolution, SumsWeightGradientOverBlocks) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t channels : {5, 8}) {
    check({"many positions",
           {DType::kFloat32, window_of(37, 31, 1, 3, 1, 1, 0, 1), 1, channels, 2 * channels}},
          "convolution");
  }
}

TEST(CudaConvolution, SkipsNullOutputsAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const std::vector<ConvolutionCase>& cases : {dense_cases(), depthwise_cases()}) {
    const ConvolutionShape s = cases[0].shape;
    const ConvolutionValues v(s);
    const Twin x(as(v.x, s.dtype)), w(as(v.weight, s.dtype)), dy(as(v.dy, s.dtype));
    const Twin y = Twin::output(v.dy.shape(), s.dtype);
    run(cuda_queue(),
        ConvolutionForward{s, x.at(kOnDevice), w.at(kOnDevice), nullptr, y.at(kOnDevice)});
    Doubles want = v.y;
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] -= element(v.bias, static_cast<std::int64_t>(i) % s.outputs);
    }
    expect_close("convolution", "without bias", y.device(), want,
                 rounding_bound(s.dtype, terms_of_y(s), 4));
    for (bool of_bias : {false, true}) {
      const Shape shape = of_bias ? v.bias.shape() : v.weight.shape();
      const Twin sums(Tensor::zeros(shape, DType::kFloat32));
      run(cuda_queue(), ConvolutionBackwardWeight{s, x.at(kOnDevice), dy.at(kOnDevice),
                                                  of_bias ? nullptr : sums.at(kOnDevice),
                                                  of_bias ? sums.at(kOnDevice) : nullptr});
      expect_close("convolution", of_bias ? "bias alone" : "kernel alone", sums.device(),
                   of_bias ? v.dbias : v.dweight, rounding_bound(s.dtype, s.positions(), 4));
    }
    ConvolutionShape none = s;
    none.batch = 0;
    run(cuda_queue(), ConvolutionForward{none, nullptr, w.at(kOnDevice), nullptr, nullptr});
    run(cuda_queue(), ConvolutionBackwardInput{none, nullptr, w.at(kOnDevice), nullptr});
    run(cuda_queue(), ConvolutionBackwardWeight{none, nullptr, nullptr, nullptr, nullptr});
    ConvolutionShape wide = s;
    wide.dtype = DType::kFloat64;
    EXPECT_THROW(run(cuda_queue(), ConvolutionForward{wide, nullptr, nullptr, nullptr, nullptr}),
                 Error);
  }
}

TEST(CudaDepthwiseTokens, MatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const ConvolutionCase& c : depthwise_cases()) {
    SCOPED_TRACE(c.name);
    check(c, "depthwise_tokens");
  }
}

}  // namespace
}  // namespace dtn::test
