// Inputs and outputs of the kernels of layer normalization, on the device and the host.
#pragma once

#include "cuda/twin.h"
#include "kernels/norm/layer_norm.h"

namespace dtn::test {

inline constexpr std::int64_t kLayerNormRowsPerScale = 5;

// Inputs and outputs of the kernels, on both sides. Activations begin `shift` elements into their
// memory. With shift 1 no vector load can read them.
struct LayerNormProblem {
  DType dtype;
  std::int64_t rows, channels, shift = 0;
  Twin x, branch, weight, bias, dy, add, row_scale;
  Twin sum, y, mean, rstd, dx, dbranch, dweight, dbias, dbranch_sums;

  LayerNormProblem(DType d, std::int64_t r, std::int64_t c, double x_mean = 0,
                   std::int64_t shifted = 0)
      : dtype(d), rows(r), channels(c), shift(shifted) {
    x = random_twin(activation(), d, 1, 1.7, x_mean);
    branch = random_twin(activation(), d, 2);
    weight = random_twin({c}, DType::kFloat32, 3, 0.5, 1);
    bias = random_twin({c}, DType::kFloat32, 4);
    dy = random_twin(activation(), d, 5);
    add = random_twin(activation(), d, 6);
    row_scale = random_twin({(r + kLayerNormRowsPerScale - 1) / kLayerNormRowsPerScale},
                            DType::kFloat32, 7, 1, 0.5);
    dweight = Twin::accumulated({c}, DType::kFloat32, 8);
    dbias = Twin::accumulated({c}, DType::kFloat32, 9);
    dbranch_sums = Twin::accumulated({c}, DType::kFloat32, 10);
    make_outputs();
  }

  // The same numbers, to be computed in float64.
  LayerNormProblem in_float64() const {
    LayerNormProblem p = *this;
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
    a.rows_per_scale = kLayerNormRowsPerScale;
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
    a.rows_per_scale = kLayerNormRowsPerScale;
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

inline void expect_near_layer_norm(const char* what, const LayerNormProblem& p, const Twin& got,
                                   const Twin& exact, double bound, double floor = 1e-30) {
  std::string name = cat(what, " ", p.rows, " x ", p.channels, p.shift ? " shifted" : "");
  expect_close("layer_norm", name, got.device(), doubles(exact.host()), bound, floor);
}

inline const DType kLayerNormTypes[] = {DType::kFloat32, DType::kBFloat16};

// Sets of rows. Each set has a weight and a bias; those of consecutive sets are `stride` apart. The
// kernels return moments and take gradients of the moments. Stride 0 means no parameters.
struct LayerNormSetProblem : LayerNormProblem {
  ParameterSets sets;
  Twin row_mean, row_std, drow_mean, drow_std;

  LayerNormSetProblem(DType d, std::int64_t count, std::int64_t rows_of_set, std::int64_t c,
                      std::int64_t stride, double x_mean = 0, std::int64_t shifted = 0)
      : LayerNormProblem(d, count * rows_of_set, c, x_mean, shifted), sets{rows_of_set, stride} {
    const Shape parameters{(count - 1) * stride + c};
    weight = random_twin(parameters, DType::kFloat32, 13, 0.5, 1);
    bias = random_twin(parameters, DType::kFloat32, 14);
    drow_mean = random_twin({rows}, DType::kFloat32, 15, 3);
    drow_std = random_twin({rows}, DType::kFloat32, 16, 3);
    make_set_outputs();
  }
  LayerNormSetProblem in_float64() const {
    LayerNormSetProblem p = *this;
    static_cast<LayerNormProblem&>(p) = LayerNormProblem::in_float64();
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

}  // namespace dtn::test
