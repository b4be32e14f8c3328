#include "apps/bench/kernel_cases.h"

#include <algorithm>

#include "apps/bench/kernel_case_list.h"
#include "apps/estimate/run_size.h"
#include "dtn/models/complexity.h"
#include "kernels/image/images.h"
#include "kernels/loss/binary_cross_entropy.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/dino_loss.h"
#include "kernels/loss/weighted_cross_entropy.h"
#include "kernels/norm/weight_norm.h"
#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

StepShape step_of(const ExperimentConfig& config, Device device) {
  const ModelConfig& m = config.model;
  if (m.family != "vit") {
    throw ConfigError(cat("dtn-bench kernels measures only models of the family vit; ", m.preset,
                          " is of the family ", m.family));
  }
  if (m.num_classes == 0 && config.task != "dino") {
    throw ConfigError(
        "dtn-bench kernels measures a training step, which needs a loss; set model.num_classes");
  }
  StepShape s;
  s.config = config;
  s.device = device;
  s.t = config.train.precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  s.acc = accumulator_of(s.t);
  s.B = micro_batch(config.train);
  s.T_end = m.num_patches() + m.prefix_tokens();
  s.T = m.grid_blocks() > 0 ? m.num_patches() : s.T_end;
  s.C = m.embed_dim;
  s.H = m.num_heads;
  s.D = s.C / s.H;
  s.hidden = m.mlp_dim();
  s.drops = m.drop_path > 0;
  s.fused_residual = device == kCpu || !s.drops;
  return s;
}

void add_image_cases(CaseList& cases, const StepShape& s) {
  const ModelConfig& c = s.config.model;
  const std::int64_t P = c.patch_size, planes = c.channels;
  const std::int64_t height = c.image_size.height, width = c.image_size.width;
  const Shape images = {s.B, planes, height, width};
  cases.add("normalize_images", {s.B, planes, height, width}, [=](KernelTensors& m) {
    return NormalizeImages{s.B,
                           planes,
                           height,
                           width,
                           m.below(256, {s.B, height, width, planes}, DType::kUInt8),
                           m.below(2, {s.B}, DType::kUInt8),
                           m.in({planes, 256}, DType::kFloat32),
                           m.out(images, DType::kFloat32)};
  });
  const Shape patches = {s.B, c.num_patches(), planes * P * P};
  cases.add("patchify", {s.B, planes, height, width}, [=](KernelTensors& m) {
    return Patchify{
        s.t, s.B, planes, height, width, P, m.in(images, DType::kFloat32), m.out(patches, s.t)};
  });
  const std::int64_t row = c.num_patches() * s.C;
  cases.add("add_positions", {s.B, row}, [=](KernelTensors& m) {
    return AddToRows{
        s.t, s.B, row, m.in({s.B, row}, s.t), m.in({row}, s.acc), m.out({s.B, row}, s.t)};
  });
  cases.add("position_sums", {s.B, row}, [=](KernelTensors& m) {
    return SumRows{s.t, s.B, row, m.in({s.B, row}, s.t), m.in_out({row}, s.acc)};
  });
}

void add_binary_loss_cases(CaseList& cases, const StepShape& s) {
  const std::int64_t K = s.config.model.num_classes;
  const TrainConfig& train = s.config.train;
  const double share = train.bce_sum ? 1 : 1 / static_cast<double>(K);
  constexpr DType kType = DType::kFloat32;
  const auto against = [=](KernelTensors& m) {
    return BinaryTargets{{.labels = m.below(static_cast<double>(K), {s.B}, DType::kInt64),
                          .smoothing = train.label_smoothing},
                         train.bce_target_threshold.has_value(),
                         train.bce_target_threshold.value_or(0)};
  };
  cases.add("binary_cross_entropy_fwd", {s.B, K}, [=](KernelTensors& m) {
    return BinaryCrossEntropyForward{
        kType, s.B, K, m.in({s.B, K}, kType), against(m), share, m.out({s.B}, kType)};
  });
  cases.add("binary_cross_entropy_bwd", {s.B, K}, [=](KernelTensors& m) {
    return BinaryCrossEntropyBackward{.dtype = kType,
                                      .rows = s.B,
                                      .classes = K,
                                      .logits = m.in({s.B, K}, kType),
                                      .against = against(m),
                                      .scale = share / static_cast<double>(s.B),
                                      .dlogits = m.out({s.B, K}, kType),
                                      .upstream = m.in({1}, kType)};
  });
}

// The loss of the task dino, for the views of all images of a micro-batch.
void add_dino_cases(CaseList& cases, const StepShape& s) {
  const DinoConfig& dino = s.config.dino;
  const std::int64_t locals = dino.local_crops, K = dino.out_dim, D = dino.bottleneck_dim;
  const std::int64_t rows = (2 + locals) * s.B;
  constexpr DType kType = DType::kFloat32;
  const auto inputs = [=, t = s.t, n = s.B](KernelTensors& m, const void* student) {
    return DinoLossInputs{t,
                          n,
                          locals,
                          K,
                          student,
                          m.in({2 * n, K}, t),
                          m.in({K}, kType),
                          m.in({K}, kType),
                          m.in({K}, kType),
                          dino.student_temp,
                          m.copy(Tensor::full({1}, DType::kFloat64, dino.teacher_temp))};
  };
  cases.add("dino_loss_fwd", {s.B, 2 + locals, K}, [=, t = s.t, n = s.B](KernelTensors& m) {
    return DinoLossForward{inputs(m, m.in({rows, K}, t)),
                           m.out({rows}, kType),
                           m.out({2 * n}, kType),
                           m.out({1}, kType),
                           m.out({1}, kType),
                           m.out({1}, kType),
                           m.out({1}, kType),
                           m.out({1}, kType)};
  });
  cases.add("dino_loss_bwd", {s.B, 2 + locals, K}, [=, t = s.t, n = s.B](KernelTensors& m) {
    void* logits = m.in_out({rows, K}, t);  // the gradient overwrites the logits
    return DinoLossBackward{
        inputs(m, logits), m.in({rows}, kType), m.in({2 * n}, kType), m.in({1}, kType), logits,
        m.out({K}, kType)};
  });
  cases.add("weight_norm_scale", {K, D}, [=](KernelTensors& m) {
    return WeightNormScale{
        kType, K, D, m.in({K, D}, kType), m.in({K}, kType), m.out({K}, kType), m.out({K}, kType)};
  });
  cases.add("weight_norm_bwd", {K, D}, [=](KernelTensors& m) {
    return WeightNormBackward{kType,
                              K,
                              D,
                              m.in({K, D}, kType),
                              m.in({K}, kType),
                              m.in({K}, kType),
                              m.in({K}, kType),
                              m.in_out({K}, kType),
                              m.in_out({K, D}, kType)};
  });
}

void add_weighted_loss_cases(CaseList& cases, const StepShape& s) {
  const std::int64_t K = s.config.model.num_classes;
  const TrainConfig& train = s.config.train;
  constexpr DType kType = DType::kFloat32;
  const auto inputs = [=, n = s.B](KernelTensors& m) {
    const std::int64_t* labels = m.below(static_cast<double>(K), {n}, DType::kInt64);
    const void* weights = nullptr;
    if (train.class_weights.any()) weights = m.copy(Tensor::full({K}, kType, 1)).address;
    return WeightedCrossEntropyInputs{{.labels = labels, .smoothing = train.label_smoothing},
                                      kType,
                                      n,
                                      K,
                                      m.in({n, K}, kType),
                                      weights,
                                      train.focal_exponent()};
  };
  cases.add("weighted_cross_entropy_fwd", {s.B, K}, [=, n = s.B](KernelTensors& m) {
    return WeightedCrossEntropyForward{inputs(m), m.out({n}, kType), m.out({n}, kType)};
  });
  cases.add("weighted_cross_entropy_bwd", {s.B, K}, [=, n = s.B](KernelTensors& m) {
    return WeightedCrossEntropyBackward{inputs(m), m.in({n}, kType), 1 / static_cast<double>(n),
                                        m.out({n, K}, kType), m.in({1}, kType)};
  });
}

void add_loss_cases(CaseList& cases, const StepShape& s) {
  if (s.config.task == "dino") return add_dino_cases(cases, s);
  const std::int64_t K = s.config.model.num_classes;
  const double smoothing = s.config.train.label_smoothing;
  const auto classes = static_cast<double>(K);
  constexpr DType kType = DType::kFloat32;
  const TrainConfig& train = s.config.train;
  if (train.loss == LossKind::kBinary) return add_binary_loss_cases(cases, s);
  if (train.class_weights.any() || train.loss == LossKind::kFocal) {
    return add_weighted_loss_cases(cases, s);
  }
  const auto targets = [=](KernelTensors& m) {
    return ClassTargets{.labels = m.below(classes, {s.B}, DType::kInt64), .smoothing = smoothing};
  };
  cases.add("cross_entropy_fwd", {s.B, K}, [=](KernelTensors& m) {
    return CrossEntropyForward{
        targets(m), kType, s.B, K, m.in({s.B, K}, kType), m.out({s.B}, kType), m.out({s.B}, kType)};
  });
  cases.add("cross_entropy_bwd", {s.B, K}, [=](KernelTensors& m) {
    return CrossEntropyBackward{targets(m),
                                kType,
                                s.B,
                                K,
                                m.in({s.B, K}, kType),
                                m.in({s.B}, kType),
                                1 / static_cast<double>(s.B),
                                m.out({s.B, K}, kType),
                                m.in({1}, kType)};
  });
}

template <class Arguments>
Arguments update_of(KernelTensors& m, const StepShape& s, std::int64_t count) {
  Arguments args{};
  args.count = count;
  args.param = m.in_out({count}, DType::kFloat32);
  args.grad = m.in({count}, DType::kFloat32);
  if (s.t == DType::kBFloat16) args.param_bf16 = m.out({count}, DType::kBFloat16);
  args.lr = s.config.optim.lr;
  args.weight_decay = s.config.optim.weight_decay;
  if constexpr (requires { args.t; }) args.t = 1000;
  if constexpr (requires { args.m; }) args.m = m.in_out({count}, DType::kFloat32);
  if constexpr (requires { args.v; }) args.v = m.positive_in_out({count}, DType::kFloat32);
  if constexpr (requires { args.beta1; }) {
    args.beta1 = s.config.optim.beta1;
    args.beta2 = s.config.optim.beta2;
  }
  if constexpr (requires { args.eps; }) args.eps = s.config.optim.eps.value();
  return args;
}

void add_update_cases(CaseList& cases, const StepShape& s) {
  const OptimConfig& optim = s.config.optim;
  const std::int64_t count = complexity_of(s.config.model).parameters;
  constexpr DType kType = DType::kFloat32;
  cases.add("gradient_norm", {count}, [=](KernelTensors& m) {
    return SumSquares{count, m.in({count}, kType), m.out({1}, DType::kFloat64)};
  });
  if (optim.name == "adamw") {
    cases.add("adamw", {count},
              [=](KernelTensors& m) { return update_of<AdamWStep>(m, s, count); });
  } else if (optim.name == "sgd") {
    cases.add("sgd", {count}, [=](KernelTensors& m) {
      auto args = update_of<SgdStep>(m, s, count);
      args.momentum = optim.momentum.value();
      args.nesterov = optim.nesterov.value_or(false);
      if (args.momentum != 0) args.momentum_buffer = m.in_out({count}, kType);
      return args;
    });
  } else if (optim.name == "lamb") {
    // With the trust ratio of a single tensor. The chunks of a whole model are as many.
    cases.add("lamb", {count}, [=](KernelTensors& m) {
      auto args = update_of<LambStep>(m, s, count);
      std::vector<std::int64_t> chunks;  // a TensorChunk each
      for (std::int64_t i = 0; i < count; i += kTensorChunk) {
        chunks.insert(chunks.end(), {i, std::min(i + kTensorChunk, count), 0});
      }
      const auto n = static_cast<std::int64_t>(chunks.size()) / 3;
      const std::vector<std::int64_t> first_chunk = {0, n};
      args.tensors = {n, 1, m.copy(Tensor::from(chunks, {n, 3})),
                      m.copy(Tensor::from(first_chunk, {2}))};
      return args;
    });
  } else if (optim.name == "lion") {
    cases.add("lion", {count}, [=](KernelTensors& m) { return update_of<LionStep>(m, s, count); });
  }
  if (s.config.train.ema) {
    cases.add("ema", {count}, [=, decay = *s.config.train.ema](KernelTensors& m) {
      return EmaStep{count, m.in_out({count}, kType), m.in({count}, kType), decay};
    });
  }
}

}  // namespace

KernelTensors::Address KernelTensors::take(const Shape& shape, DType dtype, Use use, double low,
                                           double high) {
  Tensor t = Tensor::empty(shape, dtype, device_);
  if (use != kOut) values_.fill(t, low, high);
  bytes_ += static_cast<double>(t.nbytes()) * (use == kInOut ? 2 : 1);
  tensors_.push_back(t);
  return {t.raw()};
}

KernelTensors::Address KernelTensors::copy(const Tensor& values) {
  Tensor t = values.to(device_);
  bytes_ += static_cast<double>(t.nbytes());
  tensors_.push_back(t);
  return {t.raw()};
}

std::vector<KernelCase> kernel_cases(const ExperimentConfig& config, Device device) {
  const StepShape s = step_of(config, device);
  CaseList cases(device);
  add_image_cases(cases, s);
  add_linear_cases(cases, s);
  add_token_cases(cases, s);
  add_loss_cases(cases, s);
  add_update_cases(cases, s);
  return cases.take();
}

}  // namespace dtn
