#include "apps/analyze/analysis.h"

#include <optional>

#include "apps/analyze/collector.h"
#include "apps/analyze/inputs.h"
#include "apps/analyze/measurements.h"
#include "apps/analyze/subject.h"
#include "apps/analyze/subject_json.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "tasks/ensemble.h"

namespace dtn {
namespace {

using Json = nlohmann::ordered_json;

bool decodes_fast(const DataConfig& data) { return data.decode == DecodeMode::kFast; }

// Images of a data set are the same for both models only if both prepare them in the same way.
void check_same_inputs(const AnalysisSubject& a, const AnalysisSubject& b, bool of_data) {
  const ModelConfig &x = a.config.model, &y = b.config.model;
  if (image_field_of(a.config) != std::string(image_field_of(b.config))) {
    throw ConfigError(cat("compared models must take the same images, but the tasks of ", a.name,
                          " and ", b.name, " are ", a.config.task, " and ", b.config.task,
                          "; analyze them separately"));
  }
  if (x.image_size != y.image_size || x.channels != y.channels) {
    throw ConfigError(cat("compared models must take the same images, but ", a.name, " takes ",
                          x.channels, " x ", x.image_size, " and ", b.name, " takes ", y.channels,
                          " x ", y.image_size, "; analyze them separately"));
  }
  if (!of_data) return;
  const DataConfig &p = a.config.data, &q = b.config.data;
  if (p.dataset != q.dataset || p.val != q.val || p.classes != q.classes || p.mean != q.mean ||
      p.std != q.std || p.crop_pct != q.crop_pct || p.interpolation != q.interpolation ||
      p.resample != q.resample || p.exif != q.exif || p.corruptions != q.corruptions ||
      p.corrupted != q.corrupted || p.side_by_side != q.side_by_side ||
      p.direction != q.direction || p.drawn != q.drawn || p.labels != q.labels ||
      decodes_fast(p) != decodes_fast(q)) {
    throw ConfigError(cat("compared models must take the same images, but the data sections of ",
                          a.name, " and ", b.name,
                          " differ; give images with --inputs, or analyze them separately"));
  }
  warn_of_other_split(a.config, b.config, b.name);
}

void check_labels_of(const OpenSubject& subject, const AnalysisInputs& inputs) {
  const int classes = subject.config().num_classes;
  if (inputs.labelled() && classes > 0 && inputs.largest_label() >= classes) {
    throw DataError(cat("the inputs have the label ", inputs.largest_label(), ", but ",
                        subject.given.name, " has only ", counted(classes, "classes")));
  }
}

// The labels of the inputs are the classes of the first model.
void check_classes_of(const OpenSubject& first, const OpenSubject& subject) {
  if (!first.classify || !subject.classify) return;
  const std::optional<ClassList>&a = first.classify->classes(), &b = subject.classify->classes();
  if (!a || !b || a->names.empty() || b->names.empty() || a->names == b->names) return;
  throw ConfigError(
      cat("compared models must have the same classes in the same order, but those of ",
          first.given.name, " and ", subject.given.name, " differ; analyze them separately"));
}

Collector collect(const OpenSubject& subject, AnalysisInputs& inputs) {
  Collector collector(subject.layers, subject.config().has_class_token());
  const auto pass = [&](bool first_pass) {
    std::int64_t first = 0;
    inputs.each_batch([&](const Fields& batch) {
      collector.begin_batch(first, first_pass ? std::optional(inputs.tones(batch)) : std::nullopt);
      subject.forward(batch, &collector);
      first += batch.count();
    });
  };
  pass(true);
  collector.begin_second_pass();
  pass(false);
  return collector;
}

void warn_of_dropped(const std::string& name, Json& json) {
  for (auto& [key, value] : json.items()) {
    if (const std::int64_t dropped = drop_non_finite(value)) {
      log_warn(cat(name, ": ", key, ": ", counted(dropped, "numbers"),
                   dropped == 1 ? " is" : " are", " not finite; written as null"));
    }
  }
}

Json numbers_of(const OpenSubject& subject, AnalysisInputs& inputs,
                std::optional<std::int64_t> token) {
  const Collector collector = collect(subject, inputs);
  Json json = to_json({subject, collector, gradient_norms(subject, inputs), token});
  warn_of_dropped(subject.given.name, json);
  return json;
}

Json similarities_of(const std::vector<OpenSubject>& subjects, AnalysisInputs& inputs) {
  Json list = Json::array();
  for (const Similarity& s : similarities(subjects, inputs)) {
    Json entry = {{"a", s.a}, {"b", s.b}, {"matrix", s.matrix}};
    const std::string pair =
        cat("cka of ", subjects[s.a].given.name, " and ", subjects[s.b].given.name);
    if (s.matrix.empty()) {
      entry["matrix"] = nullptr;
      log_warn(cat(pair, ": skipped, because their tokens do not correspond"));
    }
    warn_of_dropped(pair, entry);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Analysis analyze(const AnalysisOptions& options, const Registries& registries) {
  DTN_CHECK(!options.subjects.empty(), "no model to analyze");
  const bool of_data = options.inputs.empty();
  std::vector<OpenSubject> subjects;
  for (const AnalysisSubject& given : options.subjects) {
    check_same_inputs(options.subjects.front(), given, of_data);
    subjects.push_back(open_subject(given, registries));
  }
  const ExperimentConfig& first = options.subjects.front().config;
  AnalysisInputs inputs = of_data ? AnalysisInputs(*subjects.front().task, first, options.images,
                                                   options.seed, registries)
                                  : AnalysisInputs(options.inputs, first, registries);
  for (const OpenSubject& subject : subjects) {
    check_labels_of(subject, inputs);
    if (of_data) check_classes_of(subjects.front(), subject);
  }
  Analysis analysis;
  analysis.previews = inputs.previews();
  analysis.json["format"] = 1;
  analysis.json["inputs"] = inputs.describe();
  Json& checkpoints = analysis.json["checkpoints"] = Json::array();
  for (const OpenSubject& subject : subjects) {
    log_info(cat("analyzing ", subject.given.name));
    checkpoints.push_back(numbers_of(subject, inputs, options.token));
  }
  analysis.json["cka"] = similarities_of(subjects, inputs);
  return analysis;
}

}  // namespace dtn
