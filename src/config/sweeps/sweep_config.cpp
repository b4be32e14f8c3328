#include "config/sweeps/sweep_config.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "config/codec.h"
#include "config/layers.h"
#include "config/sweeps/sweep_file.h"

namespace dtn {
namespace config {
namespace {

// Layer rank above every base file; there are fewer base files than this.
constexpr int kFirstSetRank = 1000;
constexpr std::size_t kMaxNameLength = 80;

void check_overrides(std::span<const std::string> overrides) {
  for (const std::string& text : overrides) {
    std::string key = text.substr(0, text.find('='));
    std::erase(key, ' ');
    if (key == "seed" || key == "name") {
      throw ConfigError(cat("--set ", shown(text), ": a sweep gives each run its own ", key,
                            key == "seed" ? "; choose runs with --only VARIANT:SEED" : ""));
    }
  }
}

Node layers_of_variant(const SweepFile& sweep, const VariantFile& variant,
                       std::span<const std::string> overrides, const ConfigSchemas& schemas) {
  const auto& base = variant.base ? variant.base : sweep.base;
  if (!base) {
    fail(variant.where, "there is no config to start from; name one in base:, here or for the ",
         "whole sweep");
  }
  Node root = load_file_layers(base->value, schemas);
  int rank = kFirstSetRank;
  for (const auto* sets : {&sweep.sets, &variant.sets}) {
    for (const Node& set : *sets) apply_layer(root, set, rank++, schemas);
  }
  apply_overrides(root, overrides, schemas);
  return root;
}

std::string name_of_file(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  if (stem.size() > kMaxNameLength) {
    throw ConfigError(cat(path, ": a long name for a file; give the sweep another with name:"));
  }
  return stem;
}

std::vector<FigureSchema> figures_of_task(const std::string& task, const SweepFile& file,
                                          const ConfigSchemas& schemas) {
  const auto schema = std::ranges::find(schemas.tasks, task, &TaskSchema::name);
  if (schema == schemas.tasks.end() || schema->figures.empty()) {
    fail(file.where, "the task ", task, " says of no figure how it is to be compared");
  }
  return schema->figures;
}

// Removes the figures that `others` does not have. A figure with another title in `others` is then
// called by its name, which both have.
void keep_shared(std::vector<FigureSchema>& figures, const std::vector<FigureSchema>& others) {
  std::vector<FigureSchema> shared;
  for (FigureSchema& figure : figures) {
    const auto other = std::ranges::find(others, figure.name, &FigureSchema::name);
    if (other == others.end() || other->higher_is_better != figure.higher_is_better ||
        other->percent != figure.percent) {
      continue;
    }
    if (other->title != figure.title) figure.title = figure.name;
    shared.push_back(figure);
  }
  figures = std::move(shared);
}

// Returns the figures that the tasks of all variants have.
std::vector<FigureSchema> figures_of(const SweepConfig& sweep, const SweepFile& file,
                                     const ConfigSchemas& schemas) {
  const SweepVariant& first = sweep.variants.front();
  std::vector<FigureSchema> figures = figures_of_task(first.config.task, file, schemas);
  for (const SweepVariant& variant : sweep.variants) {
    if (variant.config.task == first.config.task) continue;
    keep_shared(figures, figures_of_task(variant.config.task, file, schemas));
    if (!figures.empty()) continue;
    fail(file.where, "variants of a sweep have a figure to compare, but the tasks of '", first.name,
         "' (", first.config.task, ") and '", variant.name, "' (", variant.config.task,
         ") share none");
  }
  return figures;
}

SweepMetric metric_of(const SweepFile& file, std::span<const FigureSchema> figures) {
  if (!file.metric) return {figures.front()};
  std::vector<std::string> names;
  for (const bool best_of_all : {false, true}) {
    for (const FigureSchema& figure : figures) {
      SweepMetric metric{figure, best_of_all};
      if (metric.name() == file.metric->value) return metric;
      names.push_back(metric.name());
    }
  }
  fail(file.metric->where, "metric must be one of ", join(names), ", not '",
       shown(file.metric->value), "'");
}

// Calls work(variant) for each variant. An error names the variant.
void each_variant(const SweepFile& file, const std::function<void(const VariantFile&)>& work) {
  for (const VariantFile& variant : file.variants) {
    try {
      work(variant);
    } catch (const ConfigError& e) {
      throw ConfigError(cat(e.what(), " (variant '", variant.name, "')"));
    }
  }
}

std::vector<double> milestones_of(const SweepFile& file, const FigureSchema& figure) {
  std::vector<double> values;
  for (const Written<double>& milestone : file.milestones) {
    check_figure(milestone, figure, false, "milestones");
    const bool better =
        values.empty() || (figure.higher_is_better ? milestone.value > values.back()
                                                   : milestone.value < values.back());
    if (!better) {
      fail(milestone.where, "milestones must ", figure.higher_is_better ? "increase" : "decrease",
           ", ", number_text(milestone.value), " comes after ", number_text(values.back()));
    }
    values.push_back(milestone.value);
  }
  return values;
}

// Returns the figures, besides the metric, that the paper gives for any variant.
std::vector<FigureSchema> figures_in_paper(std::span<const SweepVariant> variants,
                                           std::span<const FigureSchema> figures) {
  std::vector<FigureSchema> found;
  for (const FigureSchema& figure : figures) {
    const auto has_figure = [&](const SweepVariant& v) {
      return v.paper_figures.contains(figure.name);
    };
    if (std::ranges::any_of(variants, has_figure)) found.push_back(figure);
  }
  return found;
}

SweepVariant make_variant(const SweepConfig& sweep, const SweepFile& file,
                          const VariantFile& variant, std::span<const std::string> overrides,
                          const ConfigSchemas& schemas) {
  SweepVariant made;
  made.name = variant.name;
  made.label = variant.label.value_or(variant.name);
  made.paper_suites = variant.paper_suites;
  const Node root = layers_of_variant(file, variant, overrides, schemas);
  made.config = resolve(root, schemas, Resample::kPillow13);
  made.sets_num_classes = root.value_at("model.num_classes") != nullptr;
  if (file.ema && !made.config.train.ema) {
    fail(*file.ema, "weights: ema, but train.ema is not set");
  }
  keep_evaluated_checkpoints(file.features, made.config);
  made.seeds = variant.seeds ? *variant.seeds
               : file.seeds  ? *file.seeds
                             : std::vector<std::uint64_t>{made.config.seed};
  made.config.seed = made.seeds.front();
  made.config.name = sweep.name + "-" + variant.name;
  return made;
}

}  // namespace
}  // namespace config

SweepConfig load_sweep(const std::string& path, std::span<const std::string> overrides,
                       const ConfigSchemas& schemas) {
  config::check_overrides(overrides);
  const config::SweepFile file = config::read_sweep_file(path, schemas);
  if (file.variants.empty()) {
    config::fail(file.where, "a sweep without variants; list at least one below variants:");
  }
  SweepConfig sweep;
  sweep.name = file.name ? *file.name : config::name_of_file(path);
  sweep.title = file.title.value_or(sweep.name);
  sweep.ema = file.ema.has_value();
  sweep.suites = file.suites;
  sweep.columns = file.columns;
  sweep.notes = file.notes;
  sweep.features.evaluations = file.features.evaluations;
  for (const auto& epoch : file.features.epochs) sweep.features.epochs.push_back(epoch.value);
  if (file.baseline) {
    sweep.baseline =
        config::find_variant(file, file.baseline->value, file.baseline->where, "baseline");
  }
  config::each_variant(file, [&](const config::VariantFile& variant) {
    sweep.variants.push_back(config::make_variant(sweep, file, variant, overrides, schemas));
  });
  const std::vector<FigureSchema> figures = config::figures_of(sweep, file, schemas);
  sweep.metric = config::metric_of(file, figures);
  auto made = sweep.variants.begin();
  config::each_variant(file, [&](const config::VariantFile& variant) {
    if (variant.paper) config::set_paper(*variant.paper, sweep.metric, figures, *made);
    config::set_paper_features(variant.paper_features, sweep.features, *made);
    ++made;
  });
  sweep.samples = config::load_samples(file.samples, overrides, sweep.variants, schemas);
  sweep.paper_figures = config::figures_in_paper(sweep.variants, figures);
  sweep.milestone_figure = figures.front();
  sweep.milestones = config::milestones_of(file, sweep.milestone_figure);
  return sweep;
}

}  // namespace dtn
