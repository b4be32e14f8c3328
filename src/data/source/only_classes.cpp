#include <unordered_map>
#include <utility>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

constexpr std::int64_t kNone = -1;

// For each label of `dataset`, its position in `classes` if that is wanted, or kNone.
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

class OnlyClasses final : public Dataset {
 public:
  // `labels`: the new label of each class of `whole`, or kNone; `wanted` of them are some.
  // `classes` names the new ones, or is empty.
  OnlyClasses(std::shared_ptr<const Dataset> whole, std::span<const std::int64_t> labels,
              std::size_t wanted, std::int64_t num_classes, std::vector<std::string> classes)
      : whole_(std::move(whole)) {
    for (std::int64_t i = 0; i < whole_->size(); ++i) {
      const std::int64_t label = labels[static_cast<std::size_t>(whole_->label(i))];
      if (label == kNone) continue;
      places_.push_back(i);
      labels_.push_back(label);
    }
    class_names_ = std::move(classes);
    num_classes_ = num_classes;
    has_pixels_ = whole_->has_pixels();
    vocabulary_ = whole_->vocabulary();
    description_ = cat(size(), vocabulary_ > 0 ? " sequences of " : " images of ", wanted,
                       " classes from ", whole_->description());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    return whole_->load(place(index), workspace);
  }
  std::int64_t length(std::int64_t index) const override { return whole_->length(place(index)); }
  std::string sample_name(std::int64_t index) const override {
    return whole_->sample_name(place(index));
  }
  std::string item_name(std::int64_t index) const override {
    return whole_->item_name(place(index));
  }

 private:
  std::int64_t place(std::int64_t index) const { return places_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> places_;
};

}  // namespace

std::unique_ptr<Dataset> only_classes(std::shared_ptr<const Dataset> dataset,
                                      const std::vector<std::string>& classes,
                                      std::span<const std::int64_t> wanted) {
  const std::vector<std::int64_t> labels = new_labels(*dataset, classes, wanted);
  return std::make_unique<OnlyClasses>(std::move(dataset), labels, wanted.size(),
                                       static_cast<std::int64_t>(classes.size()), classes);
}

std::unique_ptr<Dataset> choose_classes(std::shared_ptr<const Dataset> dataset,
                                        std::span<const std::int64_t> labels) {
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
  auto chosen =
      std::make_unique<OnlyClasses>(std::move(dataset), new_label, labels.size(),
                                    static_cast<std::int64_t>(labels.size()), std::move(names));
  if (chosen->size() == 0) {
    throw DataError(cat("data.classes: there is no sample of these classes in ", whole));
  }
  return chosen;
}

}  // namespace dtn
