#include "config/sweeps/sweep_samples.h"

#include <algorithm>
#include <array>

#include "config/codec.h"
#include "config/layers.h"
#include "config/sweeps/sweep_file.h"
#include "dtn/config/load.h"

namespace dtn::config {
namespace {

const std::array<std::string, 7> kSamplesKeys = {"judge",    "count",      "steps", "sampler",
                                                 "guidance", "references", "seed"};
const std::array<std::string, 2> kSamplers = {"ddim", "ddpm"};
constexpr std::int64_t kMinCount = 2;  // fewer samples have no covariance

void read_guidance(const Node& node, std::vector<double>& guidance) {
  read_value({node, "samples.guidance", "guidance scales"}, at_least(0), guidance);
  if (guidance.empty()) fail(node.where, "samples.guidance must be a list like [1, 2]");
  for (std::size_t i = 1; i < guidance.size(); ++i) {
    if (std::find(guidance.begin(), guidance.begin() + static_cast<std::ptrdiff_t>(i),
                  guidance[i]) == guidance.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    fail(node.where, "samples.guidance: ", number_text(guidance[i]), " is there twice");
  }
}

// Returns the overrides of keys below data, such as the folder of the images.
std::vector<std::string> data_overrides(std::span<const std::string> overrides) {
  std::vector<std::string> of_data;
  for (const std::string& text : overrides) {
    if (text.starts_with("data.")) of_data.push_back(text);
  }
  return of_data;
}

}  // namespace

SamplesFile read_samples(const Node& node, const std::filesystem::path& folder,
                         const ConfigSchemas& schemas) {
  SamplesFile file;
  if (node.is_null()) return file;
  check_keys(node, "samples", kSamplesKeys);
  const Node* judge = node.value_at("judge");
  if (judge == nullptr) {
    fail(node.where, "samples has no judge; name the config of a classifier of the same images");
  }
  file.judge = {find_named_file(read_line(*judge, "samples.judge"), "samples.judge", judge->where,
                                folder, schemas),
                judge->where};
  SweepSamples& samples = file.samples;
  const auto read = [&](const char* key, const Range& range, auto& value) {
    if (const Node* n = node.value_at(key))
      read_value({*n, cat("samples.", key), ""}, range, value);
  };
  read("count", at_least(kMinCount), samples.count);
  read("steps", at_least(2), samples.steps);
  read("references", at_least(kMinCount), samples.references);
  read("seed", {}, samples.seed);
  if (const Node* n = node.value_at("sampler")) {
    samples.sampler = kSamplers[read_choice({*n, "samples.sampler", ""}, kSamplers)];
  }
  if (const Node* n = node.value_at("guidance")) read_guidance(*n, samples.guidance);
  return file;
}

SweepSamples load_samples(const SamplesFile& file, std::span<const std::string> overrides,
                          std::span<const SweepVariant> variants, const ConfigSchemas& schemas) {
  SweepSamples samples = file.samples;
  if (!file.judge) return samples;
  const std::string& path = file.judge->value;
  const std::vector<std::string> of_data = data_overrides(overrides);
  samples.judge = load_experiment(path, of_data, schemas);
  samples.judge->name = kJudgeFolder;
  samples.judge_sets_num_classes = sets_key(path, of_data, schemas, "model.num_classes");
  if (std::ranges::find(variants, kJudgeFolder, &SweepVariant::name) != variants.end()) {
    fail(file.judge->where, "'", kJudgeFolder, "' is the folder of the judge; name the variant ",
         "otherwise");
  }
  return samples;
}

}  // namespace dtn::config
