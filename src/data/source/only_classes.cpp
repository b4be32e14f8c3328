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
  OnlyClasses(std::shared_ptr<const Dataset> whole, const std::vector<std::string>& classes,
              std::span<const std::int64_t> wanted)
      : whole_(std::move(whole)) {
    const std::vector<std::int64_t> labels = new_labels(*whole_, classes, wanted);
    for (std::int64_t i = 0; i < whole_->size(); ++i) {
      const std::int64_t label = labels[static_cast<std::size_t>(whole_->label(i))];
      if (label == kNone) continue;
      places_.push_back(i);
      labels_.push_back(label);
    }
    class_names_ = classes;
    num_classes_ = static_cast<std::int64_t>(classes.size());
    has_pixels_ = whole_->has_pixels();
    description_ =
        cat(size(), " images of ", wanted.size(), " classes from ", whole_->description());
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    return whole_->load(place(index), workspace);
  }
  std::string sample_name(std::int64_t index) const override {
    return whole_->sample_name(place(index));
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
  return std::make_unique<OnlyClasses>(std::move(dataset), classes, wanted);
}

}  // namespace dtn
