#include "kernels/norm/rms_norm.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

// Inputs and outputs of the kernels, on both sides. Activations begin `shift` elements into their
// memory. With shift 1 no vector load can read them.
struct Problem {
  DType dtype;
  RmsNormKind kind;
  std::int64_t rows, channels, shift = 0;
  Twin x, weight, dy, add, y, factor, dx, dweight;

  Problem(DType d, RmsNormKind k, std::int64_t r, std::int64_t c, double x_mean = 0,
          std::int64_t shifted = 0)
      : dtype(d), kind(k), rows(r), channels(c), shift(shifted) {
    x = random_twin(activation(), d, 1, 1.7, x_mean);
    weight = random_twin({c}, DType::kFloat32, 2, 0.5, 1);
    dy = random_twin(activation(), d, 3);
    add = random_twin(activation(), d, 4);
    dweight = Twin::accumulated({c}, DType::kFloat32, 5);
    make_outputs();
  }

  // The same numbers, to be computed in float64.
  Problem in_float64() const {
    Problem p = *this;
    p.dtype = DType::kFloat64;
    for (Twin* t : {&p.x, &p.weight, &p.dy, &p.add, &p.dweight}) {
      *t = Twin(as(t->host(), DType::kFloat64));
    }
    p.make_outputs();
    return p;
  }

  Shape activation() const { return {rows * channels + shift}; }
  void make_outputs() {
    for (Twin* t : {&y, &dx}) *t = Twin::output(activation(), dtype);
    factor = Twin::output({rows}, accumulator_of(dtype));
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }

  RmsNormArguments arguments(Where w) const {
    return {dtype, kind, rows, channels, 1e-5, at(x, w), weight.at(w)};
  }
  RmsNormForward forward(Where w) const { return {arguments(w), at(y, w), factor.at(w)}; }
  RmsNormBackward backward(Where w) const {
    return {arguments(w), factor.at(w), at(dy, w), at(add, w), at(dx, w), dweight.at(w)};
  }
  void run_on_device() const {
    run(cuda_queue(), forward(kOnDevice));
    run(cuda_queue(), backward(kOnDevice));
  }
  std::vector<Tensor> results() const {
    return {y.device(), factor.device(), dx.device(), dweight.device()};
  }
};

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};
const RmsNormKind kKinds[] = {RmsNormKind::kRms, RmsNormKind::kScale};

// Calls `body` for each type and kind.
void for_each_kind(const std::function<void(DType, RmsNormKind)>& body) {
  for (DType dtype : kTypes) {
    for (RmsNormKind kind : kKinds) {
      SCOPED_TRACE(cat(name_of(dtype), kind == RmsNormKind::kRms ? " rms" : " scale"));
      body(dtype, kind);
    }
  }
}

// Compares both kernels of the device and of the host with float64, within the same bounds. Sums
// over a row have `channels` terms. dx is a difference of terms of the size factor dy weight, and
// dweight of terms of the size dy xhat.
void check(const Problem& p) {
  SCOPED_TRACE(cat(p.rows, " x ", p.channels));
  const Problem exact = p.in_float64();
  for (const Problem* each : {&exact, &p}) {
    run(cpu_queue(), each->forward(kOnHost));
    run(cpu_queue(), each->backward(kOnHost));
  }
  p.run_on_device();
  constexpr DType kFloat = DType::kFloat32;
  const double stored = rounding_bound(p.dtype, p.channels);
  const double terms = 2 * max_abs(doubles(exact.factor.host()));
  auto near = [&](const char* what, const Twin& got, const Twin& want, double bound,
                  double floor = 1e-30) {
    std::string name = cat(what, p.kind == RmsNormKind::kRms ? " rms " : " scale ", p.rows, " x ",
                           p.channels, p.shift ? " shifted" : "");
    expect_close("rms_norm", name, got.device(), doubles(want.host()), bound, floor);
    EXPECT_LE(relative_error(doubles(got.host()), doubles(want.host()), floor), bound) << name;
  };
  near("y", p.y, exact.y, stored);
  near("factor", p.factor, exact.factor, rounding_bound(kFloat, p.channels));
  near("dx", p.dx, exact.dx, stored, terms);
  const double xhat =
      p.kind == RmsNormKind::kRms ? 1 : 1 / std::sqrt(static_cast<double>(p.channels));
  near("dweight", p.dweight, exact.dweight, rounding_bound(kFloat, p.rows + p.channels), xhat);
}

TEST(CudaRmsNorm, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  // All layouts of a row over a warp (with and without vectors) and over a block; several chunks of
  // rows and incomplete chunks.
  const std::int64_t shapes[][2] = {{197, 192}, {196, 100}, {69, 433}, {33, 432},
                                    {1, 384},   {5, 768},   {3, 1024}, {41, 1032}};
  for_each_kind([&](DType dtype, RmsNormKind kind) {
    for (auto [rows, channels] : shapes) {
      check(Problem(dtype, kind, rows, channels));
      check(Problem(dtype, kind, rows, channels, 0, 1));
    }
    check(Problem(dtype, kind, 9, 432, 1e3));
    check(Problem(dtype, kind, 9, 1032, -1e3));
  });
}

// Zero weights, constant rows, rows of zeros and rows with a norm below eps.
TEST(CudaRmsNorm, DegenerateRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  for_each_kind([&](DType dtype, RmsNormKind kind) {
    for (std::int64_t channels : {1, 50, 192, 515}) {
      Problem p(dtype, kind, 19, channels);
      p.weight = Twin(as(Tensor::full({channels}, DType::kFloat64, 0), DType::kFloat32));
      check(p);
      p = Problem(dtype, kind, 19, channels);
      Doubles x = doubles(p.x.host());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t row = i / static_cast<std::size_t>(channels);
        x[i] = row < 3 ? 0 : row < 6 ? 3 : row < 9 ? x[i] * 1e-8 : x[i];
      }
      p.x = Twin(from_doubles(x, p.activation(), dtype));
      check(p);
    }
  });
}

TEST(CudaRmsNorm, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for_each_kind([&](DType dtype, RmsNormKind kind) {
    const std::int64_t shapes[][2] = {{37, 96}, {3, 433}, {3, 515}};
    for (auto [rows, channels] : shapes) {
      under_every_schedule([&, rows = rows, channels = channels] {
        Problem p(dtype, kind, rows, channels);
        p.run_on_device();
        return p.results();
      });
    }
  });
}

TEST(CudaRmsNorm, RunsInPlaceAndSkipsNullOutputs) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t channels : {192, 433, 515}) {
      SCOPED_TRACE(cat(name_of(dtype), " ", channels));
      Problem apart(dtype, RmsNormKind::kRms, 9, channels);
      Problem other(dtype, RmsNormKind::kRms, 9, channels);
      apart.run_on_device();
      run(cuda_queue(), other.forward(kOnDevice));
      RmsNormBackward over_add = other.backward(kOnDevice);
      over_add.dx = const_cast<void*>(over_add.dx_add);
      over_add.dweight = nullptr;
      run(cuda_queue(), over_add);
      EXPECT_TRUE(same_bits(other.add.device(), apart.dx.device()));
      EXPECT_TRUE(same_bits(other.dweight.device(), other.dweight.host()));

      RmsNormBackward only_weight = other.backward(kOnDevice);
      only_weight.dx = nullptr;
      run(cuda_queue(), only_weight);
      EXPECT_TRUE(same_bits(other.dweight.device(), apart.dweight.device()));
      EXPECT_TRUE(same_bits(other.dx.device(), other.dx.host()));

      RmsNormBackward without_add = apart.backward(kOnDevice);
      without_add.dx_add = nullptr;
      run(cuda_queue(), without_add);
      RmsNormBackward over_dy = other.backward(kOnDevice);
      over_dy.dx_add = nullptr;
      over_dy.dx = const_cast<void*>(over_dy.dy);
      run(cuda_queue(), over_dy);
      EXPECT_TRUE(same_bits(other.dy.device(), apart.dx.device()));
      EXPECT_TRUE(same_bits(other.dweight.device(), apart.dweight.device()));

      RmsNormForward forward = other.forward(kOnDevice);
      forward.y = const_cast<void*>(forward.x);
      run(cuda_queue(), forward);
      EXPECT_TRUE(same_bits(other.x.device(), apart.y.device()));
    }
  }
}

TEST(CudaRmsNorm, NaNStaysInItsRow) {
  DTN_SKIP_WITHOUT_DEVICE();
  for_each_kind([&](DType dtype, RmsNormKind kind) {
    for (std::int64_t channels : {192, 100, 515}) {
      Problem p(dtype, kind, 9, channels);
      Doubles x = doubles(p.x.host());
      x[static_cast<std::size_t>(4 * channels + channels - 1)] = NAN;
      p.x = Twin(from_doubles(x, p.activation(), dtype));
      p.run_on_device();
      for (const Twin* t : {&p.y, &p.dx}) {
        Doubles got = doubles(t->device());
        for (std::int64_t i = 0; i < p.x.host().numel(); ++i) {
          EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(i)]), i / channels == 4) << i;
        }
      }
    }
  });
}

TEST(CudaRmsNorm, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  RmsNormForward empty{};
  empty.dtype = DType::kFloat32;
  empty.channels = 192;
  run(cuda_queue(), empty);
  RmsNormBackward empty_backward{};
  empty_backward.dtype = DType::kBFloat16;
  empty_backward.channels = 192;
  run(cuda_queue(), empty_backward);
  RmsNormForward wrong = Problem(DType::kFloat32, RmsNormKind::kRms, 2, 8).forward(kOnDevice);
  wrong.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong), Error);
}

}  // namespace
}  // namespace dtn::test
