#include "apps/sweep/sweep_size.h"

#include <fstream>
#include <utility>

#include "apps/common/json_files.h"
#include "dtn/config/condition_field.h"

namespace dtn {
namespace {

// Returns the part of a config on which a run's size depends.
ExperimentConfig key_of(const ExperimentConfig& config) {
  ExperimentConfig key;
  key.task = config.task;
  key.data = config.data;
  key.augment = config.augment;
  key.model.image_size = config.model.image_size;
  key.model.channels = config.model.channels;
  key.model.num_classes = config.model.num_classes;
  key.model.max_length = config.model.max_length;
  key.model.attention.kind = config.model.attention.kind;
  key.schedule = config.schedule;
  key.optim = config.optim;
  key.train.batch_size = config.train.batch_size;
  key.train.eval_every = config.train.eval_every;
  key.train.checkpoint_every = config.train.checkpoint_every;
  key.diffusion = config.diffusion;
  key.model.label_dropout = config.model.label_dropout;
  key.model.out_channels = config.model.out_channels;
  key.model.condition = config.model.condition;
  for (const FieldSpec& field : condition_fields(config.model)) {
    if (field.name == "map") key.model.norm.type = "spade";  // its samples have another field
  }
  return key;
}

}  // namespace

const SizeCache::Entry& SizeCache::of(const ExperimentConfig& config) {
  ExperimentConfig key = key_of(config);
  for (const Entry& entry : known_) {
    if (entry.key == key) return entry;
  }
  const std::unique_ptr<Task> task = make_task({config, kMeta, registries_});
  ExperimentConfig config_or_synthetic = config;
  RunData data = when_ == kFail
                     ? open_run_data(*task, device_)
                     : open_or_synthesize(*task, config_or_synthetic, device_, registries_, note_);
  const RunSize size = size_of_run(config, data, registries_.schedules);
  known_.push_back({std::move(key), std::move(data), size});
  return known_.back();
}

std::vector<Complexity> costs_of(const SweepConfig& sweep, const Registries& registries) {
  std::vector<Complexity> costs;
  for (const SweepVariant& variant : sweep.variants) {
    costs.push_back(make_task({variant.config, kMeta, registries})->cost());
  }
  return costs;
}

std::int64_t logged_step(const std::filesystem::path& run) {
  constexpr std::streamoff kTail = 2048;  // a few lines
  std::ifstream file(run / "metrics.jsonl", std::ios::binary | std::ios::ate);
  if (!file) return 0;
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kTail));
  std::int64_t step = 0;
  each_json_line(file, [&](const nlohmann::ordered_json& line) {
    const auto found = line.find("step");
    if (found != line.end() && found->is_number_integer()) step = found->get<std::int64_t>();
  });
  return step;
}

}  // namespace dtn
