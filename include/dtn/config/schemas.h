// What the config loader must know of things that live above it: rows of their registries, as plain
// structs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/model_config.h"

namespace dtn {

struct OptimConfig;

// What does not go together in a model, and the keys to blame: "model.depth".
struct ModelProblem {
  std::vector<std::string> keys;
  std::string message;
};

// What is wrong with a configuration beyond the ranges of its keys, sizes of images among it; the
// normalizer is that of norm.type.
using ModelCheck = std::optional<ModelProblem> (*)(const ModelConfig&, const NormSchema&);

// A family of models.
struct ModelSchema {
  std::string family;
  std::string doc;
  // Keys of the section `model` that mean nothing for it: what sets one to anything but the preset's
  // value is an error. "model.registers".
  std::vector<std::string> unused{};
  ModelCheck check = nullptr;  // null: what vision transformers check
  bool sequences = false;      // it sees sequences of tokens, not images
  // Where norm.type stands, in a configuration that passes the check. Null: as in vision
  // transformers.
  std::vector<NormSite> (*norm_sites)(const ModelConfig&) = nullptr;
};

// A kind of data set.
struct DatasetSchema {
  std::string name;  // data.dataset
  std::string doc;
  // The keys of the section `data` that mean something for it, of those that do not for all: a key
  // that no data set lists is for every one.
  std::vector<std::string> keys;
  // True if the model's config says which classes there are, as for data that is made up. False if
  // the data does: it is then opened for a model of 0 classes, which takes any number.
  bool classes_of_model = false;
};

// Anything else that a config calls by name.
struct NameSchema {
  std::string name;
  std::string doc;
};

// An optimizer.
struct OptimizerSchema {
  std::string name;  // optim.name
  std::string doc;
  // Keys of the section `optim` that mean nothing for it and are an error beside it.
  std::vector<std::string> unused{};
  // Sets what it wants in place of the defaults of OptimConfig; null: nothing. What a config says
  // comes on top.
  std::function<void(OptimConfig&)> defaults{};
};

// A figure that an evaluation gives.
struct FigureSchema {
  std::string name;   // in metrics.jsonl and as metric: of a sweep
  std::string title;  // for people: "top-1"
  bool higher_is_better = true;
  bool percent = false;  // shown with %, and between 0 and 100
};

// What may be learnt.
struct TaskSchema {
  std::string name;
  std::string doc;
  std::vector<FigureSchema> figures;  // the first tells which checkpoint is the best
};

// What augment.policy may begin with: a name, and what follows behind a dash.
struct PolicySchema {
  std::string name;
  std::string doc;
  // What is wrong with the whole text, if anything, in a sentence that names it. Null: nothing may
  // follow.
  std::function<std::optional<std::string>(const std::string& policy)> check;
};

struct ConfigSchemas {
  std::vector<NormSchema> norms;
  std::vector<DatasetSchema> datasets;
  std::vector<PolicySchema> policies;
  std::vector<OptimizerSchema> optimizers;
  std::vector<TaskSchema> tasks;
  std::vector<ModelSchema> models{};
};

}  // namespace dtn
