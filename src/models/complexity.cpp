#include "dtn/models/complexity.h"

#include "core/meta_device.h"
#include "dtn/models/classifier.h"

namespace dtn {
namespace {

Fields inputs_of(const Backbone& backbone, std::int64_t samples) {
  Fields fields;
  for (const FieldSpec& spec : backbone.inputs()) {
    fields[spec.name] = Tensor::empty(shape_of(spec, samples), spec.dtype, kMeta);
    if (spec.ragged) fields[lengths_of(spec.name)] = Tensor::empty({samples}, DType::kInt64, kMeta);
  }
  return fields;
}

// The logits, the features of a model without a head, or the image of an ImageModel.
Variable result_of(Classifier& model, Context& ctx, const Fields& inputs) {
  auto* images = dynamic_cast<ImageModel*>(&model.backbone());
  return images ? images->image(ctx, inputs) : model.forward(ctx, inputs);
}

KernelWork work_of_sample(Classifier& model, bool skip_unread) {
  Context ctx;
  ctx.mode.skip_unread = skip_unread;
  meta_queue().take_work();
  result_of(model, ctx, inputs_of(model.backbone(), 1));
  return meta_queue().take_work();
}

double bytes_kept(Classifier& model, DType compute, std::int64_t samples) {
  const Fields inputs = inputs_of(model.backbone(), samples);
  const std::int64_t before = meta_bytes_in_use();
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode = {.training = true, .compute = compute};
  const Variable result = result_of(model, ctx, inputs);
  return static_cast<double>(meta_bytes_in_use() - before);
}

// Returns the bytes per sample, without memory that does not grow with the samples, such as batch
// statistics. Compares 3 and 2 samples, because BatchNorm does not train on a single one.
double bytes_of_sample(Classifier& model, DType compute) {
  return bytes_kept(model, compute, 3) - bytes_kept(model, compute, 2);
}

}  // namespace

Complexity complexity_of(const ModelConfig& config, const ModelRegistry& models,
                         const NormRegistry& norms) {
  Classifier model(config, 0, DType::kFloat32, kMeta, models, norms);
  Complexity result;
  result.parameters = model.parameters().count();
  const KernelWork whole = work_of_sample(model, false);
  result.paper_multiply_adds = whole.paper_multiply_adds;
  result.multiply_adds = whole.multiply_adds;
  result.computed_multiply_adds = work_of_sample(model, true).multiply_adds;
  result.activation_bytes_fp32 = bytes_of_sample(model, DType::kFloat32);
  model.parameters().enable_bfloat16();
  result.activation_bytes_bf16 = bytes_of_sample(model, DType::kBFloat16);
  return result;
}

void try_training_pass(const ModelConfig& config, std::int64_t samples, const ModelRegistry& models,
                       const NormRegistry& norms) {
  Classifier model(config, 0, DType::kFloat32, kMeta, models, norms);
  bytes_kept(model, DType::kFloat32, samples);
  meta_queue().take_work();
}

}  // namespace dtn
