#include "apps/analyze/subject.h"

#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

// Shows an observer the first rows only. The encoder of a model with the normalizer adain has the
// style images behind the images of the batch.
class FirstRows final : public Observer {
 public:
  FirstRows(Observer& to, std::int64_t rows) : to_(to), rows_(rows) {}

  void begin_layer(const Tensor& x, const TokenGrid& grid) override {
    to_.begin_layer(first(x), grid);
  }
  void convolved(const Tensor& x, const TokenGrid& grid) override { to_.convolved(first(x), grid); }
  void normalized(const Normalizer& norm, const Tensor& x, const Tensor& y,
                  const TokenGrid& grid) override {
    to_.normalized(norm, first(x), first(y), grid);
  }
  void attention(const AttentionView& view) override { to_.attention(view); }
  void branch(Branch which, const Tensor& y, const TokenGrid& grid) override {
    to_.branch(which, first(y), grid);
  }
  void end_layer(const Tensor& x, const TokenGrid& grid) override { to_.end_layer(first(x), grid); }

 private:
  Tensor first(const Tensor& x) const { return x.dim(0) > rows_ ? x.slice(0, rows_) : x; }

  Observer& to_;
  std::int64_t rows_;
};

}  // namespace

const char* image_field_of(const ExperimentConfig& config) {
  return config.task == "translate" ? "input" : "image";
}

OpenSubject open_subject(const AnalysisSubject& given, const Registries& registries) {
  std::unique_ptr<Task> task = make_task({given.config, kCpu, registries});
  auto* classify = dynamic_cast<Classify*>(task.get());
  auto* translate = dynamic_cast<Translate*>(task.get());
  if (!classify && !translate) {
    throw ConfigError(
        cat(given.source,
            ": dtn-analyze needs a classifier or an image-to-image model; the task of "
            "this model is ",
            given.config.task));
  }
  std::vector<LayerInfo> layers = task->backbone()->layers();
  if (given.config.model.max_length > 0) {
    throw ConfigError(
        cat(given.source,
            ": dtn-analyze takes models of images; the input of this model is token sequences"));
  }
  if (layers.empty()) {
    throw ConfigError(cat(given.source, ": a model of the family '", given.config.model.family,
                          "' has no layers that dtn-analyze can observe"));
  }
  if (given.weights) {
    const std::string file = given.weights->string();
    for (const std::string& note : task->load_weights(file, WeightsUse::kEvaluation)) {
      log_info(note);
    }
  }
  return {given, std::move(task), classify, translate, std::move(layers)};
}

Variable OpenSubject::forward(const Fields& batch, Observer* observer, Tape* tape) const {
  Context ctx;
  ctx.tape = tape;
  ctx.mode.skip_unread = false;
  std::optional<FirstRows> first;
  if (observer) ctx.observer = &first.emplace(*observer, batch.count());
  Fields inputs;
  for (const FieldSpec& field : backbone().inputs()) {
    if (const Tensor* values = batch.find(field.name)) inputs[field.name] = *values;
  }
  return translate ? translate->model().image(ctx, inputs) : classify->model().forward(ctx, inputs);
}

}  // namespace dtn
