// Cases of the diffusion loss for the tests of operations, in any type and on any device.
#pragma once

#include "dtn/ops/diffusion.h"
#include "op_runs.h"

namespace dtn::test {

// The constants of 1000 steps with beta from 1e-4 to 0.02, straight from their definitions.
inline Tensor diffusion_schedule() {
  constexpr std::int64_t kSteps = 1000;
  Tensor table = Tensor::empty({kSteps, ops::kScheduleColumns}, DType::kFloat64);
  double* row = table.data<double>();
  double before = 1, second = 0;
  const auto beta_of = [](std::int64_t t) {
    return 1e-4 + (0.02 - 1e-4) * static_cast<double>(t) / (kSteps - 1);
  };
  for (std::int64_t t = 0; t < kSteps; ++t, row += ops::kScheduleColumns) {
    const double beta = beta_of(t), now = before * (1 - beta);
    const double variance = beta * (1 - before) / (1 - now);
    if (t == 1) second = variance;
    const double gap = beta / std::sqrt((1 - now) * (1 - beta));
    row[0] = std::sqrt(now), row[1] = std::sqrt(1 - now);
    row[2] = std::log(beta / variance), row[3] = std::log(variance);
    row[4] = gap, row[5] = t == 0 ? 0 : gap * gap / variance;
    before = now;
  }
  row = table.data<double>();
  row[2] = std::log(1e-4 / second), row[3] = std::log(second);
  return table;
}

// Sizes of a loss, and the time steps of its images.
struct DiffusionCase {
  std::vector<std::int64_t> time;
  std::int64_t channels, height, width;
  bool learned_variance;

  std::string name() const {
    return cat("diffusion B ", time.size(), " C ", channels, " ", height, " x ", width,
               learned_variance ? ", learned variance" : "");
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(time.size()); }
  Shape image() const { return {rows(), channels, height, width}; }
  Input output() const {
    Shape shape = image();
    if (learned_variance) shape = {rows(), 2 * channels, height, width};
    return Input::activation(shape, 1, 0.75);
  }
  // `dtype` is the type of the output. Some pixels are black or white, where the likelihood of the
  // first step has a tail. The noise is small enough that no likelihood is a difference of almost
  // equal masses, which central differences could not check.
  ops::DiffusionBatch batch(DType dtype, Device device) const {
    const DType acc = accumulator_of(dtype);
    Tensor start = representable(random_tensor(image(), 2));
    for (std::int64_t i = 0; i < start.numel(); i += 3) start.data<double>()[i] = i % 2 ? 1 : -1;
    return {as(start, acc).to(device), as(representable(random_tensor(image(), 3)), acc).to(device),
            Tensor::from(time, {rows()}).to(device), diffusion_schedule().to(device)};
  }
};

inline const std::vector<DiffusionCase> kDiffusionCases = {
    {{0}, 1, 1, 1, true},           {{0, 1, 250, 999, 0}, 2, 3, 5, true},
    {{999, 3, 0}, 1, 17, 31, true}, {{0, 1, 999}, 3, 4, 4, false},
    {{500, 0}, 1, 28, 28, false},
};

using DiffusionOp = std::function<Variable(Context&, const Variable&, const ops::DiffusionBatch&)>;

inline Variable fused_diffusion_loss(Context& ctx, const Variable& output,
                                     const ops::DiffusionBatch& batch) {
  return ops::diffusion_loss(ctx, output, batch).mean;
}

// The loss as an operation on the output, on `device`.
inline Op diffusion_op(const DiffusionOp& op, const DiffusionCase& c, Device device = kCpu) {
  return [=](Context& ctx, const std::vector<Variable>& v) {
    return op(ctx, v[0], c.batch(v[0].dtype(), device));
  };
}

}  // namespace dtn::test
