// Problems for the DTN kernels on the device, and the checks of their results. The references are
// the dense float64 formulas and the CPU kernels. Both paths run if the tensor cores support the
// shape.
#pragma once

#include <algorithm>

#include "cuda/twin.h"
#include "dense_dtn.h"
#include "kernels/dtn/dtn_norm.h"
#include "kernels/dtn/dtn_norm_cuda.h"

namespace dtn::test {

struct ShapeCase {
  int batch, grid_h, grid_w, channels, heads;
};

// Content of a problem, in addition to its shape.
struct Content {
  double mean = 0, channel_mean = 0;  // channel_mean: added to every other channel
  bool zero_weight = false, constant_rows = false, constant_channels = false;
  double lambda = -1;  // < 0: different in each head
  double position = 0.5;
};

inline constexpr DtnVariant kVariants[] = {DtnVariant::kPaper, DtnVariant::kOfficial};
inline constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// A problem as tensors in both memories and, with the same numbers, as input of the oracle.
struct DtnNormProblem {
  DtnVariant variant;
  DType dtype;
  DenseDtn dense;
  Twin x, dy, weight, bias, lambda_mean, lambda_var, pos_weight;

  DtnNormProblem(const ShapeCase& s, DtnVariant variant_, DType dtype_, const Content& content = {})
      : variant(variant_),
        dtype(dtype_),
        dense{s.batch, s.grid_h, s.grid_w, s.channels, s.heads},
        dy(random_twin(image_shape(), dtype, 2)) {
    dense.official = variant == DtnVariant::kOfficial;
    fill_x(content);
    auto parameter = [&](Doubles& values, Twin& twin, const Tensor& tensor) {
      twin = Twin(as(tensor, DType::kFloat32));
      values = doubles(twin.host());
    };
    const Shape channels = {s.channels}, heads = {s.heads};
    parameter(
        dense.weight, weight,
        content.zero_weight ? random_tensor(channels, 3, 0) : random_tensor(channels, 3, 0.5, 1));
    parameter(dense.bias, bias, random_tensor(channels, 4, 0.5));
    parameter(dense.pos_weight, pos_weight, random_tensor({s.heads, 3}, 5, content.position));
    const bool varied = content.lambda < 0;
    parameter(dense.lambda_mean, lambda_mean,
              random_tensor(heads, 6, varied ? 0.4 : 0, varied ? 0.5 : content.lambda));
    parameter(dense.lambda_var, lambda_var,
              random_tensor(heads, 7, varied ? 0.4 : 0, varied ? 0.5 : content.lambda));
  }

  Shape image_shape() const { return {dense.batch, dense.tokens(), dense.channels}; }
  std::string name(const char* path) const {
    return cat(path, " ", name_of(dtype), dense.official ? " official" : " paper", " B",
               dense.batch, " ", dense.grid_h, "x", dense.grid_w, " C", dense.channels, " H",
               dense.heads);
  }

 private:
  void fill_x(const Content& content) {
    // Standard deviation 1.
    Doubles values = doubles(random_tensor(image_shape(), 1, std::sqrt(3.0), content.mean));
    for (int b = 0; b < dense.batch; ++b) {
      for (int t = 0; t < dense.tokens(); ++t) {
        for (int c = 0; c < dense.channels; ++c) {
          double& v = values[dense.at(b, t, c)];
          if (c % 2) v += content.channel_mean;
          if (content.constant_channels && c % 3 == 0) v = 1 + 0.5 * c;
          // Half of the tokens, and all of the first image.
          if (content.constant_rows && (b == 0 || t % 2 == 0)) v = b == 0 ? 2 : 0.5 * (t % 3);
        }
      }
    }
    x = Twin(from_doubles(values, image_shape(), dtype));
    dense.x = doubles(x.host());
  }
};

// All outputs of the kernels.
struct Outputs {
  Twin y, token_mean, token_var, pivot, head_rstd, dx;
  Twin dweight, dbias, dlambda_mean, dlambda_var, dpos_weight;

  explicit Outputs(const DtnNormProblem& p) {
    const auto& d = p.dense;
    const DType f = DType::kFloat32;
    y = Twin::output(p.image_shape(), p.dtype);
    dx = Twin::output(p.image_shape(), p.dtype);
    token_mean = Twin::output({d.batch, d.tokens()}, f);
    token_var = Twin::output({d.batch, d.tokens()}, f);
    pivot = Twin::output({d.batch, d.channels}, f);
    if (d.official) head_rstd = Twin::output({d.batch, d.heads, d.tokens()}, DType::kFloat64);
    auto zeros = [&](const Shape& shape) { return Twin(as(random_tensor(shape, 8, 0), f)); };
    dweight = zeros({d.channels});
    dbias = zeros({d.channels});
    dlambda_mean = zeros({d.heads});
    dlambda_var = zeros({d.heads});
    dpos_weight = zeros({d.heads, 3});
  }

  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors = {y.device(),          token_mean.device(),   token_var.device(),
                                   pivot.device(),      dx.device(),           dweight.device(),
                                   dbias.device(),      dlambda_mean.device(), dlambda_var.device(),
                                   dpos_weight.device()};
    if (head_rstd.at(kOnHost)) tensors.push_back(head_rstd.device());
    return tensors;
  }
};

inline DtnNormArguments arguments_of(const DtnNormProblem& p, const Outputs& o, Where w) {
  const auto& d = p.dense;
  return {.dtype = p.dtype,
          .batch = d.batch,
          .grid_h = d.grid_h,
          .grid_w = d.grid_w,
          .channels = d.channels,
          .heads = d.heads,
          .eps = d.eps,
          .variant = p.variant,
          .pool = p.dense.pool,
          .x = p.x.at(w),
          .weight = p.weight.at(w),
          .lambda_mean = p.lambda_mean.at(w),
          .lambda_var = p.lambda_var.at(w),
          .pos_weight = p.pos_weight.at(w),
          .token_mean = o.token_mean.at(w),
          .token_var = o.token_var.at(w),
          .pivot = o.pivot.at(w),
          .head_rstd = o.head_rstd.at(w)};
}

inline DtnNormForward forward_of(const DtnNormProblem& p, const Outputs& o, Where w) {
  return {arguments_of(p, o, w), p.bias.at(w), o.y.at(w)};
}

inline DtnNormBackward backward_of(const DtnNormProblem& p, const Outputs& o, Where w) {
  DtnNormBackward args{arguments_of(p, o, w), p.dy.at(w)};
  args.dx = o.dx.at(w);
  args.dweight = o.dweight.at(w);
  args.dbias = o.dbias.at(w);
  args.dlambda_mean = o.dlambda_mean.at(w);
  args.dlambda_var = o.dlambda_var.at(w);
  args.dpos_weight = o.dpos_weight.at(w);
  return args;
}

enum class Path { kPlain, kTensor };
inline const char* name_of(Path path) { return path == Path::kPlain ? "plain" : "tensor"; }

// Calls `body` for each path that supports the problem. This path is selected while `body` runs.
template <class F>
void on_each_path(const DtnNormProblem& p, F&& body) {
  force_plain_dtn(true);
  body(Path::kPlain);
  force_plain_dtn(false);
  if (tensor_cores_take(forward_of(p, Outputs(p), kOnDevice))) body(Path::kTensor);
}

inline void run_both_passes(const DtnNormProblem& p, const Outputs& o) {
  run(cuda_queue(), forward_of(p, o, kOnDevice));
  run(cuda_queue(), backward_of(p, o, kOnDevice));
}

// Largest error, relative to the largest element.
struct Tolerance {
  double y, dx, sums, positions;  // sums: gradients of weight, bias and lambdas
};
// float32: 1e-5 on both paths, as on the CPU. Results stored in bfloat16 may also be off by their
// last rounding. For bfloat16 problems the tensor cores compute moments from 16-bit operands, and
// the passes exchange gradients in bfloat16. Each term of the position gradient is then a product
// of three rounded numbers. One of them, P, is rounded the same way for all terms.
inline Tolerance tolerance(Path path, DType dtype) {
  const double whole = 1e-5;
  if (dtype == DType::kFloat32) return {whole, whole, whole, whole};
  const double narrow = unit_roundoff(dtype);
  if (path == Path::kPlain) return {whole + narrow, whole + narrow, whole, whole};
  // A moment is the result of two products with matrices of 16 rows, in up to three parts each.
  return {whole + narrow, 2 * narrow, 0x1p-14 + truncation_bound(dtype, 2 * 3 * 16), 4 * narrow};
}

// Expected outputs.
struct DtnNormExpected {
  Doubles y;
  DenseDtn::Gradients gradients;
};
inline DtnNormExpected oracle(const DtnNormProblem& p) {
  return {p.dense.forward(), p.dense.backward(doubles(p.dy.host()))};
}
// Returns the results of the CPU kernels.
inline DtnNormExpected twin(const DtnNormProblem& p, const Outputs& o) {
  run(cpu_queue(), forward_of(p, o, kOnHost));
  run(cpu_queue(), backward_of(p, o, kOnHost));
  return {doubles(o.y.host()),
          {doubles(o.dx.host()), doubles(o.dweight.host()), doubles(o.dbias.host()),
           doubles(o.dlambda_mean.host()), doubles(o.dlambda_var.host()),
           doubles(o.dpos_weight.host())}};
}

// `factor` multiplies the tolerance; it is 2 where both sides may be off. `floor` is the scale for
// gradients that are zero in exact arithmetic.
inline void expect_outputs(const std::string& what, Path path, const DtnNormProblem& p,
                           const Outputs& o, const DtnNormExpected& want, double factor = 1,
                           double floor = 1e-30, const char* kernel = "dtn_norm") {
  const Tolerance allowed = tolerance(path, p.dtype);
  auto expect = [&](const char* name, const Twin& got, const Doubles& expected, double error,
                    double least) {
    expect_close(kernel, cat(what, " ", name), got.device(), expected, factor * error, least);
  };
  const auto& g = want.gradients;
  expect("y", o.y, want.y, allowed.y, 1e-30);
  expect("dx", o.dx, g.x, allowed.dx, floor);
  expect("dweight", o.dweight, g.weight, allowed.sums, 1e-30);
  expect("dbias", o.dbias, g.bias, allowed.sums, 1e-30);
  // A few numbers per head, each a sum of terms of either sign and of order 0.1. The sum may be
  // small by chance, so the scale of its error follows from the number of terms.
  const auto& d = p.dense;
  const double terms = 0.1 * std::sqrt(d.batch * d.tokens() * d.head_dim());
  expect("dlambda_mean", o.dlambda_mean, g.lambda_mean, allowed.sums, terms);
  expect("dlambda_var", o.dlambda_var, g.lambda_var, allowed.sums, terms);
  const bool cancels = path == Path::kTensor && p.dtype == DType::kBFloat16;
  expect("dpos_weight", o.dpos_weight, g.pos_weight, allowed.positions,
         cancels ? std::max(floor, d.position_terms(doubles(p.dy.host()))) : floor);
}

inline void expect_statistics(const std::string& what, const DtnNormProblem& p, const Outputs& o,
                              const Outputs& cpu) {
  const double allowed = 2 * tolerance(Path::kPlain, DType::kFloat32).sums;
  const Doubles pivot = doubles(cpu.pivot.host());
  expect_close("dtn_norm", what + " pivot", o.pivot.device(), pivot, allowed, 1);
  // token_mean is relative to a mean that is itself a rounded number.
  expect_close("dtn_norm", what + " token_mean", o.token_mean.device(),
               doubles(cpu.token_mean.host()), allowed, std::max(1.0, max_abs(pivot)));
  expect_close("dtn_norm", what + " token_var", o.token_var.device(), doubles(cpu.token_var.host()),
               allowed);
  if (p.dense.official) {
    expect_close("dtn_norm", what + " head_rstd", o.head_rstd.device(),
                 doubles(cpu.head_rstd.host()), 1e-14);
  }
}

enum class Runs { kEverySchedule, kOnce };

inline void check(const DtnNormProblem& p, Runs runs = Runs::kEverySchedule, double floor = 1e-30) {
  const DtnNormExpected dense = oracle(p);
  const Outputs host(p);
  const DtnNormExpected cpu = twin(p, host);
  on_each_path(p, [&](Path path) {
    const std::string what = p.name(name_of(path));
    SCOPED_TRACE(what);
    auto body = [&] {
      Outputs o(p);
      run_both_passes(p, o);
      expect_outputs(what + " oracle", path, p, o, dense, 1, floor);
      expect_outputs(what + " twin", path, p, o, cpu, 2, floor);
      expect_statistics(what + " twin", p, o, host);
      return o.all();
    };
    if (runs == Runs::kOnce) {
      body();
    } else {
      under_every_schedule(body);
    }
  });
}

}  // namespace dtn::test
