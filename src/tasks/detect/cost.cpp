#include "tasks/detect/cost.h"

#include "core/meta_device.h"
#include "dtn/models/detector.h"
#include "tasks/detect/samples.h"

namespace dtn {
namespace {

// Runs the model on the meta device. The results stay alive in `kept`.
void run_all(Detector& model, Context& ctx, const DataConfig& data, std::vector<Variable>& kept) {
  const PixelSize size = padded_size({data.scale_short, data.scale_long}, data);
  const Features levels =
      model.levels(ctx, Tensor::empty({1, 3, size.height, size.width}, DType::kFloat32, kMeta));
  for (const DensePrediction& level : model.predict(ctx, levels)) {
    kept.insert(kept.end(), {level.classes, level.boxes});
  }
  if (!model.has_regions()) return;
  const auto features = [&](std::int64_t regions, std::int64_t side) {
    const Shape shape{regions, side * side, model.config().detector.fpn_channels};
    return Variable(Tensor::empty(shape, ctx.mode.compute, kMeta), ctx.recording());
  };
  const RoiPrediction boxes =
      model.predict_boxes(ctx, features(kCountedRegions, Detector::kBoxSize));
  kept.insert(kept.end(), {boxes.classes, boxes.boxes});
  kept.push_back(model.predict_masks(ctx, features(kCountedMasks, Detector::kMaskSize)));
}

KernelWork work_of(Detector& model, const DataConfig& data, bool skip_unread) {
  Context ctx;
  ctx.mode.skip_unread = skip_unread;
  std::vector<Variable> kept;
  meta_queue().take_work();
  run_all(model, ctx, data, kept);
  return meta_queue().take_work();
}

double bytes_kept(Detector& model, const DataConfig& data, DType compute) {
  const std::int64_t before = meta_bytes_in_use();
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode = {.training = true, .compute = compute};
  std::vector<Variable> kept;
  run_all(model, ctx, data, kept);
  meta_queue().take_work();
  return static_cast<double>(meta_bytes_in_use() - before);
}

}  // namespace

Complexity detector_cost(const ExperimentConfig& config, const Registries& registries) {
  Detector model(config.model, 0, DType::kFloat32, kMeta, registries.models, registries.norms);
  Complexity cost;
  cost.parameters = model.parameters().count();
  const KernelWork whole = work_of(model, config.data, false);
  cost.paper_multiply_adds = whole.paper_multiply_adds;
  cost.multiply_adds = whole.multiply_adds;
  cost.computed_multiply_adds = work_of(model, config.data, true).multiply_adds;
  cost.activation_bytes_fp32 = bytes_kept(model, config.data, DType::kFloat32);
  model.parameters().enable_bfloat16();
  cost.activation_bytes_bf16 = bytes_kept(model, config.data, DType::kBFloat16);
  return cost;
}

}  // namespace dtn
