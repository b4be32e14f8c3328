// Numbers of one model as the JSON object that docs/analyze.md describes.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/analyze/collector.h"
#include "apps/analyze/gradients.h"
#include "apps/analyze/subject.h"

namespace dtn {

struct SubjectNumbers {
  const OpenSubject& subject;
  const Collector& collector;
  std::optional<GradientNorms> gradients;
  std::optional<std::int64_t> token;  // see AnalysisOptions
};

nlohmann::ordered_json to_json(const SubjectNumbers&);

// Replaces numbers that are not finite by nulls; returns their count.
std::int64_t drop_non_finite(nlohmann::ordered_json& json);

}  // namespace dtn
