#include "dtn/ops/self_distillation.h"

#include "dtn/ops/primitive.h"
#include "kernels/loss/dino_loss.h"
#include "kernels/norm/weight_norm.h"
#include "ops/host_constant.h"

namespace dtn::ops {
namespace {

bool is_row_of(const Tensor& t, std::int64_t outputs, DType dtype) {
  return t.defined() && t.numel() == outputs && t.dtype() == dtype;
}

void check_weight_norm(const Tensor& direction, const Tensor& gain) {
  DTN_CHECK(direction.rank() == 2 && is_row_of(gain, direction.dim(0), direction.dtype()),
            "weight normalisation needs a gain for each row of the direction ",
            to_string(direction.shape()), ", not ", to_string(gain.shape()));
}

void check_inputs(const Variable& logits, const Variable& direction, const Variable& gain,
                  const SelfDistillation& how) {
  check_weight_norm(direction.value(), gain.value());
  const std::int64_t outputs = direction.dim(0);
  const DType acc = accumulator_of(logits.dtype());
  DTN_CHECK(how.teacher_temp || logits.device().type == DeviceType::kMeta,
            "self-distillation needs the teacher's temperature");
  DTN_CHECK(
      how.local_views >= 0 && how.student_temp > 0,
      "self-distillation needs 0 or more local views and a positive student temperature, not ",
      how.local_views, " and ", how.student_temp);
  DTN_CHECK(how.teacher.defined() && how.teacher.rank() == 2 && how.teacher.dim(0) >= 2 &&
                how.teacher.dim(0) % 2 == 0 && how.teacher.dim(1) == outputs &&
                how.teacher.dtype() == logits.dtype(),
            "the teacher's logits must have two rows for each sample, ", outputs,
            " columns and the student's type");
  const std::int64_t rows = how.teacher.dim(0) / 2 * (2 + how.local_views);
  DTN_CHECK(logits.shape() == Shape({rows, outputs}) && direction.dtype() == acc,
            "the student's logits must be ", to_string(Shape({rows, outputs})), ", not ",
            to_string(logits.shape()), ", and the direction ", name_of(acc));
  DTN_CHECK(is_row_of(how.teacher_scale, outputs, acc) && is_row_of(how.center, outputs, acc),
            "the teacher's scale and the centre must have ", outputs, " values of ", name_of(acc));
  DTN_CHECK(!how.next_center.defined() || (is_row_of(how.next_center, outputs, acc) &&
                                           how.next_center.raw() != how.center.raw()),
            "the next centre must have the size of the centre, and memory of its own");
}

DinoLossInputs kernel_inputs(const Tensor& logits, const Tensor& scale,
                             const SelfDistillation& how) {
  return {.dtype = logits.dtype(),
          .samples = how.teacher.dim(0) / 2,
          .local_views = how.local_views,
          .outputs = logits.dim(1),
          .student = logits.raw(),
          .teacher = how.teacher.raw(),
          .student_scale = scale.raw(),
          .teacher_scale = how.teacher_scale.raw(),
          .center = how.center.raw(),
          .student_temp = how.student_temp,
          .teacher_temp = how.teacher_temp};
}

// Values for the log, and those that the backward pass needs.
struct ForwardResults {
  Tensor loss, loss_global, loss_local, teacher_entropy, center_norm;  // [1]
  Tensor student_lse, teacher_lse;                                     // [rows]
};

ForwardResults run_forward(const DinoLossInputs& in, Device device) {
  const auto make = [&, acc = accumulator_of(in.dtype)](std::int64_t size) {
    return Tensor::empty({size}, acc, device);
  };
  ForwardResults r{make(1),
                   make(1),
                   make(1),
                   make(1),
                   make(1),
                   make(in.samples * in.views()),
                   make(2 * in.samples)};
  run_on(device, DinoLossForward{in, r.student_lse.raw(), r.teacher_lse.raw(), r.loss.raw(),
                                 r.loss_global.raw(), r.loss_local.raw(), r.teacher_entropy.raw(),
                                 r.center_norm.raw()});
  return r;
}

void update_next_center(const DinoLossInputs& in, const SelfDistillation& how) {
  if (!how.next_center.defined()) return;
  Tensor next = how.next_center;
  run_on(next.device(), DinoCenterStep{in.dtype, 2 * in.samples, in.outputs, in.teacher,
                                       in.teacher_scale, in.center, how.center_share, next.raw()});
}

// Scale of the student's logits.
struct StudentScale {
  Tensor scale, inverse_length;  // [K]
};

StudentScale student_scale(const Tensor& direction, const Tensor& gain) {
  const auto make = [&] {
    return Tensor::empty({direction.dim(0)}, direction.dtype(), direction.device());
  };
  StudentScale s{make(), make()};
  run_on(direction.device(),
         WeightNormScale{direction.dtype(), direction.dim(0), direction.dim(1), direction.raw(),
                         gain.raw(), s.scale.raw(), s.inverse_length.raw()});
  return s;
}

// Parameters of the weight normalisation in the backward pass.
struct WeightNormSaved {
  Tensor direction, gain, inverse_length;
  GradSink ddirection, dgain;

  void backward(const Tensor& sums) const {
    if (!ddirection && !dgain) return;
    WeightNormBackward args{direction.dtype(), direction.dim(0), direction.dim(1),
                            direction.raw(),   gain.raw(),       inverse_length.raw(),
                            sums.raw()};
    const auto buffer = [&](const GradSink& sink, const Tensor& value) {
      return sink ? sink->buffer(value.shape(), value.dtype(), value.device()).raw() : nullptr;
    };
    args.dgain = buffer(dgain, gain);
    args.ddirection = buffer(ddirection, direction);
    run_on(direction.device(), args);
  }
};

}  // namespace

Tensor weight_norm_scale(Context&, const Tensor& direction, const Tensor& gain) {
  check_weight_norm(direction, gain);
  Tensor scale = Tensor::empty({direction.dim(0)}, direction.dtype(), direction.device());
  run_on(direction.device(), WeightNormScale{direction.dtype(), direction.dim(0), direction.dim(1),
                                             direction.raw(), gain.raw(), scale.raw()});
  return scale;
}

SelfDistillationLoss self_distillation(Context& ctx, const Variable& logits,
                                       const Variable& direction, const Variable& gain,
                                       const SelfDistillation& how) {
  check_inputs(logits, direction, gain, how);
  const StudentScale student = student_scale(direction.value(), gain.value());
  const DinoLossInputs in = kernel_inputs(logits.value(), student.scale, how);
  const ForwardResults r = run_forward(in, logits.device());
  update_next_center(in, how);
  const WeightNormSaved norm{direction.value(), gain.value(), student.inverse_length,
                             direction.sink(), gain.sink()};
  Variable loss = ctx.record(
      "self_distillation", r.loss, {&logits, &direction, &gain},
      [norm, how, scale = student.scale, student_lse = r.student_lse, teacher_lse = r.teacher_lse,
       logits = logits.value(), dlogits = logits.sink()](const Tensor& dy) {
        Tensor grad = logits.unique() ? logits : Tensor::empty_like(logits);
        Tensor sums = Tensor::empty_like(scale);
        run_on(dy.device(), DinoLossBackward{kernel_inputs(logits, scale, how), student_lse.raw(),
                                             teacher_lse.raw(), dy.raw(), grad.raw(), sums.raw()});
        if (dlogits) dlogits->accumulate(std::move(grad));
        norm.backward(sums);
      });
  return {loss, r.teacher_entropy, r.center_norm, r.loss_global, r.loss_local};
}

namespace reference {
using namespace primitive;

namespace {

// Reads a number from the memory of the device.
double value_on_device(const double* value, Device device) {
  const std::shared_ptr<std::byte> borrowed(
      std::shared_ptr<void>(), reinterpret_cast<std::byte*>(const_cast<double*>(value)));
  return *Tensor::wrap(borrowed, 0, {1}, DType::kFloat64, device).to(kCpu).data<double>();
}

Variable log_softmax_of_last(Context& ctx, const Variable& x) {
  const Variable shifted = sub(ctx, x, detach(max(ctx, x, -1)));
  return sub(ctx, shifted, log(ctx, sum(ctx, exp(ctx, shifted), -1)));
}

// Orders rows by sample and view: [n, 2 + L, K].
Variable by_sample(Context& ctx, const Variable& rows, std::int64_t samples, std::int64_t locals) {
  const std::int64_t outputs = rows.dim(1);
  Variable global = reshape(ctx, narrow(ctx, rows, 0, 0, 2 * samples), {samples, 2, outputs});
  if (locals == 0) return global;
  const Variable local = narrow(ctx, rows, 0, 2 * samples, rows.dim(0));
  return concat(ctx, global, reshape(ctx, local, {samples, locals, outputs}), 1);
}

// log p of the student's views, [n, 2 + L, K].
Variable student_log_softmax(Context& ctx, const Variable& logits, const Variable& direction,
                             const Variable& gain, const SelfDistillation& how) {
  const std::int64_t outputs = logits.dim(1);
  const Variable length = sqrt(ctx, sum(ctx, mul(ctx, direction, direction), 1));  // [K, 1]
  const Variable scale = div(ctx, reshape(ctx, gain, {outputs, 1}), length);
  const Variable scaled = mul(ctx, upcast(ctx, logits), reshape(ctx, scale, {1, outputs}));
  const Variable w = affine(ctx, scaled, 1 / how.student_temp);
  return log_softmax_of_last(ctx, by_sample(ctx, w, how.teacher.dim(0) / 2, how.local_views));
}

// The teacher's scaled logits, log q and q, each [2 n, K].
struct TeacherOutputs {
  Variable logits, log_q, q;
};

TeacherOutputs teacher_outputs(const SelfDistillation& how) {
  Context unrecorded;
  const Shape row = {1, how.teacher.dim(1)};
  TeacherOutputs t;
  t.logits = mul(unrecorded, upcast(unrecorded, Variable(how.teacher)),
                 Variable(how.teacher_scale.reshape(row)));
  const Variable centered = sub(unrecorded, t.logits, Variable(how.center.reshape(row)));
  const double temp = value_on_device(how.teacher_temp, how.teacher.device());
  t.log_q = log_softmax_of_last(unrecorded, affine(unrecorded, centered, 1 / temp));
  t.q = exp(unrecorded, t.log_q);
  return t;
}

void move_next_center(const Variable& teacher, const SelfDistillation& how) {
  if (!how.next_center.defined()) return;
  Context unrecorded;
  const Shape row = {1, teacher.dim(1)};
  const Variable step =
      sub(unrecorded, mean(unrecorded, teacher, 0), Variable(how.center.reshape(row)));
  Tensor next = how.next_center;
  next.copy_from(
      add(unrecorded, Variable(next.reshape(row)), affine(unrecorded, step, how.center_share))
          .value());
}

// -sum_k q_ak log p_bk of all rows a and b of a sample, [n, 2, views].
Variable cross_entropies(Context& ctx, const Variable& q, const Variable& log_p) {
  const std::int64_t n = log_p.dim(0), views = log_p.dim(1), outputs = log_p.dim(2);
  const Variable products =
      mul(ctx, reshape(ctx, q, {n, 2, 1, outputs}), reshape(ctx, log_p, {n, 1, views, outputs}));
  return neg(ctx, reshape(ctx, sum(ctx, products, -1), {n, 2, views}));
}

// Mean of the pairs [n, 2, views] of different views with begin <= b < end; 0 if there are none.
Variable mean_of_pairs(Context& ctx, const Variable& pairs, std::int64_t begin, std::int64_t end) {
  const std::int64_t views = pairs.dim(2);
  double number = 0;
  const Tensor counts =
      host_constant({2, views}, pairs.dtype(), pairs.device(), [&](std::int64_t i) {
        const std::int64_t a = i / views, b = i % views;
        const bool is_counted = a != b && begin <= b && b < end;
        number += is_counted;
        return is_counted ? 1.0 : 0.0;
      });
  const Variable kept = mul(ctx, pairs, Variable(counts));
  const Variable total = reshape(ctx, sum(ctx, mean(ctx, kept, 0), {1, 2}), {1});
  return affine(ctx, total, number > 0 ? 1 / number : 0);
}

}  // namespace

SelfDistillationLoss self_distillation(Context& ctx, const Variable& logits,
                                       const Variable& direction, const Variable& gain,
                                       const SelfDistillation& how) {
  check_inputs(logits, direction, gain, how);
  Context unrecorded;
  const TeacherOutputs t = teacher_outputs(how);
  const Variable log_p = student_log_softmax(ctx, logits, direction, gain, how);
  const Variable pairs = cross_entropies(ctx, t.q, log_p);
  move_next_center(t.logits, how);

  const Variable entropies = neg(unrecorded, sum(unrecorded, mul(unrecorded, t.q, t.log_q), 1));
  const Variable center(how.center.reshape({1, logits.dim(1)}));
  const Variable squares = sum(unrecorded, mul(unrecorded, center, center), 1);
  const std::int64_t views = 2 + how.local_views;
  return {mean_of_pairs(ctx, pairs, 0, views), mean(unrecorded, entropies, 0).value().reshape({1}),
          sqrt(unrecorded, squares).value().reshape({1}),
          mean_of_pairs(unrecorded, pairs, 0, 2).value(),
          mean_of_pairs(unrecorded, pairs, 2, views).value()};
}

}  // namespace reference
}  // namespace dtn::ops
