#include "data/classes/class_counts.h"

#include <algorithm>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {

std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  std::vector<std::int64_t> labels;
  if (!dataset.has_labels()) return labels;
  labels.reserve(static_cast<std::size_t>(dataset.size()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) labels.push_back(dataset.label(i));
  return labels;
}

std::vector<std::int64_t> class_counts(std::span<const std::int64_t> labels, std::int64_t classes) {
  for (const std::int64_t label : labels) classes = std::max(classes, label + 1);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

ClassSpread class_spread(std::span<const std::int64_t> counts) {
  ClassSpread spread;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    const auto label = static_cast<std::int64_t>(c);
    if (spread.classes == 0 || counts[c] < spread.fewest) {
      spread.smallest = label, spread.fewest = counts[c];
    }
    if (counts[c] > spread.most) spread.largest = label, spread.most = counts[c];
    ++spread.classes;
  }
  return spread;
}

std::string balanced_text(const ClassSpread& spread, const std::string& noun) {
  const std::string sizes = spread.fewest == spread.most ? std::to_string(spread.most)
                                                         : cat(spread.fewest, " to ", spread.most);
  return cat("balanced over ", counted(spread.classes, "classes"), " of ", sizes, " ", noun);
}

std::string uneven_text(const ClassSpread& spread, const std::vector<std::string>& names,
                        const std::string& noun, bool weights) {
  if (!spread.is_uneven()) return "";
  const auto name = [&](std::int64_t label) {
    const auto i = static_cast<std::size_t>(label);
    return i < names.size() ? cat("'", names[i], "'") : cat("class ", label);
  };
  return cat("very uneven: ", name(spread.smallest), " has ", counted(spread.fewest, noun), ", ",
             name(spread.largest), " has ", spread.most,
             "; data.sampling: balanced draws all classes equally often",
             weights ? ", train.class_weights: balanced weighs rare ones more in the loss" : "");
}

}  // namespace dtn
