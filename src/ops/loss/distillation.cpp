#include <algorithm>

#include "dtn/ops/loss.h"
#include "dtn/ops/primitive.h"
#include "kernels/loss/hard_targets.h"
#include "ops/host_constant.h"
#include "ops/loss/log_softmax.h"

namespace dtn::ops {
namespace {

void check_teacher(const Variable& logits, const Tensor& teacher) {
  DTN_CHECK(teacher.defined() && teacher.shape() == logits.value().shape() &&
                teacher.dtype() == accumulator_of(logits.dtype()),
            "the teacher's logits must have the shape of the student's, ",
            to_string(logits.value().shape()), ", and their accumulator type");
}

}  // namespace

Variable distillation(Context& ctx, const Variable& logits, const Tensor& teacher,
                      const DistillOptions& options) {
  check_teacher(logits, teacher);
  Targets targets;
  if (options.hard) {
    targets.soft = Tensor::empty_like(teacher);
    run_on(teacher.device(), HardTargets{teacher.dtype(), teacher.dim(0), teacher.dim(1),
                                         teacher.raw(), targets.soft.raw()});
    return cross_entropy(ctx, logits, targets).mean;
  }
  // KL is the cross-entropy minus the entropy of the teacher. The entropy is the teacher's
  // cross-entropy with itself.
  const double T = options.temperature;
  Context unrecorded;
  const Variable cooled = primitive::affine(unrecorded, Variable(teacher), 1 / T);
  targets.soft = primitive::softmax(unrecorded, cooled).value();
  const Variable entropy = cross_entropy(unrecorded, cooled, targets).mean;
  const Variable student = primitive::affine(ctx, primitive::upcast(ctx, logits), 1 / T);
  const Variable divergence =
      primitive::sub(ctx, cross_entropy(ctx, student, targets).mean, entropy);
  const double share = options.mean ? 1 / static_cast<double>(teacher.dim(1)) : 1;
  return primitive::affine(ctx, divergence, T * T * share);
}

namespace reference {
using namespace primitive;

namespace {

// Returns 1 for the first class with the largest logit, else 0.
Tensor first_of_largest(const Tensor& logits) {
  const Tensor host = primitive::cast_tensor(logits.to(kCpu), DType::kFloat64);
  const std::int64_t classes = logits.dim(1);
  return host_constant(logits.shape(), logits.dtype(), logits.device(), [&](std::int64_t i) {
    const double* row = host.data<double>() + i / classes * classes;
    return std::max_element(row, row + classes) - row == i % classes ? 1.0 : 0.0;
  });
}

}  // namespace

Variable distillation(Context& ctx, const Variable& logits, const Tensor& teacher,
                      const DistillOptions& options) {
  const Variable wide = upcast(ctx, logits), t(teacher);
  const auto mean_row = [&](const Variable& each) {
    return reshape(ctx, mean(ctx, sum(ctx, each, 1), 0), {1});
  };
  if (options.hard) {
    return neg(ctx,
               mean_row(mul(ctx, log_softmax(ctx, wide), Variable(first_of_largest(teacher)))));
  }
  const double T = options.temperature;
  const Variable log_p = log_softmax(ctx, affine(ctx, wide, 1 / T));
  const Variable log_q = log_softmax(ctx, affine(ctx, t, 1 / T));
  const Variable divergence = mean_row(mul(ctx, exp(ctx, log_q), sub(ctx, log_q, log_p)));
  const double share = options.mean ? 1 / static_cast<double>(teacher.dim(1)) : 1;
  return affine(ctx, divergence, T * T * share);
}

}  // namespace reference
}  // namespace dtn::ops
