// dtn-eval --report: writes where a model is wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "apps/report/sample_report.h"
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

// Identifies a sample in the files: the path of an image, or its place in a file of tensors.
using SamplePlace = std::function<nlohmann::ordered_json(std::int64_t index)>;

// The model of a report. The references must outlive the reporter.
struct ReportedModel {
  const ExperimentConfig& config;
  const Classify& task;  // with its weights
  std::string weights;   // in a line
  const Registries& registries;
};

// Collects the answers of a model to labelled samples, and writes a report on them.
class ModelReporter {
 public:
  virtual ~ModelReporter() = default;

  // The origin of the samples, one of them before the first add(): a data set, or the fields of
  // --inputs. Both must outlive this object. Throws DataError if the samples have no labels.
  void take_source(const SampleSource& source);
  void take_inputs(const Fields& inputs, const std::string& file);

  // Adds samples by their indices: their labels among the fields, and logits [n, K] float32. Throws
  // DataError, which names the sample, for logits that are not finite.
  virtual void add(std::span<const std::int64_t> indices, const Fields& truths,
                   const Tensor& logits) = 0;

  // Writes the files, and appends figures to the metrics.
  void finish(std::int64_t skipped, Metrics& metrics);

 protected:
  // Throws ConfigError if the model has no classes, or the folder cannot be one.
  ModelReporter(const ReportOptions& options, const ReportedModel& model);

  virtual SampleReport& report() = 0;
  // The field of the labels, and for messages the tensor in a file.
  virtual const char* label_field() const = 0;
  virtual const char* label_tensor() const = 0;
  virtual void write(const std::filesystem::path& folder, Metrics& metrics) = 0;

  bool writes_tables() const { return options_.csv; }
  const SamplePlace& place() const { return place_; }
  [[noreturn]] void fail_not_finite(std::int64_t index);

 private:
  void introduce(const std::string& data);
  void name_classes(std::vector<std::string> names);

  ReportOptions options_;
  ReportedModel model_;
  SamplePlace place_;
};

// Makes the reporter for the task of the model.
std::unique_ptr<ModelReporter> make_reporter(const ReportOptions& options,
                                             const ReportedModel& model);

}  // namespace dtn::app
