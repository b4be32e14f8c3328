// dtn-eval --report: writes where a classifier is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "apps/eval/class_report_files.h"
#include "dtn/core/metrics.h"
#include "dtn/data/sample_source.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// --report and --csv.
struct ReportOptions {
  std::string folder;
  bool csv = false;

  // Adds the options, and returns --report.
  CLI::Option* add_to(CLI::App& app);
  bool any() const { return !folder.empty(); }
};

// Collects the answers of a model to labelled samples, and writes a report on them.
class ClassReporter {
 public:
  // `task`, with its weights, and `registries` must outlive this object. `weights` describes the
  // weights in a line. Throws ConfigError if the model has no classes, or the folder cannot be one.
  ClassReporter(const ReportOptions& options, const ExperimentConfig& config, const Classify& task,
                const std::string& weights, const Registries& registries);

  // The origin of the samples, one of them before the first add(): a data set, or the fields of
  // --inputs. Both must outlive this object. Throws DataError if the samples have no labels.
  void take_source(const SampleSource& source);
  void take_inputs(const Fields& inputs, const std::string& file);

  // Adds samples by their indices: labels [n] int64 and logits [n, K] float32. Throws DataError,
  // which names the sample, for logits that are not finite.
  void add(std::span<const std::int64_t> indices, const Tensor& labels, const Tensor& logits);

  // Writes the files, and appends `macro_f1` and `ece` to the metrics.
  void finish(std::int64_t skipped, Metrics& metrics);

 private:
  void name_classes(std::vector<std::string> names);

  ReportOptions options_;
  const ExperimentConfig& config_;
  const Classify& task_;
  const Registries& registries_;
  ClassReport report_;
  SamplePlace place_;
};

}  // namespace dtn::app
