// The samples of some classes of a data set, with new labels.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/classes/subset.h"

namespace dtn {

class OnlyClasses final : public Subset {
 public:
  static constexpr std::int64_t kNone = -1;

  // `labels`: the new label of each class of `all`, or kNone to leave out its samples. `classes`:
  // the names and the number of the new classes; its owner is not used. `chosen`: the number of
  // kept classes, for the description; unset if all are kept.
  OnlyClasses(std::shared_ptr<const Dataset> all, std::span<const std::int64_t> labels,
              ClassList classes, std::optional<std::size_t> chosen = {});
};

}  // namespace dtn
