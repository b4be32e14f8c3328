#include "dtn/data/dataset.h"

#include <limits>

#include "core/format.h"
#include "data/classes/class_list.h"
#include "data/classes/hold_out.h"
#include "data/classes/label_sets.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/dataset_registry.h"
#include "dtn/data/datasets.h"

namespace dtn {

const char* name_of(Split split) { return split == Split::kTrain ? "train" : "val"; }

void check_class_count(std::int64_t classes, const ModelConfig& model, const std::string& where) {
  if (model.num_classes == 0 || classes == model.num_classes) return;
  const std::string what = cat(where, ": has ", counted(classes, "classes"),
                               ", but model.num_classes is ", model.num_classes);
  if (classes > model.num_classes) throw DataError(cat(what, "; set it to ", classes));
  log_warn(cat(what, "; the labels are 0 to ", classes - 1));
}

void check_labels(std::span<const std::int64_t> labels, std::int64_t num_classes,
                  const std::string& file) {
  const std::int64_t end = num_classes > 0 ? num_classes : std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < end) continue;
    throw DataError(cat(file, ": label ", labels[i], " at index ", i, " is outside [0, ", end,
                        "); set model.num_classes to the number of classes of the data set"));
  }
}

namespace {

// The places of the label sets in the head follow from their numbers of classes.
void check_sets_fill_head(std::int64_t classes, const ModelConfig& model) {
  if (model.num_classes == 0 || classes == model.num_classes) return;
  throw DataError(cat("data.label_sets has ", counted(classes, "classes"),
                      ", but model.num_classes is ", model.num_classes, "; set it to ", classes,
                      ". If a split lacks the last classes, name all of them: `set = a b c`"));
}

// Opens a split with `open`: its part of the images by data.split, with the classes of
// data.class_names, if these are set.
std::unique_ptr<Dataset> open_part(const DatasetEntry::Open& open, const DataConfig& data,
                                   const ModelConfig& model, Split split, std::uint64_t seed) {
  ModelConfig read = model;
  if (data.class_names) read.num_classes = 0;  // accepts any number
  std::unique_ptr<Dataset> dataset = open(data, read, split, seed);
  if (data.split) dataset = hold_out(std::move(dataset), split, *data.split, seed);
  if (!data.class_names) return dataset;
  dataset = with_listed_classes(std::move(dataset), data);
  check_class_count(dataset->num_classes(), model, *data.class_names);
  return dataset;
}

// Opens a split with `open`, restricted to data.classes and labelled by data.label_sets, if these
// are set.
std::unique_ptr<Dataset> open_with(const DatasetEntry& row, const DatasetEntry::Open& open,
                                   const DataConfig& data, const ModelConfig& model, Split split,
                                   std::uint64_t seed) {
  if (data.classes.empty() && data.label_sets.empty()) {
    return open_part(open, data, model, split, seed);
  }
  ModelConfig any = model;
  any.num_classes = 0;  // accepts any number of classes
  if (row.schema.classes_of_model && !data.label_sets.empty()) {
    any.num_classes = static_cast<int>(classes_before(data.label_sets, model.num_classes));
    any.condition = {};  // the label sets give `style`
  }
  std::unique_ptr<Dataset> dataset = open_part(open, data, any, split, seed);
  if (!data.classes.empty()) dataset = choose_classes(std::move(dataset), data.classes);
  if (!data.label_sets.empty()) dataset = with_label_sets(std::move(dataset), data.label_sets);
  if (data.label_sets.empty()) {
    check_class_count(dataset->num_classes(), model, "data.classes");
  } else {
    check_sets_fill_head(dataset->num_classes(), model);
  }
  return dataset;
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const ModelConfig& model, Split split,
                                      std::uint64_t seed, const DatasetRegistry& datasets) {
  const DatasetEntry& row = datasets.at(data.dataset);
  std::unique_ptr<Dataset> dataset = open_with(row, row.open, data, model, split, seed);
  if (dataset->has_labels()) return dataset;
  throw DataError(cat(dataset->description(), ": data.dataset ", data.dataset,
                      " has no class for each image, which this task needs; choose another data "
                      "set, or a task that needs none, such as detect (model.detector) or dino"));
}

std::unique_ptr<Dataset> open_unlabelled(const DataConfig& data, const ModelConfig& model,
                                         Split split, std::uint64_t seed,
                                         const DatasetRegistry& datasets) {
  const DatasetEntry& row = datasets.at(data.dataset);
  return open_with(row, row.open_unlabelled ? row.open_unlabelled : row.open, data, model, split,
                   seed);
}

std::unique_ptr<Dataset> open_multilabel(const DataConfig& data, const ModelConfig& model,
                                         Split split, std::uint64_t seed,
                                         const DatasetRegistry& datasets) {
  const DatasetEntry& row = datasets.at(data.dataset);
  if (row.open_multilabel) {
    std::unique_ptr<Dataset> dataset = open_part(row.open_multilabel, data, model, split, seed);
    const std::int64_t classes = dataset->num_classes();
    if (model.num_classes == 0 || model.num_classes == classes) return dataset;
    throw DataError(cat(dataset->description(), ": has ", counted(classes, "classes"),
                        ", but model.num_classes is ", model.num_classes, "; set it to ", classes));
  }
  std::string able, last;
  for (const DatasetEntry& each : datasets) {
    if (!each.open_multilabel) continue;
    if (!last.empty()) able += (able.empty() ? "" : ", ") + last;
    last = each.name();
  }
  throw ConfigError(cat("data.dataset ", data.dataset,
                        " has one class for each image, and this task needs images with any "
                        "number of classes; set data.dataset: ",
                        able, " or ", last));
}

std::unique_ptr<Dataset> open_for_views(const DataConfig& data, const ModelConfig& model,
                                        Split split, std::uint64_t seed,
                                        const DatasetRegistry& datasets) {
  const DatasetEntry& row = datasets.at(data.dataset);
  ModelConfig any = model;
  if (!row.schema.classes_of_model) any.num_classes = 0;
  if (!row.open_for_views) return open_unlabelled(data, any, split, seed, datasets);
  return open_with(row, row.open_for_views, data, any, split, seed);
}

}  // namespace dtn
