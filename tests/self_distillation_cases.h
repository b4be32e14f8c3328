// Cases of the self-distillation loss for the tests of operations, in any type and on any device.
#pragma once

#include "dtn/ops/self_distillation.h"
#include "op_runs.h"

namespace dtn::test {

// Sizes and settings of a loss.
struct SelfDistillationCase {
  std::int64_t samples, local_views, outputs, width;
  double student_temp = 0.5, teacher_temp = 0.3;

  std::string name() const {
    return cat("self_distillation n ", samples, " L ", local_views, " K ", outputs);
  }
  // Logits, direction and gain.
  std::vector<Input> inputs() const {
    return {Input::activation({(2 + local_views) * samples, outputs}, 1),
            Input::weight({outputs, width}, 2), Input::weight({outputs, 1}, 3, 0.5, 1)};
  }
  // `next_center` is undefined.
  ops::SelfDistillation options(DType dtype, Device device) const {
    const DType acc = accumulator_of(dtype);
    const auto input = [&](const Shape& shape, std::uint32_t stream, double mean, DType type) {
      return as(representable(random_tensor(shape, stream, 0.5, mean)), type).to(device);
    };
    ops::SelfDistillation how;
    how.teacher = input({2 * samples, outputs}, 4, 0, dtype);
    how.teacher_scale = input({outputs}, 5, 1, acc);
    how.center = input({1, outputs}, 6, 0, acc);
    how.center_share = 0.1;
    how.student_temp = student_temp;
    how.local_views = local_views;
    return how;
  }
};

inline const std::vector<SelfDistillationCase> kSelfDistillationCases = {
    {1, 0, 2, 3}, {3, 1, 7, 5}, {2, 8, 64, 16}, {9, 3, 300, 4}};

using SelfDistillationOp = ops::SelfDistillationLoss (*)(Context&, const Variable& logits,
                                                         const Variable& direction,
                                                         const Variable& gain,
                                                         const ops::SelfDistillation&);

// The loss as an operation on logits, direction and gain on `device`.
inline Op self_distillation_op(SelfDistillationOp op, const SelfDistillationCase& c,
                               Device device = kCpu) {
  const Tensor temperature = Tensor::full({1}, DType::kFloat64, c.teacher_temp, device);
  return [=](Context& ctx, const std::vector<Variable>& v) {
    ops::SelfDistillation how = c.options(v[0].dtype(), device);
    how.teacher_temp = static_cast<const double*>(temperature.raw());
    return op(ctx, v[0], v[1], v[2], how).loss;
  };
}

// The figures for the log, then the next centre.
inline std::vector<Doubles> self_distillation_figures(SelfDistillationOp op,
                                                      const SelfDistillationCase& c, DType dtype,
                                                      Device device = kCpu) {
  std::vector<Variable> v;
  for (const Input& input : c.inputs()) {
    v.emplace_back(as(input.value, input.parameter ? accumulator_of(dtype) : dtype).to(device));
  }
  const Tensor temperature = Tensor::full({1}, DType::kFloat64, c.teacher_temp, device);
  ops::SelfDistillation how = c.options(dtype, device);
  how.teacher_temp = static_cast<const double*>(temperature.raw());
  how.next_center = how.center.clone();
  Context ctx;
  const ops::SelfDistillationLoss r = op(ctx, v[0], v[1], v[2], how);
  std::vector<Doubles> figures;
  for (const Tensor& t : {r.loss.value(), r.teacher_entropy, r.center_norm, r.loss_global,
                          r.loss_local, how.next_center}) {
    figures.push_back(doubles(t.to(kCpu)));
  }
  return figures;
}

}  // namespace dtn::test
