#include "data/classes/label_sets.h"

#include <algorithm>
#include <utility>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// The classes of a set, and the class of each class of the data set.
struct Mapping {
  std::vector<std::string> names;
  std::vector<std::int64_t> label_of;
};

// `names`: class names of the data set, or empty.
Mapping unchanged(std::span<const std::string> names, std::int64_t classes) {
  Mapping all;
  for (std::int64_t k = 0; k < classes; ++k) {
    all.names.push_back(names.empty() ? std::to_string(k) : names[static_cast<std::size_t>(k)]);
    all.label_of.push_back(k);
  }
  return all;
}

// Classes are numbered in the order in which their names first appear.
Mapping grouped(std::span<const std::string> names) {
  Mapping groups;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(groups.names, name);
    groups.label_of.push_back(found - groups.names.begin());
    if (found == groups.names.end()) groups.names.push_back(name);
  }
  return groups;
}

void check_classes(const Dataset& dataset, std::int64_t named) {
  // Without class names, a data set knows only the largest label of its samples.
  const std::int64_t there = dataset.num_classes();
  if (dataset.class_names().empty() ? there <= named : there == named) return;
  throw DataError(cat("data.label_sets names ", counted(named, "classes"), ", but ",
                      dataset.description(), " has ", there,
                      "; give one name for each class of the data set"));
}

class LabelSets final : public Dataset {
 public:
  LabelSets(std::shared_ptr<const Dataset> images, std::span<const LabelSet> sets)
      : images_(std::move(images)) {
    const std::int64_t classes = named_class_count(sets).value_or(images_->num_classes());
    std::vector<Mapping> mappings;
    for (const LabelRange& range : label_ranges(sets, classes)) {
      const LabelSet& set = sets[mappings.size()];
      set_names_.push_back(set.name);
      const Mapping& mapping = mappings.emplace_back(
          set.names.empty() ? unchanged(images_->class_names(), classes) : grouped(set.names));
      for (const std::string& name : mapping.names) {
        class_names_.push_back(cat(set.name, "/", name));
      }
      num_classes_ = range.first + range.count;
      firsts_.push_back(range.first);
    }
    add_samples(mappings);
    has_pixels_ = images_->has_pixels();
    vocabulary_ = images_->vocabulary();
    description_ = cat(images_->description(), ", in ", counted(sets_count(), "label sets"));
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    return images_->load(index / sets_count(), workspace);
  }
  std::int64_t length(std::int64_t index) const override {
    return images_->length(index / sets_count());
  }
  std::string sample_name(std::int64_t index) const override {
    return images_->sample_name(index / sets_count());
  }
  std::string item_name(std::int64_t index) const override {
    std::string item = images_->item_name(index / sets_count());
    if (sets_count() == 1) return item;
    return cat(item, ":", set_names_[static_cast<std::size_t>(index % sets_count())]);
  }
  std::string file_name(std::int64_t index) const override {
    return images_->file_name(index / sets_count());
  }

 private:
  std::int64_t sets_count() const { return static_cast<std::int64_t>(set_names_.size()); }

  void add_samples(const std::vector<Mapping>& mappings) {
    std::vector<std::int64_t> styles;
    for (std::int64_t i = 0; i < images_->size(); ++i) {
      for (std::size_t s = 0; s < mappings.size(); ++s) {
        const auto label = static_cast<std::size_t>(images_->label(i));
        labels_.push_back(firsts_[s] + mappings[s].label_of[label]);
        styles.push_back(static_cast<std::int64_t>(s));
      }
    }
    ready_fields_["style"] = Tensor::from(styles, {static_cast<std::int64_t>(styles.size())});
  }

  std::shared_ptr<const Dataset> images_;
  std::vector<std::string> set_names_;
  std::vector<std::int64_t> firsts_;  // the first label of each set
};

}  // namespace

std::optional<std::int64_t> named_class_count(std::span<const LabelSet> sets) {
  const LabelSet* first = nullptr;
  for (const LabelSet& set : sets) {
    if (set.names.empty()) continue;
    if (first && set.names.size() != first->names.size()) {
      throw ConfigError(cat("data.label_sets: '", first->name, "' names ",
                            counted(static_cast<std::int64_t>(first->names.size()), "classes"),
                            ", '", set.name, "' names ", set.names.size(),
                            "; each set names all classes of the data set in their order"));
    }
    first = &set;
  }
  if (!first) return std::nullopt;
  return static_cast<std::int64_t>(first->names.size());
}

std::vector<LabelRange> label_ranges(std::span<const LabelSet> sets, std::int64_t classes) {
  std::vector<LabelRange> ranges;
  std::int64_t first = 0;
  for (const LabelSet& set : sets) {
    const std::int64_t count =
        set.names.empty() ? classes : static_cast<std::int64_t>(grouped(set.names).names.size());
    ranges.push_back({set.name, first, count});
    first += count;
  }
  return ranges;
}

std::int64_t classes_before(std::span<const LabelSet> sets, std::int64_t outputs) {
  if (const auto named = named_class_count(sets)) return *named;
  return outputs / std::max<std::int64_t>(1, static_cast<std::int64_t>(sets.size()));
}

std::unique_ptr<Dataset> with_label_sets(std::shared_ptr<const Dataset> dataset,
                                         std::span<const LabelSet> sets) {
  if (!dataset->has_labels()) {
    throw DataError(cat("data.label_sets needs labels, and ", dataset->description(),
                        " has none; remove the key"));
  }
  if (!dataset->ready_fields().empty()) {
    throw ConfigError(cat("data.label_sets cannot label samples whose data set gives the field `",
                          dataset->ready_fields().begin()->first,
                          "`; remove it: ", dataset->description()));
  }
  if (const auto named = named_class_count(sets)) check_classes(*dataset, *named);
  return std::make_unique<LabelSets>(std::move(dataset), sets);
}

}  // namespace dtn
