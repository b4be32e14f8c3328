#include "data/classes/only_classes.h"

#include <unordered_map>
#include <utility>

#include "data/classes/field_rows.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

constexpr std::int64_t kNone = OnlyClasses::kNone;

// Returns, for each label of `dataset`, its position in `classes` if it is wanted, else kNone.
std::vector<std::int64_t> new_labels(const Dataset& dataset,
                                     const std::vector<std::string>& classes,
                                     std::span<const std::int64_t> wanted) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(dataset.num_classes()), kNone);
  if (dataset.class_names().empty()) {
    for (std::int64_t label : wanted) {
      if (label < dataset.num_classes()) labels[static_cast<std::size_t>(label)] = label;
    }
    return labels;
  }
  std::unordered_map<std::string, std::int64_t> label_of;
  for (std::int64_t label : wanted)
    label_of.emplace(classes[static_cast<std::size_t>(label)], label);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    auto found = label_of.find(dataset.class_names()[i]);
    if (found != label_of.end()) labels[i] = found->second;
  }
  return labels;
}

}  // namespace

OnlyClasses::OnlyClasses(std::shared_ptr<const Dataset> all, std::span<const std::int64_t> labels,
                         ClassList classes, std::optional<std::size_t> chosen)
    : Subset(std::move(all)) {
  for (std::int64_t i = 0; i < whole().size(); ++i) {
    const std::int64_t label = labels[static_cast<std::size_t>(whole().label(i))];
    if (label != kNone) add(i, label);
  }
  ready_fields_ = rows_at(whole().ready_fields(), places());
  class_names_ = std::move(classes.names);
  num_classes_ = classes.count;
  description_ = whole().description();
  if (!chosen) return;
  description_ = cat(size(), vocabulary_ > 0 ? " sequences of " : " images of ", *chosen,
                     " classes from ", description_);
}

std::unique_ptr<Dataset> only_classes(std::shared_ptr<const Dataset> dataset,
                                      const std::vector<std::string>& classes,
                                      std::span<const std::int64_t> wanted) {
  const std::vector<std::int64_t> labels = new_labels(*dataset, classes, wanted);
  return std::make_unique<OnlyClasses>(
      std::move(dataset), labels, ClassList{"", classes, static_cast<std::int64_t>(classes.size())},
      wanted.size());
}

std::unique_ptr<Dataset> choose_classes(std::shared_ptr<const Dataset> dataset,
                                        std::span<const std::int64_t> labels) {
  for (const char* views : {"global", "views"}) {
    if (!dataset->ready_fields().has(views)) continue;
    throw ConfigError(cat("data.classes cannot choose among given views; remove data.classes: ",
                          dataset->description()));
  }
  const std::int64_t there = dataset->num_classes();
  std::vector<std::int64_t> new_label(static_cast<std::size_t>(there), kNone);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= there) {
      throw DataError(cat("data.classes: there is no class ", labels[i], " in ",
                          dataset->description(), ", whose classes are 0 to ", there - 1));
    }
    const auto old = static_cast<std::size_t>(labels[i]);
    new_label[old] = static_cast<std::int64_t>(i);
    if (!dataset->class_names().empty()) names.push_back(dataset->class_names()[old]);
  }
  const std::string whole = dataset->description();
  auto chosen = std::make_unique<OnlyClasses>(
      std::move(dataset), new_label,
      ClassList{"", std::move(names), static_cast<std::int64_t>(labels.size())}, labels.size());
  if (chosen->size() == 0) {
    throw DataError(cat("data.classes: no sample has one of these classes in ", whole));
  }
  return chosen;
}

}  // namespace dtn
