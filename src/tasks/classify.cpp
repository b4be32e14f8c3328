#include "dtn/tasks/classify.h"

#include <cmath>
#include <limits>

#include "core/format.h"
#include "data/classes/label_sets.h"
#include "data/classes/match_classes.h"
#include "data/feed/open_split.h"
#include "data/feed/token_samples.h"
#include "dtn/data/datasets.h"
#include "dtn/models/weights.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "dtn/tasks/registries.h"
#include "tasks/class_names.h"
#include "tasks/model_text.h"
#include "tasks/softmax_loss.h"
#include "tasks/teacher.h"

namespace dtn {
namespace {

// A model without a head has no accuracy: returns an AccuracyMeter's figures, all unknown.
class NoMeter final : public Meter {
 public:
  void add(const Fields&, const Fields&) override {}
  void merge(Communicator&) override {}
  Metrics result() const override {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    return {.values = {{"top1", kUnknown}, {"top5", kUnknown}, {"loss", kUnknown}},
            .primary = "top1",
            .text = "features"};
  }
};

// Throws ConfigError if a captured step would have to wait for sequence lengths on the host.
void check_captured(const Backbone& model, const ModelConfig& config) {
  for (const LayerInfo& layer : model.layers()) {
    for (const LayerInfo::Norm& norm : layer.norms) {
      if (!norm.norm->needs_host_lengths()) continue;
      throw ConfigError(
          cat("the normalizer '", config.norm.type,
              "' counts the tokens of padded sequences on the host, which a step captured as a "
              "CUDA graph cannot do; set train.step_graph: false, or use --device cpu"));
    }
  }
}

// Returns the rows of a file's head for the learnt classes. Empty if the head is reinitialized: not
// both sides have class names, and the numbers of classes differ.
std::vector<std::int64_t> rows_of_kept_head(const ClassList& learnt, const ClassList& file,
                                            std::string& note) {
  const bool both_named = !learnt.names.empty() && !file.names.empty();
  if (!both_named && learnt.count != file.count) return {};
  return head_rows(learnt, learnt.count, file,
                   "set model.init_head: reset to start with a new head", note);
}

// Throws DataError if the head's rows move. Then the styles of the file mean other label sets.
void check_order(const std::vector<std::int64_t>& rows, const std::string& file) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == static_cast<std::int64_t>(i)) continue;
    throw DataError(cat(file,
                        ": its classes have another order, so its vectors of model.condition may "
                        "stand for other label sets; give data.label_sets in the order of the "
                        "file, or set model.init_head: reset"));
  }
}

}  // namespace

Classify::Classify(const TaskSetup& setup)
    : device_(setup.device),
      config_(setup.config),
      registries_(setup.registries),
      model_(setup.config.model, setup.config.seed, DType::kFloat32, setup.device,
             setup.registries.models, setup.registries.norms),
      softmax_loss_(std::make_unique<SoftmaxLoss>(setup.config, setup.device)) {}

Classify::Classify(const ExperimentConfig& config, Device device)
    : Classify({config, device, standard_registries()}) {}

Classify::~Classify() = default;

std::shared_ptr<const Dataset> Classify::open(Split split) const {
  const DataConfig& data = config_.data;
  const DatasetRegistry& datasets = registries_.datasets;
  if (config_.model.num_classes > 0 && classes_) {
    return open_for_classes(data, config_.model, split, config_.seed, datasets, *classes_);
  }
  if (split == Split::kTrain) return open_to_learn(data, config_.model, config_.seed, datasets);
  return open_dataset(data, config_.model, split, config_.seed, datasets);
}

std::shared_ptr<const SampleSource> Classify::source(Split split, Device device) const {
  if (split == Split::kVal && !has_validation(config_.data)) return nullptr;
  if (split == Split::kTrain && config_.model.num_classes == 0) {
    throw ConfigError(
        "model.num_classes is 0, so the model has no head to train; set it to the number of "
        "classes of the data set");
  }
  if (model_.family().schema.sequences) {
    // If the cost of a sequence depends on its length, batches have sequences of similar length.
    const ModelConfig& m = config_.model;
    return std::make_shared<TokenSamples>(
        open(split), TokenSamplesOptions{
                         .max_length = m.max_length,
                         .batches_by_length = m.attention.kind == SequenceAttentionKind::kDense});
  }
  return image_samples_of(open(split), config_, split, device, registries_);
}

void Classify::prepare_training(DType compute) {
  if (device_.type == DeviceType::kCuda && config_.train.step_graph &&
      model_.family().schema.sequences) {
    check_captured(model_.backbone(), config_.model);
  }
  if (!config_.distill.teacher || teacher_) return;
  const ClassList learnt =
      classes_.value_or(ClassList{"the student", {}, config_.model.num_classes});
  teacher_ = std::make_unique<Teacher>(TaskSetup{config_, device_, registries_}, compute, learnt);
}

std::int64_t Classify::other_parameters() const { return teacher_ ? teacher_->parameters() : 0; }

ExperimentConfig Classify::checkpoint_config(const ExperimentConfig& config) const {
  ExperimentConfig saved = config;
  if (!teacher_) return saved;
  saved.distill.teacher = named_by_fingerprint(teacher_->fingerprint());
  saved.distill.teacher_config.reset();
  return saved;
}

Variable Classify::loss(Context& ctx, const Fields& batch, std::vector<Term>& logged) {
  if (config_.distill.teacher) return loss_with_teacher(ctx, batch, logged);
  return loss_of(ctx, model_.forward(ctx, batch), batch);
}

// A distilled student learns the labels with one head and the teacher's outputs with the other.
Variable Classify::loss_with_teacher(Context& ctx, const Fields& batch, std::vector<Term>& logged) {
  DTN_CHECK(teacher_, "call prepare_training() before a loss with a teacher");
  const DistillConfig& distill = config_.distill;
  const std::vector<Variable> heads = model_.forward_heads(ctx, batch);
  const Variable base = loss_of(ctx, heads.front(), batch);
  const Variable taught =
      ops::distillation(ctx, ops::cast(ctx, heads.back(), DType::kFloat32), teacher_->logits(batch),
                        {.hard = distill.type == DistillType::kHard,
                         .temperature = distill.temperature,
                         .mean = distill.reduction == DistillReduction::kElements});
  logged.push_back({"loss_labels", base.value()});
  logged.push_back({"loss_teacher", taught.value()});
  return primitive::add(ctx, primitive::affine(ctx, base, 1 - distill.alpha),
                        primitive::affine(ctx, taught, distill.alpha));
}

bool Classify::needs_whole_batch() const { return softmax_loss_->needs_whole_batch(); }

void Classify::preview(Context& ctx, const Fields& batch, std::size_t part, std::size_t parts) {
  if (batch.has("partner_label")) return;  // the loss is then a mean over the samples
  softmax_loss_->preview(ctx, batch.at("label"), part, parts);
}

Variable Classify::loss_of(Context& ctx, const Variable& logits, const Fields& batch) {
  const TrainConfig& train = config_.train;
  ops::Targets targets{batch.at("label"), {}, train.label_smoothing};
  if (batch.has("partner_label")) {
    targets.partner_labels = batch.at("partner_label");
    targets.label_share = batch.at("label_share");
  }
  const Variable wide = ops::cast(ctx, logits, DType::kFloat32);
  if (train.loss != LossKind::kBinary) return softmax_loss_->loss(ctx, wide, targets);
  const ops::BinaryOptions how{train.bce_target_threshold, train.bce_sum};
  return ops::binary_cross_entropy(ctx, wide, targets, how).mean;
}

Fields Classify::outputs(Context& ctx, const Fields& batch) {
  const auto in_float32 = [&](const Variable& x) {
    return ops::cast(ctx, x, DType::kFloat32).value();
  };
  const std::vector<Variable> features = model_.features(ctx, batch);
  Fields outputs{{"logits", in_float32(model_.logits(ctx, features))}};
  if (keeps_features_) outputs["features"] = in_float32(Classifier::mean_of(ctx, features));
  return outputs;
}

std::unique_ptr<Meter> Classify::meter() const {
  if (config_.model.num_classes == 0) return std::make_unique<NoMeter>();
  const std::vector<LabelSet>& sets = config_.data.label_sets;
  const std::int64_t classes = classes_before(sets, config_.model.num_classes);
  return std::make_unique<AccuracyMeter>(std::vector<std::int64_t>{}, label_ranges(sets, classes));
}

std::vector<Named<ParameterStore*>> Classify::stores() { return {{"model", &model_.parameters()}}; }

void Classify::learn_classes(const SampleSource& training) {
  classes_ = ClassList{"the training split", training.class_names(), config_.model.num_classes};
  softmax_loss_->learn_classes(training);
}

std::vector<std::string> Classify::load_weights(const std::string& file, WeightsUse use) {
  const TensorFile weights = read_safetensors(file);
  if (use == WeightsUse::kTraining) return load_to_train(weights, file);
  std::vector<std::string> notes =
      dtn::load_weights(model_, weights, file, {.must_fit = true}, registries_.presets);
  const std::int64_t count = config_.model.num_classes;
  classes_ =
      ClassList{cat("the model in ", file), stored_class_names(weights.metadata, count), count};
  return notes;
}

std::vector<std::string> Classify::load_to_train(const TensorFile& weights,
                                                 const std::string& file) {
  const bool keeps_head = config_.model.init_head == InitHead::kKeep;
  std::string note;
  HeadOptions head;
  if (!keeps_head || !classes_) {
    return dtn::load_weights(model_, weights, file, head, registries_.presets);
  }
  head.rows = [&](std::int64_t file_classes) {
    std::vector<std::int64_t> rows = rows_of_kept_head(
        *classes_, {file, stored_class_names(weights.metadata, file_classes), file_classes}, note);
    if (config_.model.condition.from == ConditionFrom::kIndex) check_order(rows, file);
    return rows;
  };
  std::vector<std::string> notes =
      dtn::load_weights(model_, weights, file, head, registries_.presets);
  if (!note.empty()) notes.push_back(note);
  return notes;
}

std::string Classify::description() const {
  const std::string note = model_.note();
  return cat(describe_backbone(config_.model, model_.family()), ", ", model_.parameters().count(),
             " parameters", note.empty() ? "" : "; ", note);
}

std::string Classify::teaching() const {
  if (!teacher_) return "";
  const DistillConfig& distill = config_.distill;
  const std::string how = distill.type == DistillType::kHard
                              ? std::string("hard")
                              : format("soft at temperature %g", distill.temperature);
  return format("; and %g of it distillation, ", distill.alpha) + how + ", from " +
         teacher_->description();
}

std::string Classify::objective() const {
  const TrainConfig& train = config_.train;
  const double classes = config_.model.num_classes;
  std::string text;
  if (train.loss != LossKind::kBinary) {
    text = softmax_loss_->description();
  } else {
    text = format("binary cross-entropy, %s over the classes, about %.3g before training",
                  train.bce_sum ? "sum" : "mean", std::log(2.0) * (train.bce_sum ? classes : 1));
  }
  if (train.label_smoothing > 0) text += format("; label smoothing %g", train.label_smoothing);
  if (train.bce_target_threshold) {
    text += format("; targets above %g count as 1, the others as 0", *train.bce_target_threshold);
  }
  if (train.loss != LossKind::kCrossEntropy || train.class_weights.any()) {
    text += "; evaluations measure plain cross-entropy";
  }
  return text + teaching();
}

Complexity Classify::cost() {
  return complexity_of(config_.model, registries_.models, registries_.norms);
}

Tensor predict(Classifier& model, const Tensor& images, DType dtype) {
  Context ctx;
  ctx.mode.compute = dtype;
  if (dtype == DType::kBFloat16) model.parameters().enable_bfloat16();
  const Variable logits = model.forward(ctx, images.to(model.parameters().device()));
  return ops::cast(ctx, logits, DType::kFloat32).value().to(kCpu);
}

}  // namespace dtn
