#include "dtn/tasks/translate.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"
#include "data/feed/single_sample.h"
#include "dtn/data/datasets.h"
#include "dtn/models/backbone.h"
#include "dtn/models/weights.h"
#include "dtn/ops/pixel_loss.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "dtn/tasks/registries.h"
#include "tasks/translate/meter.h"
#include "tasks/translate/pair_source.h"
#include "tasks/translate/picture_grid.h"

namespace dtn {
namespace {

constexpr std::int64_t kShownSamples = 8;

ImageModel* image_model_of(Classifier& network) {
  if (auto* model = dynamic_cast<ImageModel*>(&network.backbone())) return model;
  throw ConfigError(cat("the task translate needs a model that gives an image; model.preset ",
                        network.config().preset, " gives features"));
}

// Rows of two batches, one after the other.
Tensor stacked(const Tensor& first, const Tensor& second) {
  Context ctx;
  return first.defined() ? primitive::concat(ctx, Variable(first), Variable(second), 0).value()
                         : second;
}

// Samples from all parts of a source as a batch on the host. Their places in those parts differ, so
// that they do not all have the same of a few corruptions. Damaged samples are left out.
Fields some_samples(const SampleSource& source, std::uint64_t seed) {
  Fields batch;
  const std::int64_t count = std::min(kShownSamples, source.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t part = source.size() / count;
    try {
      for (const auto& [name, tensor] : single_sample(source, i * part + i % part, seed)) {
        batch[name] = stacked(batch[name], tensor);
      }
    } catch (const DataError&) {
      continue;
    }
  }
  return batch;
}

}  // namespace

Translate::Translate(const TaskSetup& setup)
    : device_(setup.device),
      config_(setup.config),
      registries_(setup.registries),
      network_(config_.model, config_.seed, DType::kFloat32, device_, registries_.models,
               registries_.norms),
      model_(image_model_of(network_)) {}

Translate::~Translate() = default;

std::shared_ptr<const SampleSource> Translate::source(Split split, Device) const {
  return translate_source(config_, registries_.datasets, split);
}

Variable Translate::loss(Context& ctx, const Fields& batch, std::vector<Term>& logged) {
  const TranslateConfig& weights = config_.translate;
  const ops::PixelLoss result =
      ops::pixel_loss(ctx, model_->image(ctx, batch), batch.at("target"), weights);
  const auto log = [&](const char* name, double weight, const Tensor& mean) {
    if (weight > 0) logged.push_back({name, mean});
  };
  log("l1", weights.l1, result.l1);
  log("l2", weights.l2, result.l2);
  log("charbonnier", weights.charbonnier, result.charbonnier);
  if (logged.size() == 1) logged.clear();  // it is the loss, but for its weight
  return result.loss;
}

Fields Translate::outputs(Context& ctx, const Fields& batch) {
  return {{"output", ops::cast(ctx, model_->image(ctx, batch), DType::kFloat32).value()}};
}

std::unique_ptr<Meter> Translate::meter() const {
  return std::make_unique<TranslateMeter>(config_.translate);
}

std::optional<TaskWarning> Translate::evaluation_warning(const Metrics& metrics, std::int64_t step,
                                                         const RunLength& run) const {
  if (run.steps > 0 && 2 * step < run.steps) return std::nullopt;
  const double output = metrics.at("psnr"), input = metrics.at("input_psnr");
  if (!(output < input)) return std::nullopt;  // no figure of the input: nothing to compare
  return TaskWarning{
      "worse_than_input",
      format("the model is worse than nothing: its outputs have PSNR %.2f dB, the unchanged inputs "
             "%.2f dB; train longer, or set model.residual: true, so that it starts from the input",
             output, input)};
}

std::optional<Period> Translate::picture_period() const {
  if (!has_validation(config_.data)) return std::nullopt;
  return config_.train.eval_every;
}

double Translate::picture_multiply_adds() {
  return static_cast<double>(kShownSamples) * cost().computed_multiply_adds;
}

Image Translate::picture(DType compute) {
  if (!shown_) {
    const auto samples = source(Split::kVal, device_);
    shown_ = samples ? some_samples(*samples, config_.seed) : Fields();
  }
  if (!shown_->has("input")) return {};
  Fields batch;
  for (const auto& [name, tensor] : *shown_) batch[name] = tensor.to(device_);
  Context ctx;
  ctx.mode.compute = compute;
  const Tensor output = outputs(ctx, batch).at("output").to(kCpu);
  return picture_grid({shown_->at("input"), output, shown_->at("target")}, kShownSamples);
}

std::vector<Named<ParameterStore*>> Translate::stores() {
  return {{"model", &network_.parameters()}};
}

Backbone* Translate::backbone() { return model_; }

std::vector<std::string> Translate::load_weights(const std::string& file, WeightsUse) {
  return dtn::load_weights(network_, read_safetensors(file), file, {}, registries_.presets);
}

std::string Translate::description() const {
  const ModelConfig& m = config_.model;
  const std::string note = network_.note();
  const std::string decoder = m.decoder_norm ? m.decoder_norm->type : m.norm.type;
  return cat(m.preset, ", ", m.norm.type,
             decoder == m.norm.type ? "" : cat(", ", decoder, " in the decoder"), ", ",
             network_.parameters().count(), " parameters", note.empty() ? "" : "; ", note);
}

std::string Translate::objective() const {
  const TranslateConfig& w = config_.translate;
  std::string text;
  const auto add = [&](double weight, const char* term) {
    if (weight <= 0) return;
    text += text.empty() ? "" : " + ";
    if (weight != 1) text += format("%g ", weight);
    text += term;
  };
  add(w.l1, "|d|");
  add(w.l2, "d^2");
  add(w.charbonnier, "sqrt(d^2 + eps^2)");
  return cat("mean of ", text, ", with d = output - target and pixels in [0, 1]");
}

Complexity Translate::cost() {
  return complexity_of(config_.model, registries_.models, registries_.norms);
}

}  // namespace dtn
