#include "apps/eval/frozen_evaluation.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "apps/common/program.h"
#include "apps/eval/frozen_runs.h"
#include "apps/eval/result_files.h"
#include "apps/report/neighbors_figure.h"
#include "core/format.h"
#include "data/source/split_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/models/weights.h"
#include "io/atomic_file.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

// Throws ConfigError for an option that the task does not read.
void check_unset(const std::vector<CLI::Option*>& options, const char* readers, const char* task) {
  for (const CLI::Option* option : options) {
    if (option->count() == 0) continue;
    throw ConfigError(cat(option->get_name(), " is for ", readers, ", but the task is ", task));
  }
}

void check_options(const FrozenOptions& o) {
  if (o.is_knn()) {
    check_unset(o.linear_only, "--task linear", "knn");
    return;
  }
  check_unset({o.knn_only}, "--task knn", "linear");
  if (!o.baselines) check_unset(o.neighbors_only, "--task knn and --baselines", "linear");
  if (!o.avgpool || o.block_count() == 1) return;
  throw ConfigError(
      cat("--avgpool adds the patch mean to the class token of the last block, but --blocks is ",
          o.block_count(), "; leave --blocks out"));
}

struct LoadedWeights {
  fs::path path;
  TensorFile file;
  ExperimentConfig config;
};

// Reads the weights. A run or checkpoint folder of a task whose average is the model to use gives
// the average.
LoadedWeights read_weights(const FrozenCommand& command) {
  const WeightsOptions& options = command.weights;
  LoadedWeights read{options.trained_file(command.registries), {}, {}};
  read.file = read_safetensors(read.path);
  read.config = options.config_of(read.file, command.registries.schemas());
  if (read.config.model.detector.kind) {
    throw ConfigError(
        "--task evaluates the features of whole images, and the model is a detector; evaluate it "
        "without --task");
  }
  if (read.config.model.condition.from) {
    throw ConfigError(
        "--task evaluates features of images alone, and this model also reads a condition "
        "(model.condition.from); evaluate its classes without --task");
  }
  const auto step = read.file.metadata.find("step");
  log_info(cat("weights: ", fs::canonical(read.path).string(),
               step == read.file.metadata.end() ? "" : cat(", step ", step->second)));
  return read;
}

void save_features(const std::string& path, const FrozenResult& result) {
  const FeatureSet& set = result.evaluated;
  const std::int64_t width = set.features.dim(1);
  RowFile file(path, "features", result.images, {width}, result.labels);
  for (std::size_t i = 0; i < set.indices.size(); ++i) {
    file.add(set.indices[i], set.features.data<float>() + static_cast<std::int64_t>(i) * width);
  }
  file.finish();
}

std::string title_of(const FrozenOptions& o, const FrozenResult& result) {
  if (o.is_knn()) {
    if (!result.metrics) return "k-NN";
    return cat("k-NN, k ", result.k, format(", temperature %g", o.temperature));
  }
  if (!o.linear.empty()) return cat("linear classifier of ", o.linear);
  return cat("linear classifier, ", counted(o.epochs, "epochs"));
}

// Returns the metrics, or why there are none.
std::string metrics_text(const FrozenResult& result) {
  if (result.metrics) return result.metrics->text;
  return cat("no accuracy, because the ", result.unlabelled, " have no labels");
}

// Says what a k-NN evaluation without accuracy can write.
void log_advice(const FrozenCommand& command, const FrozenResult& result) {
  const FrozenOptions& options = command.options;
  const bool writes = !options.save_neighbors.empty() || !command.save_features.empty();
  if (result.metrics || writes || !options.is_knn()) return;
  log_info(
      "--save-neighbors FILE writes a page of images with their nearest training images, "
      "--save-features FILE the features");
}

void print_text(const FrozenOptions& options, const FrozenResult& result) {
  std::printf("%s: %s  %s, %.1f images/s\n", title_of(options, result).c_str(),
              metrics_text(result).c_str(), counted(result.count(), "images").c_str(),
              result.images_per_second());
  std::printf("features: %s\n", result.description.c_str());
  for (const auto& [name, metrics] : result.baselines) {
    const char* owner = name == "pixels" ? "pixels" : "untrained network";
    std::printf("k-NN of the %s: %s\n", owner, metrics.text.c_str());
  }
  if (result.damaged > 0) {
    std::printf("skipped %s\n", counted(result.damaged, "damaged images").c_str());
  }
}

void print_json(const FrozenResult& result) {
  nlohmann::ordered_json json{{"top1", nullptr}, {"top5", nullptr}, {"loss", nullptr}};
  if (result.metrics) {
    for (const auto& [name, value] : result.metrics->values) json[name] = value;
  }
  json["count"] = result.count();
  json["images_per_second"] = result.images_per_second();
  json["skipped"] = result.damaged;
  for (const auto& [name, metrics] : result.baselines) {
    for (const auto& [figure, value] : metrics.values) json["baselines"][name][figure] = value;
  }
  std::printf("%s\n", json.dump().c_str());
}

}  // namespace

CLI::Option* FrozenOptions::add_to(CLI::App& app) {
  auto* choice = app.add_option("--task", task,
                                "evaluate the features of the model without its head: by k-NN "
                                "(knn), or by a linear classifier trained on them (linear); see "
                                "docs/frozen-features.md")
                     ->check(CLI::IsMember({"knn", "linear"}));
  neighbors_only = {
      add_count(app, "--k", k, "knn and --baselines: number of nearest training images that vote"),
      add_defaulted(app, "--temperature", temperature,
                    "knn and --baselines: a neighbour's vote is exp(similarity / temperature)")
          ->check(CLI::PositiveNumber)};
  auto* given = app.add_option("--linear", linear,
                               "linear: evaluate the classifier of this safetensors file, as "
                               "written by --save-linear, instead of training one");
  linear_only = {
      given,
      app.add_option("--blocks", blocks,
                     "linear: use the class tokens of this many last blocks (default: 4)")
          ->check(positive()),
      app.add_flag("--avgpool", avgpool,
                   "linear: use the class token and the mean of the patches of the last block")};
  for (CLI::Option* option : add_training_to(app)) {
    given->excludes(option);
    linear_only.push_back(option);
  }
  for (CLI::Option* option : neighbors_only) option->needs(choice);
  for (CLI::Option* option : linear_only) option->needs(choice);
  knn_only = app.add_option("--save-neighbors", save_neighbors,
                            "knn: write a page (HTML) of some evaluated images with their nearest "
                            "training images to this file")
                 ->needs(choice);
  app.add_option("--train-inputs", train_inputs,
                 "safetensors file of training images instead of the training split: 'images' and "
                 "'labels' as for --inputs")
      ->needs(choice)
      ->excludes(given);
  app.add_flag("--baselines", baselines,
               "also print the k-NN accuracy of the model before training and of the pixels")
      ->needs(choice)
      ->excludes(given);
  return choice;
}

std::vector<CLI::Option*> FrozenOptions::add_training_to(CLI::App& app) {
  return {add_count(app, "--epochs", epochs, "linear: epochs of training"),
          add_defaulted(app, "--lr", lr, "linear: learning rate for a batch of 256")
              ->check(CLI::PositiveNumber),
          add_count(app, "--batch", batch, "linear: images per step"),
          app.add_flag_callback(
              "--no-augment", [this] { augment = false; },
              "linear: train on the images as evaluation sees them, whose features are computed "
              "once, instead of random crops and flips in every epoch"),
          app.add_option("--save-linear", save_linear,
                         "linear: write 'linear.weight' [K,F] and 'linear.bias' [K] to this "
                         "safetensors file, with the names of the classes")};
}

int evaluate_frozen(const FrozenCommand& command) {
  const FrozenOptions& options = command.options;
  check_options(options);
  LoadedWeights weights = read_weights(command);
  if (command.inputs.empty()) take_test_split(weights.config.data);
  FrozenFeatures features(weights.config, command.device, command.registries, choice_of(options));
  for (const std::string& note : features.load(weights.file, weights.path.string())) log_info(note);
  const StreamOptions streaming{
      command.device,
      command.batch_size.value_or(std::min(
          64, weights.config.train.micro_batch.value_or(weights.config.train.batch_size)))};
  FrozenRuns runs(weights.config, options, command.inputs, streaming, command.registries);
  FrozenResult result = options.is_knn()         ? runs.nearest_neighbors(features)
                        : options.linear.empty() ? runs.linear_classifier(features)
                                                 : runs.given_classifier(features);
  result.description = features.description();
  if (!command.save_features.empty()) save_features(command.save_features, result);
  if (!options.save_neighbors.empty()) {
    write_file_atomic(options.save_neighbors,
                      neighbors_page("Nearest neighbours of " + weights.config.name,
                                     result.neighbors.json, result.neighbors.png));
  }
  if (!options.save_linear.empty()) write_linear(options.save_linear, result.linear);
  if (options.baselines) runs.add_baselines(result, weights.file);
  log_advice(command, result);
  if (command.json) {
    log_info(cat("features: ", result.description));
    if (!result.metrics) log_info(cat(title_of(options, result), ": ", metrics_text(result)));
    print_json(result);
  } else {
    print_text(options, result);
  }
  return kExitDone;
}

}  // namespace dtn::app
