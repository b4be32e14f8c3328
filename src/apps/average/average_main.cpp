#include "dtn/app/average_main.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/average/ingredients.h"
#include "apps/average/soup.h"
#include "apps/average/weights_judge.h"
#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "core/format.h"
#include "core/progress.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/io/safetensors.h"
#include "tasks/class_names.h"
#include "train/measure_statistics.h"

namespace dtn::app {
namespace {

struct AverageCommand {
  std::vector<std::string> checkpoints;
  WeightsOptions weights;
  std::string output;
  std::vector<double> shares;
  bool greedy = false, evaluate = false, json = false;
  std::int64_t update_bn = 0;
  std::optional<int> batch_size;
  MachineOptions machine;
};

nlohmann::ordered_json to_json(const Metrics& metrics) {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : metrics.values) json[name] = value;
  return json;
}

// Prints figures line by line, or all of them as JSON at the end.
class Report {
 public:
  Report(const AverageCommand& options, const Ingredients& models) : json_(options.json) {
    for (std::size_t i = 0; i < models.count(); ++i) {
      width_ = std::max(width_, models.name(i).size() + 2);
      found_["models"].push_back({{"checkpoint", models.name(i)}});
    }
    width_ = std::min<std::size_t>(width_, 60);
  }

  void alone(const Ingredients& models, std::size_t i, const Metrics& metrics) {
    print(models.name(i), metrics);
    found_["models"][i]["alone"] = to_json(metrics);
  }
  void taste(const Ingredients& models, const Taste& taste) {
    auto& entry = found_["models"][taste.ingredient];
    if (taste.together) {
      print(cat("+ ", models.name(taste.ingredient)), *taste.together,
            taste.taken ? "" : "  left out");
      entry["together"] = to_json(*taste.together);
    }
    entry["taken"] = taste.taken;
  }
  void average(const Metrics& metrics) {
    print("average", metrics);
    found_["average"] = to_json(metrics);
  }
  void finish() const {
    if (json_) std::printf("%s\n", found_.dump().c_str());
  }

 private:
  void print(const std::string& name, const Metrics& metrics, const char* remark = "") const {
    if (json_) return;
    std::printf("%-*s  %s%s\n", static_cast<int>(width_), name.c_str(), metrics.text.c_str(),
                remark);
    std::fflush(stdout);
  }

  bool json_;
  std::size_t width_ = 7;
  nlohmann::ordered_json found_{{"models", nlohmann::ordered_json::array()}};
};

// The average, and which models are in it.
struct Average {
  Tensor weights;
  std::vector<std::string> names;
};

std::vector<std::string> all_names(const Ingredients& models) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < models.count(); ++i) names.push_back(models.name(i));
  return names;
}

std::vector<Metrics> evaluate_alone(Ingredients& models, WeightsJudge& judge, Report& report) {
  std::vector<Metrics> figures;
  for (std::size_t i = 0; i < models.count(); ++i) {
    figures.push_back(judge.figures(models.weights(i), models.name(i)));
    report.alone(models, i, figures.back());
  }
  return figures;
}

using Statistics = std::function<Tensor(const Tensor& weights)>;

// Judges each mean with the statistics that it would be written with.
Average greedy(Ingredients& models, WeightsJudge& judge, const Statistics& with_statistics,
               Report& report) {
  const std::vector<Metrics> alone = evaluate_alone(models, judge, report);
  Average average;
  const GreedySoup soup = greedy_soup(
      models, alone,
      [&](const Tensor& weights) { return judge.figures(with_statistics(weights), "average"); },
      [&](const Taste& taste) {
        if (taste.taken) average.names.push_back(models.name(taste.ingredient));
        report.taste(models, taste);
      });
  average.weights = soup.weights;
  return average;
}

// Measures running statistics again if --update-bn asks for it.
Statistics statistics_of(const AverageCommand& options, const Ingredients& models, Device device,
                         const Registries& registries) {
  if (options.update_bn == 0) return [](const Tensor& weights) { return weights; };
  const std::string problem = statistics_problem(models.config(), registries);
  if (!problem.empty()) throw ConfigError(cat("--update-bn: ", problem));
  return [&options, &models, device, &registries](const Tensor& weights) {
    ProgressBar bar("measuring statistics", options.update_bn);
    return measure_statistics(weights, models.config(), device, registries, options.update_bn,
                              [&](std::int64_t done) { bar.update(done, ""); });
  };
}

void write(const AverageCommand& options, const Ingredients& models, const Average& average) {
  StringMap metadata{{"config", to_yaml(models.config())}, {"averaged", as_json(average.names)}};
  if (!models.class_names().empty()) metadata[kClassNamesKey] = as_json(models.class_names());
  write_safetensors(options.output, models.named(average.weights), metadata);
  log_info(cat(options.output, ": the mean of ", counted(average.names.size(), "models")));
}

void check_options(const AverageCommand& options) {
  if (options.checkpoints.empty()) {
    throw ConfigError("name the models to average: dtn-average runs/a runs/b --output FILE");
  }
  if (options.shares.empty()) return;
  if (options.shares.size() != options.checkpoints.size()) {
    throw ConfigError(cat("--shares has ", options.shares.size(), " numbers for ",
                          counted(options.checkpoints.size(), "models")));
  }
}

int run_average(const AverageCommand& options, const Registries& registries) {
  check_options(options);
  const Device device = options.machine.apply();
  Ingredients models(options.checkpoints, options.weights, registries);
  Report report(options, models);
  std::optional<WeightsJudge> judge;
  if (options.greedy || options.evaluate) {
    models.warn_of_other_splits();
    const TrainConfig& train = models.config().train;
    const int usual = std::min(64, train.micro_batch.value_or(train.batch_size));
    judge.emplace(models.config(), models.file(0), device, registries,
                  options.batch_size.value_or(usual));
  }
  const Statistics with_statistics = statistics_of(options, models, device, registries);
  if (options.update_bn == 0 && models.has_statistics()) {
    const bool measurable = statistics_problem(models.config(), registries).empty();
    log_warn(cat(
        "the running statistics of the normalizers are averages, too, which may not fit the "
        "averaged weights",
        measurable ? "; --update-bn 100 measures them on 100 batches of training samples" : ""));
  }
  Average average;
  if (options.greedy) {
    average = greedy(models, *judge, with_statistics, report);
  } else {
    if (judge) evaluate_alone(models, *judge, report);
    average = {uniform_soup(models, options.shares), all_names(models)};
  }
  // A single model keeps its own statistics.
  if (average.names.size() > 1) average.weights = with_statistics(average.weights);
  write(options, models, average);
  if (judge) report.average(judge->figures(average.weights, "average"));
  report.finish();
  return kExitDone;
}

}  // namespace

int average_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Averages the weights of models of one architecture that come from the same starting "
      "weights: checkpoints of a run, or runs that fine-tuned the same weights. The average costs "
      "no more than one model, and can be better than each.",
      "dtn-average"};
  AverageCommand options;
  app.add_option("--checkpoint,checkpoint", options.checkpoints,
                 "models: checkpoint folders, run folders, folders of Hugging Face hub models, "
                 "safetensors files of weights, or public models that dtn-get has fetched");
  app.add_option("--output", options.output,
                 "safetensors file to write, such as soup.safetensors; it contains the config of "
                 "the first model")
      ->required();
  options.weights.add_config_to(app, "average the moving averages of the weights");
  auto* shares =
      app.add_option("--shares", options.shares,
                     "weight of each model in the mean, in their order, such as 0.7,0.3 (default: "
                     "equal)")
          ->delimiter(',')
          ->check(positive());
  app.add_flag("--greedy", options.greedy,
               "try the models from the best to the worst, and take only those that do not worsen "
               "the average on the validation split")
      ->excludes(shares);
  app.add_flag("--evaluate", options.evaluate,
               "evaluate each model and the average on the validation split");
  app.add_option("--update-bn", options.update_bn,
                 "for models with BatchNorm: measure the running statistics of the average on this "
                 "number of batches of training samples")
      ->check(positive());
  app.add_flag("--json", options.json,
               "print the figures of --greedy and --evaluate as one JSON object: models "
               "[{checkpoint alone together taken}], average");
  app.add_option("--batch-size", options.batch_size,
                 "samples per batch of an evaluation (default: at most 64)")
      ->check(positive());
  options.machine.add_to(app);
  return run_program(app, argc, argv, Processes::kOne,
                     [&] { return run_average(options, registries); });
}

}  // namespace dtn::app
