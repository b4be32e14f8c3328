#include "dtn/core/metrics.h"

#include "dtn/core/check.h"

namespace dtn {

double Metrics::at(std::string_view name) const {
  std::string known;
  for (const auto& [other, value] : values) {
    if (other == name) return value;
    known += (known.empty() ? "" : ", ") + other;
  }
  throw Error(cat("there is no metric '", name, "' (metrics: ", known, ")"));
}

}  // namespace dtn
