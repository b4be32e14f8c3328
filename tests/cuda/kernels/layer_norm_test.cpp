#include "kernels/norm/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "cuda/twin.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kRowsPerScale = 5;

// Inputs and outputs of the kernels, on both sides. Activations begin `shift` elements into their
// memory. With shift 1 no vector load can read them.
struct Problem {
  DType dtype;
  std::int64_t rows, channels, shift = 0;
  Twin x, branch, weight, bias, dy, add, row_scale;
  Twin sum, y, mean, rstd, dx, dbranch, dweight, dbias, dbranch_sums;

  Problem(DType d, std::int64_t r, std::int64_t c, double x_mean = 0, std::int64_t shifted = 0)
      : dtype(d), rows(r), channels(c), shift(shifted) {
    x = random_twin(activation(), d, 1, 1.7, x_mean);
    branch = random_twin(activation(), d, 2);
    weight = random_twin({c}, DType::kFloat32, 3, 0.5, 1);
    bias = random_twin({c}, DType::kFloat32, 4);
    dy = random_twin(activation(), d, 5);
    add = random_twin(activation(), d, 6);
    row_scale = random_twin({(r + kRowsPerScale - 1) / kRowsPerScale}, DType::kFloat32, 7, 1, 0.5);
    dweight = Twin::accumulated({c}, DType::kFloat32, 8);
    dbias = Twin::accumulated({c}, DType::kFloat32, 9);
    dbranch_sums = Twin::accumulated({c}, DType::kFloat32, 10);
    make_outputs();
  }

  // The same numbers, to be computed in float64.
  Problem in_float64() const {
    Problem p = *this;
    p.dtype = DType::kFloat64;
    for (Twin* t : {&p.x, &p.branch, &p.weight, &p.bias, &p.dy, &p.add, &p.row_scale, &p.dweight,
                    &p.dbias, &p.dbranch_sums}) {
      *t = Twin(as(t->host(), DType::kFloat64));
    }
    p.make_outputs();
    return p;
  }

  Shape activation() const { return {rows * channels + shift}; }
  void make_outputs() {
    DType acc = accumulator_of(dtype);
    for (Twin* t : {&sum, &y, &dx, &dbranch}) *t = Twin::output(activation(), dtype);
    for (Twin* t : {&mean, &rstd}) *t = Twin::output({rows}, acc);
  }
  void* at(const Twin& t, Where w) const {
    return static_cast<std::byte*>(t.at(w)) + static_cast<std::size_t>(shift) * size_of(dtype);
  }

  LayerNormForward forward(Where w) const {
    return {dtype,        rows,       channels, 1e-5,       at(x, w),
            weight.at(w), bias.at(w), at(y, w), mean.at(w), rstd.at(w)};
  }
  LayerNormForward residual(Where w) const {
    LayerNormForward a = forward(w);
    a.x = nullptr;
    a.residual = at(x, w);
    a.branch = at(branch, w);
    a.row_scale = row_scale.at(w);
    a.rows_per_scale = kRowsPerScale;
    a.sum = at(sum, w);
    return a;
  }
  LayerNormBackward backward(Where w) const {
    LayerNormBackward a{};
    a.dtype = dtype;
    a.rows = rows;
    a.channels = channels;
    a.x = at(x, w);
    a.weight = weight.at(w);
    a.mean = mean.at(w);
    a.rstd = rstd.at(w);
    a.dy = at(dy, w);
    a.dx_add = at(add, w);
    a.dx = at(dx, w);
    a.dweight = dweight.at(w);
    a.dbias = dbias.at(w);
    a.dbranch = at(dbranch, w);
    a.dbranch_sums = dbranch_sums.at(w);
    a.row_scale = row_scale.at(w);
    a.rows_per_scale = kRowsPerScale;
    return a;
  }

  std::vector<Tensor> results() const {
    std::vector<Tensor> r;
    for (const Twin* t : {&y, &mean, &rstd, &dx, &dbranch, &dweight, &dbias, &dbranch_sums}) {
      r.push_back(t->device());
    }
    return r;
  }
};

// Returns the largest column sum of |dbranch|.
double column_of_dbranch(const Problem& exact) {
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

void expect_near(const char* what, const Problem& p, const Twin& got, const Twin& exact,
                 double bound, double floor = 1e-30) {
  std::string name = cat(what, " ", p.rows, " x ", p.channels, p.shift ? " shifted" : "");
  expect_close("layer_norm", name, got.device(), doubles(exact.host()), bound, floor);
}

// Compares both kernels of the device and of the host with float64, within the same bounds. Sums
// over a row have `channels` terms. dx is a difference of terms of the size rstd dy weight.
void check(Problem p) {
  Problem exact = p.in_float64();
  run(cpu_queue(), exact.forward(kOnHost));
  run(cpu_queue(), exact.backward(kOnHost));
  run(cpu_queue(), p.forward(kOnHost));
  run(cpu_queue(), p.backward(kOnHost));
  run(cuda_queue(), p.forward(kOnDevice));
  run(cuda_queue(), p.backward(kOnDevice));

  constexpr DType kFloat = DType::kFloat32;
  const double stored = rounding_bound(p.dtype, p.channels);
  const double terms = 2 * max_abs(doubles(exact.rstd.host()));
  expect_near("y", p, p.y, exact.y, stored);
  expect_near("mean", p, p.mean, exact.mean, rounding_bound(kFloat, p.channels), 1);
  expect_near("rstd", p, p.rstd, exact.rstd, rounding_bound(kFloat, p.channels));
  expect_near("dx", p, p.dx, exact.dx, stored, terms);
  expect_near("dbranch", p, p.dbranch, exact.dbranch, stored + unit_roundoff(p.dtype), terms);
  expect_near("dweight", p, p.dweight, exact.dweight, rounding_bound(kFloat, p.rows + p.channels));
  expect_near("dbias", p, p.dbias, exact.dbias, rounding_bound(kFloat, p.rows));
  const double of_sums = stored + unit_roundoff(p.dtype) + rounding_bound(kFloat, p.rows);
  const double column = column_of_dbranch(exact) + terms;
  expect_near("dbranch_sums", p, p.dbranch_sums, exact.dbranch_sums, of_sums, column);
  EXPECT_LE(
      relative_error(doubles(p.dbranch_sums.host()), doubles(exact.dbranch_sums.host()), column),
      of_sums);
  EXPECT_LE(relative_error(doubles(p.y.host()), doubles(exact.y.host())), stored);
  EXPECT_LE(relative_error(doubles(p.dx.host()), doubles(exact.dx.host()), terms), stored);
  EXPECT_LE(relative_error(doubles(p.dbranch.host()), doubles(exact.dbranch.host()), terms),
            stored + unit_roundoff(p.dtype));
}

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

TEST(CudaLayerNorm, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  // All layouts of a row over a warp (with and without vectors) and over a block; several chunks of
  // rows and incomplete chunks.
  const std::int64_t shapes[][2] = {{197, 192}, {196, 100}, {69, 433}, {33, 432},  {1, 384},
                                    {5, 768},   {3, 1024},  {3, 515},  {70, 1032}, {41, 7}};
  for (DType dtype : kTypes) {
    for (auto [rows, channels] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", channels));
      check(Problem(dtype, rows, channels));
      check(Problem(dtype, rows, channels, 0, 1));
    }
  }
}

TEST(CudaLayerNorm, LargeMean) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t channels : {432, 433, 1032}) check(Problem(dtype, 9, channels, 1e3));
  }
  check(Problem(DType::kFloat32, 9, 432, -1e3));
}

TEST(CudaLayerNorm, ZeroWeightAndConstantRows) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    for (std::int64_t channels : {1, 50, 192, 515}) {
      Problem zero(dtype, 19, channels);
      zero.weight = Twin(as(Tensor::full({channels}, DType::kFloat64, 0), DType::kFloat32));
      check(zero);
      Problem constant(dtype, 19, channels);
      constant.x = Twin(Tensor::full({19 * channels}, dtype, 3));
      check(constant);
    }
  }
}

// Sets of rows. Each set has a weight and a bias; those of consecutive sets are `stride` apart. The
// kernels return moments and take gradients of the moments. Stride 0 means no parameters.
struct SetProblem : Problem {
  ParameterSets sets;
  Twin row_mean, row_std, drow_mean, drow_std;

  SetProblem(DType d, std::int64_t count, std::int64_t rows_of_set, std::int64_t c,
             std::int64_t stride, double x_mean = 0, std::int64_t shifted = 0)
      : Problem(d, count * rows_of_set, c, x_mean, shifted), sets{rows_of_set, stride} {
    const Shape parameters{(count - 1) * stride + c};
    weight = random_twin(parameters, DType::kFloat32, 13, 0.5, 1);
    bias = random_twin(parameters, DType::kFloat32, 14);
    drow_mean = random_twin({rows}, DType::kFloat32, 15, 3);
    drow_std = random_twin({rows}, DType::kFloat32, 16, 3);
    make_set_outputs();
  }
  SetProblem in_float64() const {
    SetProblem p = *this;
    static_cast<Problem&>(p) = Problem::in_float64();
    for (Twin* t : {&p.drow_mean, &p.drow_std}) *t = Twin(as(t->host(), DType::kFloat64));
    p.make_set_outputs();
    return p;
  }
  void make_set_outputs() {
    const DType acc = accumulator_of(dtype);
    row_mean = Twin::output({rows}, acc), row_std = Twin::output({rows}, acc);
    dweight = Twin(Tensor::zeros(weight.host().shape(), acc));
    dbias = Twin(Tensor::zeros(weight.host().shape(), acc));
  }
  void run_at(Where w) const {
    LayerNormForward f = forward(w);
    LayerNormBackward b = backward(w);
    f.sets = b.sets = sets;
    f.row_mean = row_mean.at(w), f.row_std = row_std.at(w);
    b.drow_mean = drow_mean.at(w), b.drow_std = drow_std.at(w);
    b.dbranch = b.dbranch_sums = nullptr;
    if (sets.stride == 0) {
      f.weight = f.bias = b.weight = nullptr;
      b.dweight = b.dbias = nullptr;
    }
    w == kOnDevice ? run(cuda_queue(), f) : run(cpu_queue(), f);
    w == kOnDevice ? run(cuda_queue(), b) : run(cpu_queue(), b);
  }
  std::vector<Tensor> results() const {
    std::vector<Tensor> r;
    for (const Twin* t : {&y, &mean, &rstd, &dx, &dweight, &dbias, &row_mean, &row_std}) {
      r.push_back(t->device());
    }
    return r;
  }
};

void check(const SetProblem& p) {
  const SetProblem exact = p.in_float64();
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
    Twin SetProblem::*twin;
    double bound, floor;
  } outputs[] = {{"y by sets", &SetProblem::y, stored, 1e-30},
                 {"dx by sets", &SetProblem::dx, stored, terms},
                 {"row mean", &SetProblem::row_mean, of_mean, 1},
                 {"row std", &SetProblem::row_std, of_mean, 1e-30},
                 {"dweight by sets", &SetProblem::dweight, sums, 1},
                 {"dbias by sets", &SetProblem::dbias, sums, 1}};
  for (const auto& o : outputs) {
    expect_near(o.name, p, p.*o.twin, exact.*o.twin, o.bound, o.floor);
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
  for (DType dtype : kTypes) {
    for (auto [count, rows, channels] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", count, " x ", rows, " x ", channels));
      check(SetProblem(dtype, count, rows, channels, 2 * channels));
      check(SetProblem(dtype, count, rows, channels, channels, 0, 1));
      check(SetProblem(dtype, count, rows, channels, 0, dtype == DType::kFloat32 ? 1e3 : 0));
    }
    under_every_schedule([&] {
      const SetProblem p(dtype, 3, 37, 96, 192);
      p.run_at(kOnDevice);
      return p.results();
    });
  }
}

TEST(CudaLayerNorm, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : kTypes) {
    const std::int64_t shapes[][2] = {{37, 96}, {3, 433}, {3, 515}};
    for (auto [rows, channels] : shapes) {
      under_every_schedule([&, rows = rows, channels = channels] {
        Problem p(dtype, rows, channels);
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
  for (DType dtype : kTypes) {
    for (auto [rows, channels] : shapes) {
      for (bool scaled : {true, false}) {
        SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", channels, scaled ? " scaled" : ""));
        Problem fused(dtype, rows, channels), parts(dtype, rows, channels);
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
          scale.per_scale = kRowsPerScale * channels;
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
        expect_near("residual sum", fused, fused.sum, fused.sum, 2 * unit_roundoff(dtype));
        expect_near("residual y", fused, fused.y, fused.y,
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
  for (DType dtype : kTypes) {
    for (std::int64_t channels : {192, 433, 515}) {
      SCOPED_TRACE(cat(name_of(dtype), " ", channels));
      Problem apart(dtype, 9, channels), in_place(dtype, 9, channels);
      for (const Problem* p : {&apart, &in_place}) run(cuda_queue(), p->forward(kOnDevice));
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
    Problem all(DType::kFloat32, 9, channels), some(DType::kFloat32, 9, channels);
    for (const Problem* p : {&all, &some}) run(cuda_queue(), p->forward(kOnDevice));
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
  for (DType dtype : kTypes) {
    for (auto [rows, channels] : shapes) {
      SCOPED_TRACE(cat(name_of(dtype), " ", rows, " x ", channels));
      Problem with(dtype, rows, channels), without(dtype, rows, channels);
      for (const Problem* p : {&with, &without}) run(cuda_queue(), p->forward(kOnDevice));
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
      Problem p(DType::kFloat32, 9, channels);
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
  LayerNormForward wrong = Problem(DType::kFloat32, 2, 8).forward(kOnDevice);
  wrong.dtype = DType::kFloat64;
  EXPECT_THROW(run(cuda_queue(), wrong), Error);
}

}  // namespace
}  // namespace dtn::test
