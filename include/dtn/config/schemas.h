// Registry entries of higher layers as plain structs, for the config loader.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"

namespace dtn {

struct ExperimentConfig;
struct OptimConfig;
struct ScheduleConfig;

// In every schema, `reads` lists the keys of the section that the entry reads, without the name of
// the section: "registers", "norm.layers". All entries read a key that no entry of the registry
// lists. If the chosen entry does not read a key, setting the key is an error, and an inherited
// value is dropped when the choice changes; see config/choices.h.

// An invalid combination of values, and the keys at fault: "model.depth".
struct ConfigProblem {
  std::vector<std::string> keys;
  std::string message;
};

// Checks a configuration beyond the ranges of its keys, including image sizes. The schema is that
// of the normalizer norm.type.
using ModelCheck = std::optional<ConfigProblem> (*)(const ModelConfig&, const NormSchema&);

// Public networks whose names contain `part`, and the reason why a family like theirs cannot build
// them.
struct UnsupportedNetworks {
  std::string part;
  std::string reason;
};

// A family of models.
struct ModelSchema {
  std::string family;
  std::string doc;
  std::vector<std::string> reads{};  // of `model`
  ModelCheck check = nullptr;        // null: nothing to check
  bool sequences = false;            // the input is sequences of tokens, not images
  // The only task that trains the family, such as one that needs an image as the output. Empty: any
  // task of features or classes.
  std::string task{};
  // Sites of norm.type in a configuration that passes the check. Null: unknown.
  std::vector<NormSite> (*norm_sites)(const ModelConfig&) = nullptr;
  std::vector<UnsupportedNetworks> unsupported{};
  std::vector<std::string> meets{};  // normalizers whose NormSchema::needs its models meet
};

// Public weights of a preset: the classes of their head and the preparation of images.
struct ReleaseSchema {
  std::string tag;  // the model's name is <preset>.<tag>
  int num_classes = 0;
  double crop_pct = 1;
  std::array<double, 3> mean{}, std{1, 1, 1};
  Interpolation interpolation = Interpolation::kBicubic;
};

// A model that model.preset names. It is the value of the section `model` that its keys override.
struct PresetSchema {
  ModelConfig model;  // model.preset is the name; model.family is an entry of the model registry
  std::vector<ReleaseSchema> releases{};  // the first is the default; empty: no public weights

  const std::string& name() const { return model.preset; }
};

// A kind of data set.
struct DatasetSchema {
  std::string name;  // data.dataset
  std::string doc;
  std::vector<std::string> reads;  // of `data`
  // True if the model's config gives the classes, as for synthetic data. False if the data set
  // gives them: it is then opened for a model of 0 classes, which accepts any number.
  bool classes_of_model = false;
  // Checks the values beyond the ranges of the keys. Null: nothing to check.
  std::function<std::optional<ConfigProblem>(const DataConfig&)> check{};
};

// Any other object that a config names.
struct NameSchema {
  std::string name;
  std::string doc;
};

// An optimizer.
struct OptimizerSchema {
  std::string name;  // optim.name
  std::string doc;
  std::vector<std::string> reads{};  // of `optim`
  // Sets its defaults in OptimConfig, before the values of the config; null: none.
  std::function<void(OptimConfig&)> defaults{};
  // Checks the values beyond the ranges of the keys. Null: nothing to check.
  std::function<std::optional<ConfigProblem>(const OptimConfig&)> check{};
};

// A learning-rate schedule.
struct ScheduleSchema {
  std::string name;  // schedule.name
  std::string doc;
  std::vector<std::string> reads{};  // of `schedule`
  // Checks the values beyond the ranges of the keys; `peak` is the largest rate. Null: nothing to
  // check.
  std::function<std::optional<ConfigProblem>(const ScheduleConfig&, double peak)> check{};
  // Returns the number of epochs that it needs between warmup and cooldown. Null: any number will
  // do.
  std::function<double(const ScheduleConfig&)> min_epochs{};
  // Sets its defaults in ScheduleConfig, before the values of the config; null: none.
  std::function<void(ScheduleConfig&)> defaults{};
};

// A result of an evaluation.
struct FigureSchema {
  std::string name;   // in metrics.jsonl and as metric: of a sweep
  std::string title;  // for people: "top-1"
  bool higher_is_better = true;
  bool percent = false;           // shown with %, and between 0 and 100
  std::optional<int> decimals{};  // in tables; unset: 2 with %, else 4

  int decimals_in_tables() const { return decimals.value_or(percent ? 2 : 4); }
};

// A training task.
struct TaskSchema {
  std::string name;
  std::string doc;
  std::vector<FigureSchema> figures;  // the first decides which checkpoint is the best
  // Sections of a config that not every task reads, and that it reads: "distill".
  std::vector<std::string> sections{};
  // Keys outside of such sections that only the tasks read that list them: "data.flip".
  std::vector<std::string> keys{};
  // Keys outside of such sections that other tasks read, and that it does not.
  std::vector<std::string> unread{};
  // The task of a config that sets this key and no task: "model.detector". Empty: none.
  std::string implied_by{};
  // Checks the values beyond the ranges of the keys. Null: nothing to check.
  std::function<std::optional<ConfigProblem>(const ExperimentConfig&)> check{};
  // True if the moving average, ema.safetensors, is the model to use, such as DINO's teacher.
  bool uses_average = false;
  // True if the result is the features of a model without a head. dtn-eval then needs --task.
  bool features_only = false;
  // True if its samples have the field that model.condition.from names, if the data has it.
  bool gives_condition = false;
  // True if the task trains only the families that name it, see ModelSchema::task.
  bool own_families = false;
};

// A possible start of augment.policy: a name, and the rest after a dash.
struct PolicySchema {
  std::string name;
  std::string doc;
  // Returns a sentence on the error in the whole text, if any. Null: nothing may follow the name.
  std::function<std::optional<std::string>(const std::string& policy)> check;
};

struct ConfigSchemas {
  std::vector<NormSchema> norms;
  std::vector<DatasetSchema> datasets;
  std::vector<PolicySchema> policies;
  std::vector<OptimizerSchema> optimizers;
  std::vector<ScheduleSchema> schedules;
  std::vector<TaskSchema> tasks;
  std::vector<ModelSchema> models{};
  std::vector<PresetSchema> presets{};
};

}  // namespace dtn
