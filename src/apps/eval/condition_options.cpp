#include "apps/eval/condition_options.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"
#include "core/progress.h"
#include "data/feed/open_split.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "tasks/translate/other_conditions.h"
#include "tasks/translate/quality.h"
#include "train/evaluator.h"

namespace dtn::app {
namespace {

std::vector<std::string> style_names(const ExperimentConfig& config) {
  const auto count = static_cast<std::size_t>(config.model.condition.styles.value_or(0));
  if (config.data.corruptions.size() == count) return config.data.corruptions;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(cat("style ", i));
  return names;
}

// Sums of a row of the table.
struct RowSums {
  std::vector<double> psnr;
  std::vector<std::int64_t> counts;

  // Adds the samples of a batch, each to the style of its target.
  void add(const Fields& batch, const Tensor& output) {
    const std::int64_t values = output.numel() / output.dim(0);
    const auto picture = [values](const Tensor& pictures, std::int64_t i) {
      return std::span<const float>(pictures.data<float>() + i * values,
                                    static_cast<std::size_t>(values));
    };
    const Tensor& target = batch.at("target");
    for (std::int64_t i = 0; i < output.dim(0); ++i) {
      const auto own = static_cast<std::size_t>(batch.at("own_style").data<std::int64_t>()[i]);
      psnr.at(own) += dtn::psnr(picture(output, i), picture(target, i));
      ++counts.at(own);
    }
  }

  std::vector<double> means() const {
    std::vector<double> means;
    for (std::size_t own = 0; own < psnr.size(); ++own) {
      means.push_back(psnr[own] / static_cast<double>(counts[own]));  // NaN without samples
    }
    return means;
  }
};

std::string padded(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

std::vector<CLI::Option*> ConditionOptions::add_to(CLI::App& app) {
  auto* shuffling = app.add_flag("--shuffle-condition", shuffle,
                                 "image-to-image models: give each sample the style, vector, map "
                                 "or style image of the next one; a model that ignores its "
                                 "condition has the same figures");
  auto* table = app.add_flag("--style-table", style_table,
                             "image-to-image models that read a style by its index: also evaluate "
                             "all samples once for each style, and print the PSNR of the outputs "
                             "for each style to the targets of each style");
  table->excludes(shuffling);  // the table needs each sample's own style
  return {shuffling, table};
}

void ConditionOptions::check(const ExperimentConfig& config) const {
  const char* option = shuffle ? "--shuffle-condition" : "--style-table";
  if (config.task != "translate") {
    throw ConfigError(
        cat(option, " is for image-to-image models; the task of this model is ", config.task));
  }
  const std::vector<FieldSpec> fields = condition_fields(config.model);
  if (fields.empty()) {
    throw ConfigError(cat(option, ": this model reads no condition (model.condition.from)"));
  }
  if (style_table && (fields.size() > 1 || fields.front().name != "style")) {
    throw ConfigError(
        cat("--style-table needs a model that reads a style by its index (model.condition.from: "
            "index); this one reads `",
            fields.front().name, "`"));
  }
}

StyleTable evaluate_styles(const ExperimentConfig& config, Task& task,
                           const std::shared_ptr<const SampleSource>& source, Device device,
                           DType compute, std::int64_t batch_size) {
  StyleTable table{.styles = style_names(config), .counts = {}, .psnr = {}};
  const auto styles = static_cast<std::int64_t>(table.styles.size());
  ProgressBar bar("evaluating styles", styles * source->size());
  for (std::int64_t style = 0; style < styles; ++style) {
    const auto asked = std::make_shared<OtherConditions>(source, config.model, style);
    const auto split =
        open_split(asked, config, Split::kVal, {.device = device, .batch_size = batch_size});
    RowSums sums{std::vector<double>(table.styles.size()),
                 std::vector<std::int64_t>(table.styles.size())};
    EvalOptions eval;
    eval.compute = compute;
    eval.on_batch = [&](const DeviceBatch& batch, const Fields& outputs, std::int64_t done) {
      bar.update(style * source->size() + done, "");
      sums.add(batch.host, outputs.at("output"));
    };
    evaluate(task, split->feeder(), eval);
    table.psnr.push_back(sums.means());
    table.counts = std::move(sums.counts);
  }
  return table;
}

std::string StyleTable::text() const {
  std::size_t width = 8;
  for (const std::string& name : styles) width = std::max(width, name.size());
  std::string text =
      "PSNR (dB) of the outputs for the style of the row, to targets of the style of the column\n" +
      padded("", width);
  for (const std::string& name : styles) text += "  " + padded(name, width);
  text += "\n";
  for (std::size_t asked = 0; asked < styles.size(); ++asked) {
    text += padded(styles[asked], width);
    for (const double value : psnr[asked]) {
      text += "  " + padded(std::isnan(value) ? "-" : format("%.2f", value), width);
    }
    text += "\n";
  }
  text += padded("pictures", width);
  for (const std::int64_t count : counts) text += "  " + padded(cat(count), width);
  return text + "\n";
}

}  // namespace dtn::app
