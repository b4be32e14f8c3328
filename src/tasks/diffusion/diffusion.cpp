#include "dtn/tasks/diffusion.h"

#include "core/format.h"
#include "data/classes/match_classes.h"
#include "dtn/data/datasets.h"
#include "dtn/models/weights.h"
#include "dtn/ops/diffusion.h"
#include "dtn/ops/tokens.h"
#include "dtn/tasks/registries.h"
#include "tasks/class_names.h"
#include "tasks/diffusion/meter.h"
#include "tasks/diffusion/process.h"
#include "tasks/diffusion/samples.h"
#include "tasks/diffusion/schedule_table.h"
#include "tasks/diffusion/synthetic_latents.h"
#include "tasks/model_text.h"

namespace dtn {
namespace {

// Returns the model of a network. Throws ConfigError if it does not give the output of the config.
ImageModel* image_model_of(Classifier& network) {
  const ModelConfig& config = network.config();
  auto* model = dynamic_cast<ImageModel*>(&network.backbone());
  if (!model) {
    throw ConfigError(cat("the task diffusion needs a model that gives an image; model.preset ",
                          config.preset, " gives features"));
  }
  const std::int64_t channels = config.learn_sigma ? 2 * config.channels : config.channels;
  if (model->output_channels() == channels) return model;
  throw ConfigError(cat("model.preset ", config.preset, " has ", model->output_channels(),
                        " output channels, but model.learn_sigma needs ", channels));
}

ops::DiffusionBatch batch_of(const Fields& batch, const Tensor& schedule) {
  return {batch.at("image"), batch.at("noise"), batch.at("timestep"), schedule};
}

}  // namespace

Diffusion::Diffusion(const TaskSetup& setup)
    : device_(setup.device),
      config_(setup.config),
      registries_(setup.registries),
      network_(config_.model, config_.seed, DType::kFloat32, device_, registries_.models,
               registries_.norms),
      model_(image_model_of(network_)),
      process_(std::make_unique<DiffusionProcess>(config_.diffusion)),
      schedule_(schedule_table(*process_, device_)) {}

Diffusion::~Diffusion() = default;

bool Diffusion::learned_variance() const { return config_.model.learn_sigma; }

// Opens a split. Tensors may have the label that stands for none, so they are opened for any number
// of classes; DiffusionSamples checks the labels.
std::shared_ptr<const Dataset> Diffusion::open(Split split) const {
  const DataConfig& data = config_.data;
  const DatasetRegistry& datasets = registries_.datasets;
  ModelConfig any = config_.model;
  any.num_classes = 0;
  if (data.dataset == "tensors") return open_dataset(data, any, split, config_.seed, datasets);
  const bool pixels = config_.model.channels == 1 || config_.model.channels == 3;
  if (data.dataset == "synthetic" && !pixels) return make_synthetic_latents(config_, split);
  if (config_.model.num_classes > 0 && classes_) {
    return open_for_classes(data, config_.model, split, config_.seed, datasets, *classes_);
  }
  if (split == Split::kTrain) return open_to_learn(data, config_.model, config_.seed, datasets);
  return open_dataset(data, config_.model, split, config_.seed, datasets);
}

std::shared_ptr<const SampleSource> Diffusion::source(Split split, Device) const {
  if (split == Split::kVal && !has_validation(config_.data)) return nullptr;
  return std::make_shared<DiffusionSamples>(open(split), config_, split);
}

Variable Diffusion::predict(Context& ctx, const Fields& batch, const Tensor& noisy) {
  return model_->image(
      ctx, {{"image", noisy}, {"timestep", batch.at("timestep")}, {"label", batch.at("label")}});
}

Variable Diffusion::loss(Context& ctx, const Fields& batch, std::vector<Term>& logged) {
  const ops::DiffusionBatch noised = batch_of(batch, schedule_);
  const ops::DiffusionLoss result =
      ops::diffusion_loss(ctx, predict(ctx, batch, ops::noisy_images(noised)), noised);
  logged = {{"mse", result.mean_mse}};
  if (learned_variance()) logged.push_back({"vb", result.mean_vb});
  for (std::int64_t q = 0; q < result.quartile_mse.dim(0); ++q) {
    logged.push_back({cat("mse_q", q + 1), result.quartile_mse.slice(q, q + 1),
                      result.quartile_share.slice(q, q + 1)});
  }
  return result.mean;
}

Fields Diffusion::outputs(Context& ctx, const Fields& batch) {
  const ops::DiffusionBatch noised = batch_of(batch, schedule_);
  const Variable output =
      ops::cast(ctx, predict(ctx, batch, ops::noisy_images(noised)), DType::kFloat32);
  const ops::DiffusionLoss result = ops::diffusion_loss(ctx, output, noised);
  Fields fields{{"mse", result.mse}};
  if (learned_variance()) fields["vb"] = result.vb;
  if (keeps_output_) fields["output"] = output.value();
  return fields;
}

std::unique_ptr<Meter> Diffusion::meter() const {
  return std::make_unique<DiffusionMeter>(learned_variance());
}

std::vector<Named<ParameterStore*>> Diffusion::stores() {
  return {{"model", &network_.parameters()}};
}

Backbone* Diffusion::backbone() { return model_; }

void Diffusion::learn_classes(const SampleSource& training) {
  classes_ = ClassList{"the training split", training.class_names(), config_.model.num_classes};
}

std::vector<std::string> Diffusion::load_weights(const std::string& file, WeightsUse use) {
  const TensorFile weights = read_safetensors(file);
  std::vector<std::string> notes =
      dtn::load_weights(network_, weights, file, {}, registries_.presets);
  const std::int64_t count = config_.model.num_classes;
  if (use == WeightsUse::kEvaluation && count > 0) {
    classes_ =
        ClassList{cat("the model in ", file), stored_class_names(weights.metadata, count), count};
  }
  return notes;
}

std::string Diffusion::description() const {
  const std::string note = network_.note();
  return cat(describe_backbone(config_.model, network_.family()), ", ",
             network_.parameters().count(), " parameters", note.empty() ? "" : "; ", note);
}

std::string Diffusion::objective() const {
  return cat("squared error of the predicted noise over ", process_->size(),
             " time steps, 1 for a model that predicts none",
             learned_variance() ? "; and the variational bound of the variance, in bits" : "");
}

Complexity Diffusion::cost() {
  return complexity_of(config_.model, registries_.models, registries_.norms);
}

}  // namespace dtn
