// Attention problem that runs on the device, and on the host in float64; the error bounds.
#pragma once

#include "cuda/twin.h"
#include "kernels/attention/attention.h"

namespace dtn::test {

using std::int64_t;

struct AttentionSize {
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

inline std::string name(const AttentionSize& s, DType dtype) {
  return cat("B ", s.b, " T ", s.t, " H ", s.h, " D ", s.d, " ", name_of(dtype));
}

// A problem in float64 whose numbers bfloat16 represents exactly, so every type has the same
// numbers.
struct AttentionProblem {
  AttentionSize size;
  double scale;
  Tensor qkv, dout;
  Tensor pos_weight;  // [H, 3]; undefined: no bias
  int64_t grid_h = 0, grid_w = 0;

  explicit AttentionProblem(const AttentionSize& s, double spread = 2)
      : size(s),
        scale(s.scale()),
        qkv(representable(random_tensor(s.qkv(), 1, spread))),
        dout(representable(random_tensor(s.out(), 2))) {}

  // Tokens on a grid. Each head attends to tokens near some offset.
  static AttentionProblem on_grid(int64_t b, int64_t grid_h, int64_t grid_w, int64_t h, int64_t d) {
    AttentionProblem p({b, grid_h * grid_w, h, d});
    p.grid_h = grid_h, p.grid_w = grid_w;
    p.pos_weight = representable(random_tensor({h, 3}, 3, 1, -0.5));
    for (int64_t i = 0; i < h; ++i) p.pos_weight.data<double>()[3 * i + 2] = -0.375;
    return p;
  }
};

struct AttentionResult {
  Tensor out, lse, dqkv;
  Tensor dpos;  // only with a bias; accumulated
  std::vector<Tensor> all() const {
    if (!dpos.defined()) return {out, lse, dqkv};
    return {out, lse, dqkv, dpos};
  }
};

template <class Queue>
AttentionResult run_on_queue(Queue& queue, Where where, const AttentionProblem& p, DType dtype,
                             bool dpos_wanted = true) {
  const AttentionSize& s = p.size;
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
  AttentionResult r = where == kOnHost
                          ? AttentionResult{out.host(), lse.host(), dqkv.host(), {}}
                          : AttentionResult{out.device(), lse.device(), dqkv.device(), {}};
  if (p.pos_weight.defined()) r.dpos = where == kOnHost ? dpos.host() : dpos.device();
  return r;
}
inline AttentionResult on_host(const AttentionProblem& p, DType dtype) {
  return run_on_queue(cpu_queue(), kOnHost, p, dtype);
}
inline AttentionResult on_device(const AttentionProblem& p, DType dtype) {
  return run_on_queue(cuda_queue(), kOnDevice, p, dtype);
}

// Returns dq, dk or dv as [B T, H D].
inline Tensor part_of(const Tensor& dqkv, const AttentionSize& s, int64_t part) {
  int64_t row = s.h * s.d;
  Tensor slice = Tensor::empty({s.b * s.t, row}, dqkv.dtype());
  for (int64_t i = 0; i < s.b * s.t; ++i) {
    std::memcpy(static_cast<char*>(slice.raw()) + i * row * size_of(dqkv.dtype()),
                static_cast<const char*>(dqkv.raw()) + (i * 3 + part) * row * size_of(dqkv.dtype()),
                row * size_of(dqkv.dtype()));
  }
  return slice;
}

// Error bound. `roundings` counts the roundings to bfloat16 that affect a result. These are p and
// out for out; p and dv for dv; out (through delta), ds and the gradient itself for dq and dk. Each
// is a relative error of the terms of a sum, and the errors add up as the terms do. float32
// computes four consecutive sums, of D and of T terms; an error of a score or of lse is then a
// relative error of p.
inline double error_bound(const AttentionSize& s, DType dtype, double largest_lse, int roundings) {
  double u = unit_roundoff(DType::kFloat32);
  double bound = u * (4 * std::sqrt(static_cast<double>(s.t + s.d)) + 4 * largest_lse);
  return dtype == DType::kBFloat16 ? bound + roundings * unit_roundoff(dtype) : bound;
}

inline void expect_close_to(const AttentionResult& got, const AttentionResult& want,
                            const AttentionProblem& p, DType dtype) {
  const AttentionSize& s = p.size;
  std::string what = name(s, dtype);
  double lse = max_abs(doubles(want.lse));
  expect_close("attention_forward", what + " out", got.out, doubles(want.out),
               error_bound(s, dtype, lse, 2));
  // lse stays in float32; 2^x by the special function unit adds an error of two units.
  expect_close("attention_forward", what + " lse", got.lse, doubles(want.lse),
               error_bound(s, DType::kFloat32, 1, 0), 1);
  // With one token dq and dk are 0 except for rounding.
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

inline void expect_matches(const AttentionProblem& p, DType dtype) {
  SCOPED_TRACE(name(p.size, dtype));
  AttentionResult want = on_host(p, DType::kFloat64);
  under_every_schedule([&] {
    AttentionResult got = on_device(p, dtype);
    expect_close_to(got, want, p, dtype);
    return got.all();
  });
}

// Expects that a NaN or an infinity in one place affects exactly the same results as on the CPU.
inline void expect_same_spread(const AttentionSize& s, int64_t token, int part, double value,
                               DType dtype) {
  SCOPED_TRACE(cat(name(s, dtype), " token ", token, " part ", part, " value ", value));
  AttentionProblem p(s);
  int64_t channel = s.d - 1;
  (part == 3 ? p.dout.data<double>()[s.at(token, 0, channel)]
             : p.qkv.data<double>()[s.at(token, part, 0, channel)]) = value;
  AttentionResult want = on_host(p, DType::kFloat64), got = on_device(p, dtype);
  for (std::size_t k = 0; k < 3; ++k) {
    Doubles g = doubles(got.all()[k]), w = doubles(want.all()[k]);
    for (std::size_t i = 0; i < g.size(); ++i) {
      ASSERT_EQ(std::isnan(g[i]), std::isnan(w[i])) << "result " << k << ", element " << i;
      if (!std::isinf(w[i])) continue;
      ASSERT_EQ(g[i], w[i]) << "result " << k << ", element " << i;
    }
  }
}

}  // namespace dtn::test
