#include "data/classes/match_classes.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/format.h"
#include "data/classes/class_list.h"
#include "data/classes/class_order.h"
#include "data/classes/only_classes.h"
#include "data/source/split_folders.h"
#include "data/table/split_table.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/json_lines.h"

namespace dtn {
namespace {

using Names = std::vector<std::string>;
using LabelOf = std::unordered_map<std::string, std::int64_t>;

// Describes a list: "3 classes ('cat', 'dog', 'fish')".
std::string shown(const ClassList& list) {
  const std::string count = counted(list.count, "classes");
  return list.names.empty() ? count : cat(count, " (", listed_names(list.names), ")");
}

// Compares names as valid UTF-8, which is how checkpoints store them.
LabelOf labels_by_name(const Names& names) {
  LabelOf label_of;
  for (std::size_t i = 0; i < names.size(); ++i) {
    label_of.emplace(valid_utf8(names[i]), static_cast<std::int64_t>(i));
  }
  return label_of;
}

bool are_numbers(const Names& names) {
  return std::ranges::all_of(names, [](const auto& name) { return number_of_class(name) >= 0; });
}

// True if the names are WordNet ids of ImageNet-1k.
bool are_imagenet_ids(const Names& names) {
  const Names& ids = imagenet_class_names();
  return !names.empty() && std::ranges::all_of(names, [&](const std::string& name) {
    return std::ranges::binary_search(ids, name);
  });
}

bool has_imagenet_outputs(std::int64_t count) {
  return count == static_cast<std::int64_t>(imagenet_class_names().size());
}

// Matches by the names of both. Returns an empty list if the model lacks a name of the data, and
// stores that name in `missing`.
std::vector<std::int64_t> by_name(const Names& data, const Names& model, std::string& missing) {
  const LabelOf label_of = labels_by_name(model);
  std::vector<std::int64_t> labels;
  for (const std::string& name : data) {
    const auto found = label_of.find(valid_utf8(name));
    if (found == label_of.end()) {
      missing = name;
      return {};
    }
    labels.push_back(found->second);
  }
  return labels;
}

// Matches by the numbers that are the class names of the data.
ClassMatch by_number(const ClassList& data, const ClassList& model, const std::string& advice) {
  ClassMatch match{.names = model.names};
  for (const std::string& name : data.names) {
    match.labels.push_back(number_of_class(name));
    if (match.labels.back() < model.count) continue;
    throw DataError(cat(data.owner, ": its classes are numbers, and '", name, "' is not among the ",
                        counted(model.count, "labels"), " of ", model.owner, "; ", advice));
  }
  match.note = cat("classes: those of ", data.owner, " are numbers and are used as labels of ",
                   model.owner, ": '", data.names.front(), "' is ", "'",
                   model.names[static_cast<std::size_t>(match.labels.front())], "'");
  return match;
}

ClassMatch by_position(const ClassList& data, const ClassList& model, const std::string& advice) {
  const bool one_is_named = !data.names.empty() || !model.names.empty();
  const bool differ = data.names.empty() ? data.count > model.count : data.count != model.count;
  if (differ) {
    throw DataError(cat(
        data.owner, ": has ", shown(data), ", ", model.owner, " has ", shown(model),
        one_is_named ? "; only one of them names its classes, so they cannot be matched; " : "; ",
        advice));
  }
  ClassMatch match{.names = data.names.empty() ? model.names : data.names};
  match.labels.resize(static_cast<std::size_t>(data.count));
  std::iota(match.labels.begin(), match.labels.end(), std::int64_t{0});
  if (one_is_named) {
    const ClassList& unnamed = data.names.empty() ? data : model;
    const ClassList& named = data.names.empty() ? model : data;
    match.note = cat("classes: ", unnamed.owner,
                     " does not name its classes; they are assumed to have the order of ",
                     named.owner, ": ", listed_names(named.names));
  }
  return match;
}

}  // namespace

bool ClassMatch::is_identity() const {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

ClassMatch match_classes(const ClassList& data, const ClassList& model, const std::string& advice) {
  if (!data.names.empty() && model.names.empty() && has_imagenet_outputs(model.count) &&
      are_imagenet_ids(data.names)) {
    const ClassList imagenet{model.owner, imagenet_class_names(), model.count};
    return match_classes(data, imagenet, advice);
  }
  if (data.names.empty() || model.names.empty()) return by_position(data, model, advice);
  std::string missing;
  ClassMatch match{.labels = by_name(data.names, model.names, missing), .names = model.names};
  if (match.labels.size() == data.names.size()) return match;
  if (are_numbers(data.names) && are_imagenet_ids(model.names)) {
    return by_number(data, model, advice);
  }
  throw DataError(cat(data.owner, ": its class '", missing, "' is not among the ", shown(model),
                      " of ", model.owner, "; ", advice));
}

std::vector<std::int64_t> head_rows(const ClassList& data, std::int64_t outputs,
                                    const ClassList& head, const std::string& advice,
                                    std::string& note) {
  const ClassMatch match = match_classes(data, head, advice);
  note = match.note;
  std::vector<std::int64_t> rows = match.labels;
  std::vector<bool> taken(static_cast<std::size_t>(head.count));
  for (const std::int64_t row : rows) taken[static_cast<std::size_t>(row)] = true;
  for (std::int64_t row = 0; row < head.count; ++row) {
    if (static_cast<std::int64_t>(rows.size()) == outputs) break;
    if (!taken[static_cast<std::size_t>(row)]) rows.push_back(row);
  }
  if (static_cast<std::int64_t>(rows.size()) != outputs) {
    throw DataError(cat(head.owner, ": has ", shown(head), ", but model.num_classes is ", outputs,
                        "; ", advice));
  }
  return rows;
}

ClassList named_classes(const std::string& owner, std::vector<std::string> names) {
  const auto count = static_cast<std::int64_t>(names.size());
  return {owner, std::move(names), count};
}

ClassList class_list_of(const Dataset& dataset) {
  return {dataset.description(), dataset.class_names(), dataset.num_classes()};
}

std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> dataset,
                                          const ClassMatch& match, const ClassList& model) {
  if (match.is_identity() && dataset->class_names() == match.names) return dataset;
  const std::string description = dataset->description();
  return std::make_shared<OnlyClasses>(
      std::move(dataset), match.labels,
      ClassList{description, match.names,
                match.names.empty() ? model.count : static_cast<std::int64_t>(match.names.size())});
}

std::shared_ptr<const Dataset> with_labels_of(const ClassList& classes,
                                              std::shared_ptr<const Dataset> dataset) {
  const ClassMatch match =
      match_classes(class_list_of(*dataset), classes,
                    "evaluate a data set of the classes that the model was trained on");
  if (!match.note.empty()) log_info(match.note);
  return relabelled(std::move(dataset), match, classes);
}

namespace {

// The position of a label set is what a model reads, so sets are not matched by name.
void check_same_sets(const Dataset& dataset, const ClassList& classes) {
  const auto as_stored = [](const std::string& name) { return valid_utf8(name); };
  if (std::ranges::equal(dataset.class_names(), classes.names, {}, as_stored, as_stored)) return;
  throw DataError(cat("data.label_sets gives the classes ", listed_names(dataset.class_names()),
                      ", and ", classes.owner, " has ", shown(classes),
                      "; give the label sets that the model was trained with, in their order"));
}

}  // namespace

std::shared_ptr<const Dataset> open_for_classes(const DataConfig& data, const ModelConfig& model,
                                                Split split, std::uint64_t seed,
                                                const DatasetRegistry& datasets,
                                                const ClassList& classes) {
  ModelConfig any = model;
  if (!datasets.at(data.dataset).schema.classes_of_model) any.num_classes = 0;
  std::shared_ptr<const Dataset> dataset = open_dataset(data, any, split, seed, datasets);
  if (!data.label_sets.empty()) check_same_sets(*dataset, classes);
  return with_labels_of(classes, std::move(dataset));
}

std::int64_t count_classes(const DataConfig& data, const ModelConfig& model, std::uint64_t seed,
                           const DatasetRegistry& datasets) {
  if (datasets.at(data.dataset).schema.classes_of_model) return 0;
  if (!data.label_sets.empty()) {
    ModelConfig any = model;
    any.num_classes = 0;
    return open_dataset(data, any, Split::kTrain, seed, datasets)->num_classes();
  }
  if (!data.classes.empty()) return static_cast<std::int64_t>(data.classes.size());
  if (data.class_names) return std::ssize(listed_class_names(data));
  if (data.dataset == "imagefolder") {
    const Names names = data.labels ? listed_classes(data, LabelsPerImage::kOne)
                                    : class_folders_of(train_folder_of(data).string());
    return static_cast<std::int64_t>(names.size());
  }
  ModelConfig any = model;
  any.num_classes = 0;
  return open_dataset(data, any, Split::kTrain, seed, datasets)->num_classes();
}

std::shared_ptr<const Dataset> open_to_learn(const DataConfig& data, const ModelConfig& model,
                                             std::uint64_t seed, const DatasetRegistry& datasets) {
  if (!has_imagenet_outputs(model.num_classes) ||
      datasets.at(data.dataset).schema.classes_of_model) {
    return open_dataset(data, model, Split::kTrain, seed, datasets);
  }
  ModelConfig any = model;
  any.num_classes = 0;
  std::shared_ptr<const Dataset> dataset = open_dataset(data, any, Split::kTrain, seed, datasets);
  if (!are_imagenet_ids(dataset->class_names())) {
    check_class_count(dataset->num_classes(), model, dataset->description());
    return dataset;
  }
  const ClassList model_classes{"the model", {}, model.num_classes};
  const ClassMatch match = match_classes(class_list_of(*dataset), model_classes, "");
  if (!match.is_identity()) {
    log_info(cat("classes: ", dataset->class_names().size(),
                 " of ImageNet's 1000, with ImageNet's labels"));
  }
  return relabelled(std::move(dataset), match, model_classes);
}

}  // namespace dtn
