#include "kernels/norm/power_norm.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

// Inputs and outputs of the four kernels, on both sides. Activations begin `shift` elements into
// their memory. With shift 1 no vector load can read them.
struct Problem {
  PowerNormShape shape;
  std::int64_t shift = 0;
  std::int64_t warmup = 0;  // negative: evaluation
  Twin x, weight, bias, running_phi, iterations, ema_gz, dy, add;
  Twin next_phi, next_iterations, next_ema_gz, dweight, dbias;  // updated or accumulated
  Twin y, squares, rpsi, power, dx, dot;

  Problem(DType d, std::int64_t rows, std::int64_t channels, std::int64_t groups,
          std::int64_t warm = 9, double x_mean = 0, std::int64_t shifted = 0)
      : shape{d, rows, channels, groups, 1e-5}, shift(shifted), warmup(warm) {
    const DType f = DType::kFloat32;
    x = random_twin(activation(), d, 1, 1.7, x_mean);
    weight = random_twin({channels}, f, 2, 0.5, 1);
    bias = random_twin({channels}, f, 3);
    running_phi = random_twin({channels}, f, 4, 0.3, 1);
    iterations = Twin(Tensor::full({1}, f, 4));
    ema_gz = random_twin({channels}, f, 5);
    dy = random_twin(activation(), d, 6);
    add = random_twin(activation(), d, 7);
    next_phi = random_twin({channels}, f, 8, 0.3, 1);
    next_iterations = Twin::output({1}, f);
    next_ema_gz = Twin::accumulated({channels}, f, 9);
    dweight = Twin::accumulated({channels}, f, 10);
    dbias = Twin::accumulated({channels}, f, 11);
    make_outputs();
  }

  // The same numbers, to be computed in float64.
  Problem in_float64() const {
    Problem p = *this;
    p.shape.dtype = DType::kFloat64;
    for (Twin* t :
         {&p.x, &p.weight, &p.bias, &p.running_phi, &p.iterations, &p.ema_gz, &p.dy, &p.add,
          &p.next_phi, &p.next_iterations, &p.next_ema_gz, &p.dweight, &p.dbias}) {
      *t = Twin(as(t->host(), DType::kFloat64));
    }
    p.make_outputs();
    return p;
  }

  bool training() const { return warmup >= 0; }
  Shape activation() const { return {shape.rows * shape.channels + shift}; }
  void make_outputs() {
    for (Twin* t : {&y, &dx}) *t = Twin::output(activation(), shape.dtype);
    for (Twin* t : {&squares, &rpsi, &power, &dot}) {
      *t = Twin::output({shape.channels}, accumulator_of(shape.dtype));
    }
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) +
           static_cast<std::size_t>(shift) * size_of(shape.dtype);
  }

  PowerNormForward forward(Where w) const {
    PowerNormForward a{};
    a.shape = shape;
    a.x = at(x, w);
    a.weight = weight.at(w);
    a.bias = bias.at(w);
    a.running_phi = running_phi.at(w);
    a.y = at(y, w);
    a.rpsi = rpsi.at(w);
    if (!training()) return a;
    a.squares = squares.at(w);
    a.count = shape.rows;
    a.iterations = iterations.at(w);
    a.warmup = warmup;
    a.alpha = 0.9;
    a.power = power.at(w);
    a.next_running_phi = next_phi.at(w);
    a.next_iterations = next_iterations.at(w);
    return a;
  }
  PowerNormBackward backward(Where w) const {
    PowerNormBackward a{};
    a.shape = shape;
    a.x = at(x, w);
    a.weight = weight.at(w);
    a.rpsi = rpsi.at(w);
    a.ema_gz = training() ? ema_gz.at(w) : nullptr;
    a.alpha = 0.8;
    a.dy = at(dy, w);
    a.dx_add = at(add, w);
    a.dx = at(dx, w);
    a.dweight = dweight.at(w);
    a.dbias = dbias.at(w);
    a.dot = dot.at(w);
    return a;
  }
  template <class Queue>
  void run_all(Queue& queue, Where w) const {
    if (training()) run(queue, PowerNormSquares{shape, at(x, w), squares.at(w)});
    run(queue, forward(w));
    run(queue, backward(w));
    if (!training()) return;
    run(queue, PowerNormFeedback{accumulator_of(shape.dtype), shape.channels, shape.rows, 0.8,
                                 weight.at(w), dot.at(w), power.at(w), next_ema_gz.at(w)});
  }
  std::vector<Tensor> results() const {
    std::vector<Tensor> r;
    for (const Twin* t : {&y, &dx, &dweight, &dbias, &rpsi, &next_phi, &next_ema_gz}) {
      r.push_back(t->device());
    }
    return r;
  }
};

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// Compares all kernels of the device and of the host with float64, within the same bounds. dx is a
// difference of terms of the size s dz0. Parameter gradients have terms of size 1.
void check(const Problem& p) {
  const std::int64_t rows = p.shape.rows, channels = p.shape.channels;
  SCOPED_TRACE(cat(name_of(p.shape.dtype), " ", rows, " x ", channels, ", ", p.shape.groups,
                   " groups, warmup ", p.warmup));
  const Problem exact = p.in_float64();
  exact.run_all(cpu_queue(), kOnHost);
  p.run_all(cpu_queue(), kOnHost);
  p.run_all(cuda_queue(), kOnDevice);

  // The largest s belongs to the group with the smallest norm.
  const Doubles x = doubles(exact.x.host());
  double largest_factor = 0;
  const auto width = static_cast<std::size_t>(channels / p.shape.groups);
  for (std::size_t first = static_cast<std::size_t>(p.shift); first < x.size(); first += width) {
    double squares = 0;
    for (std::size_t i = first; i < first + width; ++i) squares += x[i] * x[i];
    largest_factor =
        std::max(largest_factor, 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5));
  }
  const double terms = 2 * largest_factor * max_abs(doubles(exact.rpsi.host()));
  auto near = [&](const char* what, const Twin& got, const Twin& want, double bound,
                  double floor = 1e-30) {
    std::string name = cat(what, p.training() ? " " : " evaluation ", rows, " x ", channels, " / ",
                           p.shape.groups, p.shift ? " shifted" : "");
    expect_close("power_norm", name, got.device(), doubles(want.host()), bound, floor);
    EXPECT_LE(relative_error(doubles(got.host()), doubles(want.host()), floor), bound) << name;
  };
  const double stored = rounding_bound(p.shape.dtype, rows + channels);
  const double summed = rounding_bound(DType::kFloat32, rows + channels);
  const double size = std::max(1.0, max_abs(doubles(exact.rpsi.host())));
  near("y", p.y, exact.y, stored);
  near("dx", p.dx, exact.dx, stored, terms);
  near("rpsi", p.rpsi, exact.rpsi, summed);
  near("dweight", p.dweight, exact.dweight, summed, size);
  near("dbias", p.dbias, exact.dbias, summed, 1);
  near("running_phi", p.next_phi, exact.next_phi, summed);
  near("ema_gz", p.next_ema_gz, exact.next_ema_gz, summed, size);
  near("iters", p.next_iterations, exact.next_iterations, 0);
}

TEST(CudaPowerNorm, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  // All layouts of a row over a warp (with and without vectors) and through device memory; groups
  // that share vectors; several chunks of rows and incomplete chunks.
  const std::int64_t shapes[][3] = {{197, 192, 3}, {69, 432, 9}, {33, 100, 5},  {41, 7, 7},
                                    {1, 384, 1},   {5, 768, 12}, {3, 1024, 16}, {9, 433, 1},
                                    {37, 1032, 8}, {21, 515, 5}, {3, 64, 64},   {3, 530, 265}};
  for (DType dtype : kTypes) {
    for (auto [rows, channels, groups] : shapes) {
      check(Problem(dtype, rows, channels, groups));
      check(Problem(dtype, rows, channels, groups, 2, 0, 1));
    }
    // Evaluation, and training before, at and after the end of the warm-up.
    for (std::int64_t warmup : {-1, 6, 5, 4, 0}) {
      for (std::int64_t channels : {96, 515}) check(Problem(dtype, 37, channels, 1, warmup));
    }
    for (std::int64_t channels : {432, 1032}) check(Problem(dtype, 9, channels, 4, 9, 1e3));
  }
}

TEST(CudaPowerNorm, ZeroWeightConstantRowsAndZeros) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t channels : {50, 192, 520}) {
      Problem zero(dtype, 19, channels, 2);
      zero.weight = Twin(as(Tensor::full({channels}, DType::kFloat64, 0), DType::kFloat32));
      check(zero);
      Problem constant(dtype, 19, channels, 2);
      Doubles x = doubles(constant.x.host());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t row = i / static_cast<std::size_t>(channels);
        x[i] = row < 2 ? 0 : row < 12 ? 3 : x[i];
      }
      constant.x = Twin(from_doubles(x, constant.activation(), dtype));
      check(constant);
    }
  }
}

TEST(CudaPowerNorm, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t shapes[][3] = {{37, 96, 4}, {35, 60, 60}, {3, 433, 1}, {3, 520, 4}};
  for (DType dtype : kTypes) {
    for (auto [rows, channels, groups] : shapes) {
      under_every_schedule([&, rows = rows, channels = channels, groups = groups] {
        Problem p(dtype, rows, channels, groups);
        p.run_all(cuda_queue(), kOnDevice);
        return p.results();
      });
    }
  }
}

TEST(CudaPowerNorm, RunsInPlaceAndSkipsNullOutputs) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t channels : {192, 435, 516}) {
      SCOPED_TRACE(cat(name_of(dtype), " ", channels));
      Problem apart(dtype, 9, channels, 3), other(dtype, 9, channels, 3);
      apart.run_all(cuda_queue(), kOnDevice);
      run(cuda_queue(),
          PowerNormSquares{other.shape, other.x.at(kOnDevice), other.squares.at(kOnDevice)});
      // Runs the pass again without updates.
      PowerNormForward again = other.forward(kOnDevice);
      again.next_running_phi = again.next_iterations = nullptr;
      run(cuda_queue(), again);
      EXPECT_TRUE(same_bits(other.y.device(), apart.y.device()));
      EXPECT_TRUE(same_bits(other.next_phi.device(), other.next_phi.host()));

      PowerNormBackward over_add = other.backward(kOnDevice);
      over_add.dx = const_cast<void*>(over_add.dx_add);
      over_add.dweight = over_add.dbias = over_add.dot = nullptr;
      run(cuda_queue(), over_add);
      EXPECT_TRUE(same_bits(other.add.device(), apart.dx.device()));
      EXPECT_TRUE(same_bits(other.dweight.device(), other.dweight.host()));
      EXPECT_TRUE(same_bits(other.dot.device(), other.dot.host()));

      PowerNormBackward sums = other.backward(kOnDevice);
      sums.dx = nullptr;
      run(cuda_queue(), sums);
      EXPECT_TRUE(same_bits(other.dx.device(), other.dx.host()));
      EXPECT_TRUE(same_bits(other.dot.device(), apart.dot.device()));
      EXPECT_TRUE(same_bits(other.dweight.device(), apart.dweight.device()));
      EXPECT_TRUE(same_bits(other.dbias.device(), apart.dbias.device()));

      PowerNormBackward without_add = apart.backward(kOnDevice);
      without_add.dx_add = nullptr;
      run(cuda_queue(), without_add);
      PowerNormBackward over_dy = other.backward(kOnDevice);
      over_dy.dx_add = over_dy.dot = nullptr;
      over_dy.dx = const_cast<void*>(over_dy.dy);
      run(cuda_queue(), over_dy);
      EXPECT_TRUE(same_bits(other.dy.device(), apart.dx.device()));
      EXPECT_TRUE(same_bits(other.dweight.device(), apart.dweight.device()));

      again.y = const_cast<void*>(again.x);
      run(cuda_queue(), again);
      EXPECT_TRUE(same_bits(other.x.device(), apart.y.device()));
    }
  }
}

TEST(CudaPowerNorm, NaNStaysInGroupInEvaluationAndSpreadsInTraining) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (bool training : {false, true}) {
    for (std::int64_t channels : {192, 100, 516}) {
      Problem p(DType::kFloat32, 9, channels, 2, training ? 9 : -1);
      Doubles x = doubles(p.x.host());
      x[static_cast<std::size_t>(4 * channels)] = NAN;
      p.x = Twin(from_doubles(x, p.activation(), DType::kFloat32));
      p.run_all(cuda_queue(), kOnDevice);
      for (const Twin* t : {&p.y, &p.dx}) {
        Doubles got = doubles(t->device());
        for (std::int64_t i = 0; i < p.x.host().numel(); ++i) {
          const bool its_group = i / (channels / 2) == 8, channel = i % channels < channels / 2;
          EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(i)]), training ? channel : its_group)
              << i;
        }
      }
    }
  }
}

// Statistics are updated from the rows of other processes.
TEST(CudaPowerNorm, RankWithoutRowsUpdatesStatistics) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Problem p(DType::kFloat32, 40, 8, 2, 0);
  const auto step = [&](auto& queue, Where w) {
    run(queue, PowerNormSquares{p.shape, p.at(p.x, w), p.squares.at(w)});
    PowerNormForward none = p.forward(w);
    none.shape.rows = 0;
    none.x = none.y = nullptr;
    run(queue, none);
  };
  step(cpu_queue(), kOnHost);
  step(cuda_queue(), kOnDevice);
  const double bound = rounding_bound(DType::kFloat32, 48);
  for (const Twin* t : {&p.rpsi, &p.next_phi, &p.next_iterations}) {
    expect_close("power_norm", "no rows", t->device(), doubles(t->host()), bound);
    EXPECT_GT(max_abs(doubles(t->host())), 0);
  }
}

TEST(CudaPowerNorm, AcceptsEmptyInputAndRejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const PowerNormShape none{DType::kFloat32, 0, 192, 3, 1e-5};
  PowerNormForward forward{};
  PowerNormBackward backward{};
  backward.shape = none;
  forward.shape = {DType::kFloat32, 4, 0, 3, 1e-5};
  run(cuda_queue(), PowerNormSquares{none, nullptr, nullptr});
  run(cuda_queue(), forward);
  run(cuda_queue(), backward);
  run(cuda_queue(),
      PowerNormFeedback{DType::kFloat32, 192, 0, 0.9, nullptr, nullptr, nullptr, nullptr});
  forward = Problem(DType::kFloat32, 2, 8, 2).forward(kOnDevice);
  forward.shape.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), forward), Error);
  EXPECT_THROW(run(cuda_queue(), PowerNormFeedback{DType::kFloat64, 8, 2, 0.9, nullptr, nullptr,
                                                   nullptr, nullptr}),
               Error);
}

}  // namespace
}  // namespace dtn::test
