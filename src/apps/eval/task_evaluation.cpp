#include "apps/eval/task_evaluation.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "apps/common/program.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/seconds_since.h"
#include "data/feed/image_samples.h"
#include "data/feed/open_split.h"
#include "data/feed/token_samples.h"
#include "data/source/input_file.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/diffusion.h"
#include "dtn/tasks/multilabel.h"
#include "dtn/tasks/translate.h"
#include "tasks/translate/other_conditions.h"
#include "train/evaluator.h"
#include "train/rank_consistency.h"

namespace dtn::app {
namespace {

// Returns the labels of all samples for a file: [N], or [N, K] if samples have any number of
// classes.
Tensor labels_of(const SampleSource& source) {
  const Dataset* dataset = nullptr;
  if (const auto* images = dynamic_cast<const ImageSamples*>(&source)) dataset = &images->dataset();
  if (const auto* tokens = dynamic_cast<const TokenSamples*>(&source)) dataset = &tokens->dataset();
  if (!dataset) return {};
  if (const Tensor* several = dataset->ready_fields().find("labels")) {
    Tensor labels = Tensor::empty(several->shape(), DType::kFloat32);
    std::ranges::copy(several->values<std::uint8_t>(), labels.data<float>());
    return labels;
  }
  Tensor labels = Tensor::empty({source.size()}, DType::kInt64);
  for (std::int64_t i = 0; i < source.size(); ++i) {
    labels.data<std::int64_t>()[i] = dataset->label(i);
  }
  return labels;
}

// The model whose outputs are images; null: the task has another.
ImageModel* image_model_of(Task& task) {
  if (auto* diffusion = dynamic_cast<Diffusion*>(&task)) {
    diffusion->keep_output();
    return &diffusion->model();
  }
  auto* translate = dynamic_cast<Translate*>(&task);
  return translate ? &translate->model() : nullptr;
}

// The file of --save-logits for a model of images: its output for each image.
std::optional<RowFile> output_file_of(const TaskEvaluation& e, std::int64_t count) {
  if (e.results.logits.empty()) return std::nullopt;
  const ImageModel* model = image_model_of(e.task);
  if (!model) return std::nullopt;
  const ImageSize& size = e.config.model.image_size;
  return std::optional<RowFile>(std::in_place, e.results.logits, "output", count,
                                Shape{model->output_channels(), size.height, size.width}, Tensor());
}

}  // namespace

Outcome evaluate_inputs(const TaskEvaluation& e, const std::string& file) {
  auto& task = dynamic_cast<Classify&>(e.task);
  const InputLabels kind =
      dynamic_cast<Multilabel*>(&task) ? InputLabels::kAnyNumber : InputLabels::kOne;
  const Fields inputs = read_input_file(file, e.config.model, {.labels = kind});
  const Tensor* labels = inputs.find(kind == InputLabels::kOne ? "label" : "labels");
  const std::int64_t count = inputs.count(), batch = e.batch_size;
  if (count == 0) throw DataError(cat(file, ": has no inputs to evaluate"));
  const bool measures = labels && e.config.model.num_classes > 0;
  Outcome outcome;
  outcome.count = count;
  if (e.config.model.max_length > 0) outcome.noun = "sequences";
  ResultFiles results(e.results, task, count, labels ? *labels : Tensor());
  if (e.reporter) e.reporter->take_inputs(inputs, file);
  const std::unique_ptr<Meter> meter = task.meter();
  if (e.compute == DType::kBFloat16) {
    for (const Named<ParameterStore*>& store : task.stores()) store.value->enable_bfloat16();
  }
  auto start = std::chrono::steady_clock::now();
  for (std::int64_t first = 0; first < count; first += batch) {
    const std::int64_t last = std::min(count, first + batch);
    Context ctx;
    ctx.mode.compute = e.compute;
    ctx.observer = results.observer();
    ctx.mode.skip_unread = !ctx.observer;
    const Fields host = inputs.rows(first, last);
    Fields there = host;
    for (auto& [name, tensor] : there) tensor = tensor.to(e.device);
    Fields outputs = task.outputs(ctx, there);
    for (auto& [name, tensor] : outputs) tensor = tensor.to(kCpu);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(last - first));
    std::iota(indices.begin(), indices.end(), first);
    results.add(indices, outputs);
    if (measures) meter->add(host, outputs);
    if (e.reporter) e.reporter->add(indices, host, outputs.at("logits"));
  }
  outcome.seconds = seconds_since(start);
  results.finish();
  if (measures) outcome.metrics = meter->result();
  if (e.reporter) e.reporter->finish(0, *outcome.metrics);
  return outcome;
}

Outcome evaluate_split(const TaskEvaluation& e) {
  Communicator& ranks = *job();
  std::optional<Communicator::Work> opening(std::in_place, ranks, "opening the data set",
                                            Communicator::Work::kLong);
  std::shared_ptr<const SampleSource> source = validation_source(e.task, e.device);
  log_info(cat("val: ", source->description()));
  if (e.condition.shuffle) {
    source = std::make_shared<OtherConditions>(std::move(source), e.config.model);
  }
  check_equal_config(e.config, ranks);
  check_equal_data(*source, ranks);
  for (const Named<ParameterStore*>& store : e.task.stores()) {
    check_equal_weights(store.value->values(), ranks);
  }
  const auto split = open_split(source, e.config, Split::kVal,
                                {.device = e.device,
                                 .batch_size = e.batch_size * ranks.size(),
                                 .rank = ranks.rank(),
                                 .ranks = ranks.size()});
  Outcome outcome;
  outcome.noun = source->noun();
  std::optional<ResultFiles> results;
  std::optional<RowFile> images = output_file_of(e, source->size());
  if (e.results.any() && !images) {
    results.emplace(e.results, dynamic_cast<Classify&>(e.task), source->size(), labels_of(*source));
  }
  std::optional<GridFile> grid;
  if (!e.grid.file.empty()) grid.emplace(e.grid);
  if (e.reporter) e.reporter->take_source(*source);
  std::optional<ProgressBar> bar;
  if (ranks.is_root()) bar.emplace("evaluating", split->loader().samples_per_epoch());
  EvalOptions eval;
  eval.compute = e.compute;
  eval.ranks = &ranks;
  if (results) eval.observer = results->observer();
  eval.on_batch = [&](const DeviceBatch& batch, const Fields& outputs, std::int64_t done) {
    if (bar) bar->update(done, "");
    if (results) results->add(batch.indices, outputs);
    if (e.reporter) e.reporter->add(batch.indices, batch.host, outputs.at("logits"));
    if (grid) grid->add(batch.indices, batch.host, outputs.at("output"));
    if (!images) return;
    const Tensor& rows = outputs.at("output");
    for (std::int64_t i = 0; i < batch.n; ++i) {
      images->add(batch.indices[static_cast<std::size_t>(i)], rows.slice(i, i + 1).data<float>());
    }
  };
  opening.reset();
  const std::optional<Evaluation> evaluation = evaluate(e.task, split->feeder(), eval);
  bar.reset();
  if (results) results->finish();
  if (images) images->finish();
  if (grid) grid->finish();
  outcome.metrics = evaluation->metrics;
  if (ranks.is_root()) {
    const auto problem = e.task.evaluation_warning(evaluation->metrics, 0, {});
    if (problem) log_warn(problem->text);
  }
  outcome.count = evaluation->count;
  outcome.skipped = ranks.sum(split->loader().report().bad_images);
  outcome.seconds = evaluation->seconds;
  if (e.reporter && outcome.count > 0) e.reporter->finish(outcome.skipped, *outcome.metrics);
  if (e.condition.style_table) {
    outcome.styles = evaluate_styles(e.config, e.task, source, e.device, e.compute, e.batch_size);
  }
  if (outcome.count > 0) return outcome;
  const std::string damaged =
      outcome.skipped > 0 ? cat("; ", counted(outcome.skipped, "damaged " + outcome.noun)) : "";
  throw DataError(cat(source->description(), ": no ", outcome.noun, " to evaluate", damaged));
}

void print_outcome(const Outcome& outcome, const Task& task, const TaskSchema& schema,
                   bool as_json) {
  const double rate =
      outcome.seconds > 0 ? static_cast<double>(outcome.count) / outcome.seconds : 0;
  if (!as_json) {
    if (outcome.metrics) std::printf("%s  ", outcome.metrics->text.c_str());
    const char* noun = outcome.noun.c_str();
    std::printf("%s, %.1f %s/s\n", counted(outcome.count, noun).c_str(), rate, noun);
    if (outcome.skipped > 0) {
      std::printf("skipped %s\n", counted(outcome.skipped, "damaged " + outcome.noun).c_str());
    }
    if (outcome.styles) std::printf("%s", outcome.styles->text().c_str());
    return;
  }
  nlohmann::ordered_json json;
  for (const FigureSchema& figure : schema.figures) json[figure.name] = nullptr;
  for (const auto& [name, none] : task.meter()->result().values) json[name] = nullptr;
  if (outcome.metrics) {
    for (const auto& [name, value] : outcome.metrics->values) json[name] = value;
  }
  json["count"] = outcome.count;
  json["images_per_second"] = rate;
  json["skipped"] = outcome.skipped;
  if (outcome.styles) {
    json["styles"] = outcome.styles->styles;
    json["style_counts"] = outcome.styles->counts;
    json["style_psnr"] = outcome.styles->psnr;
  }
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace dtn::app
