#include "data/classes/listed_names.h"

#include "dtn/core/check.h"

namespace dtn {

std::string listed_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += cat(i > 0 ? ", '" : "'", names[i], "'");
  }
  if (names.size() <= kShown) return text;
  const std::size_t others = names.size() - kShown;
  return cat(text, " and ", others, others == 1 ? " other" : " others");
}

}  // namespace dtn
