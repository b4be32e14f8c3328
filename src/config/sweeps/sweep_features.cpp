#include "config/sweeps/sweep_features.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "config/codec.h"
#include "config/sweeps/sweep_file.h"
#include "core/format.h"

namespace dtn::config {
namespace {

const std::array<std::string, 2> kFeaturesKeys = {"evaluations", "epochs"};
const std::array<std::string, 2> kFeatureTasks = {"knn", "linear"};
const std::array<std::string, 11> kEvaluationKeys = {"name",        "label",  "task",    "k",
                                                     "temperature", "blocks", "avgpool", "epochs",
                                                     "lr",          "batch",  "augment"};
// The first keys of kEvaluationKeys are for both tasks, the next ones for knn, the rest for linear.
constexpr std::ptrdiff_t kCommonKeys = 3, kKnnKeys = 2;

// Throws an error for a key of the other task.
void check_task_of_keys(const Node& map, const std::string& task) {
  for (const Member& m : map.members) {
    const auto index = std::ranges::find(kEvaluationKeys, m.key) - kEvaluationKeys.begin();
    if (index < kCommonKeys) continue;
    const std::string& reader = kFeatureTasks[index < kCommonKeys + kKnnKeys ? 0 : 1];
    if (reader == task) continue;
    fail(m.where, m.key, " is a key of task: ", reader, ", but the task of this evaluation is ",
         task);
  }
}

const Node& needed(const Node& map, const char* key) {
  const Node* node = map.value_at(key);
  if (node == nullptr) fail(map.where, "this evaluation has no ", key);
  return *node;
}

FeatureEvaluation read_keys(const Node& map) {
  FeatureEvaluation how;
  how.task = kFeatureTasks[read_choice({needed(map, "task"), "task", ""}, kFeatureTasks)];
  check_task_of_keys(map, how.task);
  const auto read = [&](const char* key, const Range& range, auto& value) {
    if (const Node* node = map.value_at(key)) read_value({*node, key, ""}, range, value);
  };
  read("k", at_least(1), how.k);
  read("temperature", above(0), how.temperature);
  read("blocks", at_least(1), how.blocks);
  read("avgpool", {}, how.avgpool);
  read("epochs", at_least(1), how.epochs);
  read("lr", above(0), how.lr);
  read("batch", at_least(1), how.batch);
  read("augment", {}, how.augment);
  if (how.avgpool && how.block_count() != 1) {
    fail(map.value_at("blocks")->where, "avgpool adds the patch mean of the last block to its ",
         "class token, but blocks is ", *how.blocks, "; leave blocks out");
  }
  return how;
}

std::vector<SweepEvaluation> read_evaluations(const Node& list) {
  if (!list.is_list() || list.items.empty()) {
    fail(list.where, "evaluations must be a list of evaluations like {name: knn, task: knn}, not ",
         list.is_list() ? std::string("an empty list") : shown(list));
  }
  std::vector<SweepEvaluation> evaluations;
  for (const Node& node : list.items) {
    check_keys(node, "an evaluation", kEvaluationKeys);
    const Node& name = needed(node, "name");
    SweepEvaluation evaluation{.name = read_name(name, "name"), .how = read_keys(node)};
    if (std::ranges::find(evaluations, evaluation.name, &SweepEvaluation::name) !=
        evaluations.end()) {
      fail(name.where, "two evaluations are named '", evaluation.name, "'");
    }
    const Node* label = node.value_at("label");
    evaluation.label = label ? read_line(*label, "label") : evaluation.name;
    evaluations.push_back(std::move(evaluation));
  }
  return evaluations;
}

std::vector<Written<int>> read_epochs(const Node& list) {
  if (!list.is_list() || list.items.empty()) {
    fail(list.where, "epochs must be a list like [20, 40], not ",
         list.is_list() ? std::string("an empty list") : shown(list));
  }
  std::vector<Written<int>> epochs;
  for (const Node& item : list.items) {
    Written<int> epoch{0, item.where};
    read_value({item, "epochs", ""}, at_least(1), epoch.value);
    if (!epochs.empty() && epoch.value <= epochs.back().value) {
      fail(item.where, "epochs must increase, ", epoch.value, " comes after ", epochs.back().value);
    }
    epochs.push_back(epoch);
  }
  return epochs;
}

std::vector<Written<double>> read_figures(const Node& node, const std::string& path) {
  std::vector<Written<double>> figures;
  const auto add = [&](const Node& number) {
    read_value({number, path, "the paper's figure"}, between(0, 100),
               figures.emplace_back(Written<double>{0, number.where}).value);
  };
  if (!node.is_list()) {
    add(node);
    return figures;
  }
  for (const Node& item : node.items) add(item);
  return figures;
}

}  // namespace

FeaturesFile read_features(const Node& node) {
  FeaturesFile features;
  features.where = node.where;
  if (node.is_null()) return features;
  check_keys(node, "features", kFeaturesKeys);
  features.evaluations = read_evaluations(needed(node, "evaluations"));
  if (const Node* epochs = node.value_at("epochs")) features.epochs = read_epochs(*epochs);
  return features;
}

std::vector<PaperFeatures> read_paper_features(const Node& node) {
  std::vector<PaperFeatures> paper;
  if (node.is_null()) return paper;
  if (!node.is_map()) {
    fail(node.where, "paper_features must be a map of evaluations and their figures, not ",
         shown(node));
  }
  for (const Member& m : node.members) {
    if (m.value.is_null()) continue;
    paper.push_back({m.key, read_figures(m.value, "paper_features." + m.key), m.where});
  }
  return paper;
}

void set_paper_features(const std::vector<PaperFeatures>& paper, const SweepFeatures& features,
                        SweepVariant& variant) {
  for (const PaperFeatures& given : paper) {
    std::vector<std::string> names;
    for (const SweepEvaluation& e : features.evaluations) names.push_back(e.name);
    if (std::ranges::find(names, given.evaluation) == names.end()) {
      fail(given.where, "paper_features: there is no evaluation '", shown(given.evaluation), "'",
           did_you_mean(given.evaluation, names, "."),
           names.empty() ? std::string(" The sweep has no features:")
                         : cat(" Evaluations: ", join(names)));
    }
    const std::size_t points = std::max<std::size_t>(1, features.epochs.size());
    if (given.figures.size() != points) {
      fail(given.where, "paper_features.", given.evaluation, " has ",
           counted(given.figures.size(), "figures"), "; the evaluation needs ", points,
           features.epochs.empty() ? ", for the last checkpoint" : ", one for each of epochs");
    }
    std::vector<double>& figures = variant.paper_features[given.evaluation];
    for (const Written<double>& figure : given.figures) figures.push_back(figure.value);
  }
}

void keep_evaluated_checkpoints(const FeaturesFile& features, ExperimentConfig& config) {
  if (features.evaluations.empty()) return;
  if (config.model.max_length > 0) {
    fail(features.where, "features are evaluated on images, but this model reads sequences");
  }
  if (features.epochs.empty()) return;
  const Written<int>& last = features.epochs.back();
  if (!config.schedule.epochs) {
    fail(last.where, "epochs: the length of the run must be given as schedule.epochs, but the ",
         "config sets schedule.steps");
  }
  if (last.value > *config.schedule.epochs) {
    fail(last.where, "epochs: the run has no epoch ", last.value, "; schedule.epochs is ",
         *config.schedule.epochs);
  }
  if (config.train.early_stop.patience) {
    fail(last.where, "epochs: with train.early_stop.patience, a run may end before one of these; ",
         "leave one of the two out");
  }
  // The last step of a run always has a checkpoint.
  std::int64_t common = 0;
  for (const Written<int>& epoch : features.epochs) {
    if (epoch.value < *config.schedule.epochs) common = std::gcd(common, epoch.value);
  }
  if (common == 0) return;
  std::optional<Period>& kept = config.train.keep_every;
  if (!kept) kept = Period{common, true};
  if (kept->epochs && common % kept->count == 0) return;
  fail(features.where, "epochs: the checkpoints of these epochs are not all kept; leave ",
       "train.keep_every out of the config, or set it to ", common, "epoch");
}

}  // namespace dtn::config
