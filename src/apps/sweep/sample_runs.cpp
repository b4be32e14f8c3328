#include "apps/sweep/sample_runs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <system_error>
#include <utility>

#include "apps/common/json_files.h"
#include "apps/sweep/run_evaluation.h"
#include "config/codec.h"
#include "core/format.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/tasks/diffusion.h"
#include "dtn/tasks/multilabel.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"
#include "tasks/diffusion/sample_grid.h"
#include "tasks/diffusion/sampler.h"
#include "tasks/judging/sample_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxGridColumns = 10, kMaxGridRows = 20;

std::string scale_text(const SweepConfig& sweep, std::size_t i) {
  return config::number_text(sweep.samples.guidance[i]);
}

// Returns what a result depends on, besides the config of the run.
Json inputs_json(const SweepConfig& sweep, const SweepRun& run, std::size_t i) {
  const SweepSamples& s = sweep.samples;
  return {{"judge", hash_of(*s.judge)},
          {"count", s.count},
          {"steps", s.steps},
          {"sampler", s.sampler},
          {"guidance", s.guidance[i]},
          {"references", s.references},
          {"seed", s.seed},
          {"step", run.step}};
}

std::optional<SampleScore> score_at(const Json& json, const char* agreement) {
  const SampleScore score{number_at(json, agreement), number_at(json, "frechet_distance")};
  if (std::isnan(score.agreement) || std::isnan(score.distance)) return std::nullopt;
  return score;
}

std::optional<SampleResult> result_of(const Json& json) {
  const auto samples = score_at(json, "agreement");
  if (!samples) return std::nullopt;
  SampleResult result;
  result.samples = *samples;
  const Json references = json.value("references", Json::object());
  result.test = score_at(references.value("test_images", Json()), "accuracy");
  result.noise = score_at(references.value("noise", Json()), "agreement");
  result.untrained = score_at(references.value("samples", Json()), "agreement");
  result.features = json.value("features", std::int64_t{0});
  result.training_images = json.value("training_images", std::int64_t{0});
  return result;
}

SweepRun judge_run(const SweepConfig& sweep, const SweepOptions& options) {
  SweepRun judge;
  judge.id = kJudgeFolder;
  judge.folder = options.output / kJudgeFolder;
  judge.config = *sweep.samples.judge;
  judge.seed = judge.config.seed;
  update_state(judge);
  return judge;
}

fs::path last_weights(const SweepRun& run) { return run.folder / "checkpoints" / "last"; }

void add_machine(const SweepOptions& options, std::vector<std::string>& command) {
  command.insert(command.end(), {"--device", options.device, "--threads",
                                 std::to_string(options.threads * options.jobs)});
}

// Writes the samples as a picture with a row for each of the first classes.
void write_grid(const SampleFile& file, const fs::path& path) {
  const Tensor& all = file.samples;
  if (all.dim(1) != 1 && all.dim(1) != 3) return;  // latents are no picture
  std::vector<std::vector<std::int64_t>> by_class;
  for (std::int64_t i = 0; i < all.dim(0); ++i) {
    const auto label = static_cast<std::size_t>(file.labels.data<std::int64_t>()[i]);
    if (label >= by_class.size()) by_class.resize(label + 1);
    by_class[label].push_back(i);
  }
  const std::int64_t columns = std::min(kMaxGridColumns, std::ssize(by_class.front()));
  const std::int64_t rows = std::min(kMaxGridRows, std::ssize(by_class));
  Tensor grid = Tensor::full({rows * columns, all.dim(1), all.dim(2), all.dim(3)}, DType::kFloat32,
                             -1);  // black
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto& images = by_class[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; c < std::min(columns, std::ssize(images)); ++c) {
      const std::int64_t from = images[static_cast<std::size_t>(c)], to = r * columns + c;
      grid.slice(to, to + 1).copy_from(all.slice(from, from + 1));
    }
  }
  std::vector<std::byte> png;
  encode_png(sample_grid(grid, columns), png);
  write_file_atomic(path, {reinterpret_cast<const char*>(png.data()), png.size()});
}

// Draws and judges the samples of the runs.
class SampleEvaluations {
 public:
  SampleEvaluations(const SweepConfig& sweep, const SweepOptions& options)
      : sweep_(sweep), options_(options), judge_(judge_run(sweep, options)) {}

  SweepStatus train_judge() {
    check_judge_folder(sweep_, options_);
    if (judge_.state == RunState::kFinished) return SweepStatus::kFinished;
    fs::create_directories(judge_.folder);
    const fs::path config = judge_.folder / "config.yaml";
    write_file_atomic(config, to_yaml(judge_.config));
    std::vector<std::string> command = {
        options_.trainer.string(), "--config", config.string(), "--output",
        judge_.folder.string(),    "--resume", "auto"};
    add_machine(options_, command);
    return run_logged(judge_, {.title = "training",
                               .command = command,
                               .log = judge_.folder / kRunLog,
                               .result = [&]() -> std::optional<std::string> {
                                 update_state(judge_);
                                 if (judge_.state != RunState::kFinished) return std::nullopt;
                                 const Json summary = json_of_file(judge_.folder / "summary.json");
                                 return cat("top-1 ", format("%.2f", number_at(summary, "top1")),
                                            " %");
                               }});
  }

  // Draws the samples of an untrained model of `run`, a reference for all runs.
  SweepStatus draw_reference(const SweepRun& run) {
    std::vector<std::string> command = draw_command(run, reference());
    command.insert(command.end(), {"--cfg-scale", "1", "--untrained"});
    add_machine(options_, command);
    return draw(judge_, command, "drawing samples of an untrained model",
                judge_.folder / "untrained.log", reference());
  }

  SweepStatus evaluate(const SweepRun& run, std::size_t i) {
    const std::string title = cat("samples at guidance ", scale_text(sweep_, i));
    const fs::path result = sample_file(sweep_, run, i);
    const fs::path log = fs::path(result).replace_extension(".log");
    const fs::path samples = fs::path(result).replace_extension(".safetensors");
    fs::create_directories(sample_folder(run));
    std::vector<std::string> command = draw_command(run, samples);
    command.insert(command.end(), {"--cfg-scale", scale_text(sweep_, i)});
    add_machine(options_, command);
    SweepStatus status = draw(run, command, "drawing " + title, log, samples);
    if (status == SweepStatus::kFinished) {
      status = judge(run, i, title, samples, log);
      if (status == SweepStatus::kFinished) keep_grid(run, i, samples);
    }
    std::error_code none;
    fs::remove(samples, none);
    return status;
  }

  void remove_reference() const {
    std::error_code none;
    fs::remove(reference(), none);
  }

 private:
  fs::path reference() const { return judge_.folder / "untrained.safetensors"; }

  std::vector<std::string> draw_command(const SweepRun& run, const fs::path& file) const {
    const SweepSamples& s = sweep_.samples;
    std::vector<std::string> command = options_.sampler;
    command.insert(command.end(),
                   {"--checkpoint", last_weights(run).string(), "--count", std::to_string(s.count),
                    "--seed", std::to_string(s.seed), "--sampler", s.sampler, "--steps",
                    std::to_string(s.steps), "--save-samples", file.string()});
    return command;
  }

  static SweepStatus draw(const SweepRun& run, const std::vector<std::string>& command,
                          const std::string& title, const fs::path& log, const fs::path& file) {
    std::error_code none;
    fs::remove(log, none);
    return run_logged(run, {.title = title,
                            .command = command,
                            .log = log,
                            .result = [&]() -> std::optional<std::string> {
                              return fs::exists(file) ? std::optional("") : std::nullopt;
                            }});
  }

  SweepStatus judge(const SweepRun& run, std::size_t i, const std::string& title,
                    const fs::path& samples, const fs::path& log) const {
    std::vector<std::string> command = options_.evaluator;
    command.insert(command.end(),
                   {"--checkpoint", last_weights(judge_).string(), "--samples", samples.string(),
                    "--references", std::to_string(sweep_.samples.references),
                    "--reference-samples", reference().string(), "--json"});
    add_data_options(judge_.config.data, command);
    add_machine(options_, command);
    return run_logged(
        run, {.title = "judging " + title,
              .command = command,
              .log = log,
              .result = [&]() -> std::optional<std::string> {
                const Json printed = last_json_line(log);
                const auto result = result_of(printed);
                if (!result) return std::nullopt;
                write_file_atomic(
                    sample_file(sweep_, run, i),
                    json_text({{"inputs", inputs_json(sweep_, run, i)}, {"result", printed}}, 2));
                return cat(title, format(": agreement %.2f %%, Frechet distance %.4g",
                                         result->samples.agreement, result->samples.distance));
              }});
  }

  void keep_grid(const SweepRun& run, std::size_t i, const fs::path& samples) const {
    const bool is_first = run.seed == sweep_.variants[run.variant].seeds.front();
    if (!is_first || i + 1 != sweep_.samples.guidance.size()) return;
    write_grid(read_sample_file(samples), sample_folder(run) / kSampleGrid);
  }

  const SweepConfig& sweep_;
  const SweepOptions& options_;
  SweepRun judge_;
};

bool is_left(const SweepConfig& sweep, const SweepRun& run, std::size_t i) {
  if (!run.selected) return false;
  if (run.state != RunState::kFinished) return true;
  return has_weights(run) && !sample_result(sweep, run, i);
}

void check_variant(const SweepSamples& s, const SweepVariant& variant,
                   const Registries& registries) {
  const ExperimentConfig& config = variant.config;
  const std::unique_ptr<Task> task = make_task({config, kMeta, registries});
  if (!dynamic_cast<Diffusion*>(task.get())) {
    throw ConfigError(cat("the task ", config.task, " draws no samples; leave samples out"));
  }
  const ModelConfig &model = config.model, &judge = s.judge->model;
  if (model.num_classes == 0) {
    throw ConfigError(
        "a judge compares samples with the classes that were asked for, and this model has none "
        "(model.num_classes: 0); leave samples out");
  }
  if (judge.channels != model.channels || judge.image_size != model.image_size) {
    throw ConfigError(cat("samples of ", model.channels, " channels and ", model.image_size,
                          " pixels do not fit the judge, which reads ", judge.channels,
                          " channels and ", judge.image_size));
  }
  for (const double guidance : s.guidance) {
    if (guidance != 1 && !(model.num_classes > 0 && model.label_dropout > 0)) {
      throw ConfigError(cat("guidance ", config::number_text(guidance),
                            " needs a model with model.label_dropout above 0"));
    }
    const SamplerKind kind = s.sampler == "ddpm" ? SamplerKind::kDdpm : SamplerKind::kDdim;
    Sampler(config.diffusion, {.kind = kind, .steps = s.steps, .guidance = guidance});
  }
}

}  // namespace

fs::path sample_folder(const SweepRun& run) { return run.folder / "samples"; }

fs::path sample_file(const SweepConfig& sweep, const SweepRun& run, std::size_t i) {
  return sample_folder(run) / cat("guidance-", scale_text(sweep, i), ".json");
}

std::optional<SampleResult> sample_result(const SweepConfig& sweep, const SweepRun& run,
                                          std::size_t i) {
  const Json json = json_of_file(sample_file(sweep, run, i));
  if (!json.is_object() || !json.contains("result")) return std::nullopt;
  if (json.value("inputs", Json()) != inputs_json(sweep, run, i)) return std::nullopt;
  return result_of(json["result"]);
}

std::size_t samples_left(const SweepConfig& sweep, const std::vector<SweepRun>& runs) {
  if (!sweep.samples.judge) return 0;
  std::size_t left = 0;
  for (const SweepRun& run : runs) {
    for (std::size_t i = 0; i < sweep.samples.guidance.size(); ++i) left += is_left(sweep, run, i);
  }
  return left;
}

void check_samples(const SweepConfig& sweep, const Registries& registries) {
  if (!sweep.samples.judge) return;
  const std::unique_ptr<Task> judge = make_task({*sweep.samples.judge, kMeta, registries});
  if (!dynamic_cast<Classify*>(judge.get()) || dynamic_cast<Multilabel*>(judge.get())) {
    throw ConfigError(cat("samples.judge: the task ", sweep.samples.judge->task,
                          " does not classify; name the config of a classifier"));
  }
  for (const SweepVariant& variant : sweep.variants) {
    try {
      check_variant(sweep.samples, variant, registries);
    } catch (const ConfigError& e) {
      throw ConfigError(cat("samples: variant '", variant.name, "': ", e.what()));
    }
  }
}

void check_judge_folder(const SweepConfig& sweep, const SweepOptions& options) {
  if (!sweep.samples.judge) return;
  const SweepRun judge = judge_run(sweep, options);
  if (judge.step > 0 || judge.state == RunState::kFinished) {
    check_config(judge, options.registries->schemas());
  }
}

SweepStatus judge_samples(const SweepConfig& sweep, const SweepOptions& options,
                          const std::vector<SweepRun>& runs) {
  std::vector<std::pair<const SweepRun*, std::size_t>> left;
  for (const SweepRun& run : runs) {
    for (std::size_t i = 0; sweep.samples.judge && i < sweep.samples.guidance.size(); ++i) {
      if (run.state == RunState::kFinished && is_left(sweep, run, i)) left.emplace_back(&run, i);
    }
  }
  if (left.empty()) return SweepStatus::kFinished;
  SampleEvaluations evaluations(sweep, options);
  if (const auto trained = evaluations.train_judge(); trained != SweepStatus::kFinished) {
    return trained;
  }
  SweepStatus status = evaluations.draw_reference(*left.front().first);
  if (status != SweepStatus::kFinished) return status;
  for (const auto& [run, i] : left) {
    const SweepStatus one = evaluations.evaluate(*run, i);
    if (one != SweepStatus::kFinished) status = one;
    if (one == SweepStatus::kStopped) break;
  }
  evaluations.remove_reference();
  return status;
}

}  // namespace dtn
