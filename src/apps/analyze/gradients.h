// Gradients of the mean cross entropy, as norms over the parameters of each layer and its parts.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "apps/analyze/inputs.h"
#include "apps/analyze/subject.h"

namespace dtn {

struct GradientNorms {
  double loss = 0;
  std::vector<double> layers;  // [L], over all parameters of the layer
  std::vector<std::array<double, 3>>
      parts;  // [L]: norms, attention, MLP; NaN if the layer has none
};

// Runs one backward pass for each batch, in float32, in evaluation mode. Returns nothing without
// labels or classes.
std::optional<GradientNorms> gradient_norms(const OpenSubject&, AnalysisInputs&);

}  // namespace dtn
