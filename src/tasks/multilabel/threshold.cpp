#include "tasks/multilabel/threshold.h"

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn {

std::string threshold_text(double threshold) { return format("%.17g", threshold); }

std::optional<double> stored_threshold(const StringMap& metadata) {
  const auto found = metadata.find(kThresholdKey);
  if (found == metadata.end()) return std::nullopt;
  const std::optional<double> value = parse_number<double>(found->second);
  if (value && *value > 0 && *value <= 1) return value;
  throw DataError(
      cat("the file's threshold is '", found->second, "'; expected a number from 0 to 1"));
}

}  // namespace dtn
