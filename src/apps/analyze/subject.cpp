#include "apps/analyze/subject.h"

#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {

OpenSubject open_subject(const AnalysisSubject& given, const Registries& registries) {
  std::unique_ptr<Task> task = make_task({given.config, kCpu, registries});
  auto* classify = dynamic_cast<Classify*>(task.get());
  if (!classify) {
    throw ConfigError(cat(given.source,
                          ": dtn-analyze needs a classifier; the task of this model is ",
                          given.config.task));
  }
  std::vector<LayerInfo> layers = classify->model().backbone().layers();
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
  return {given, std::move(task), *classify, std::move(layers)};
}

Variable OpenSubject::forward(const Fields& batch, Observer* observer, Tape* tape) const {
  Context ctx;
  ctx.tape = tape;
  ctx.mode.skip_unread = false;
  ctx.observer = observer;
  Fields inputs;
  for (const FieldSpec& field : model().backbone().inputs()) {
    if (const Tensor* values = batch.find(field.name)) inputs[field.name] = *values;
  }
  return model().forward(ctx, inputs);
}

}  // namespace dtn
