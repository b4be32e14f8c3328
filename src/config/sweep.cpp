#include "config/sweep.h"

#include <filesystem>

#include "config/codec.h"
#include "config/layers.h"
#include "config/resolve.h"
#include "config/sweep_file.h"

namespace dtn {
namespace config {
namespace {

// Above every base file, of which there are fewer.
constexpr int kFirstSetRank = 1000;
constexpr std::size_t kMostOfName = 80;

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

ExperimentConfig resolve_variant(const SweepFile& sweep, const VariantFile& variant,
                                 std::span<const std::string> overrides,
                                 const ConfigSchemas& schemas) {
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
  return resolve(root, schemas);
}

std::string name_of_file(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  if (stem.size() > kMostOfName) {
    throw ConfigError(cat(path, ": a long name for a file; give the sweep another with name:"));
  }
  return stem;
}

void check_paper(const SweepFile& sweep, const VariantFile& variant) {
  if (!variant.paper) return;
  static const std::string path = "paper", doc = "the paper's figure";
  const bool loss = sweep.metric == SweepMetric::kLoss;
  Node node;
  node.where = variant.paper->where;
  check_range({node, path, doc}, loss ? at_least(0) : between(0, 100), variant.paper->value,
              number_text(variant.paper->value));
}

SweepVariant make_variant(const SweepConfig& sweep, const SweepFile& file,
                          const VariantFile& variant, std::span<const std::string> overrides,
                          const ConfigSchemas& schemas) {
  SweepVariant made;
  made.name = variant.name;
  made.label = variant.label.value_or(variant.name);
  check_paper(file, variant);
  if (variant.paper) made.paper = variant.paper->value;
  made.config = resolve_variant(file, variant, overrides, schemas);
  if (file.ema && !made.config.train.ema) {
    fail(*file.ema, "weights: ema, but train.ema is not set");
  }
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
  sweep.metric = file.metric;
  sweep.ema = file.ema.has_value();
  sweep.milestones = file.milestones;
  if (file.baseline) {
    sweep.baseline =
        config::find_variant(file, file.baseline->value, file.baseline->where, "baseline");
  }
  for (const config::VariantFile& variant : file.variants) {
    try {
      sweep.variants.push_back(config::make_variant(sweep, file, variant, overrides, schemas));
    } catch (const ConfigError& e) {
      throw ConfigError(cat(e.what(), " (variant '", variant.name, "')"));
    }
  }
  return sweep;
}

}  // namespace dtn
