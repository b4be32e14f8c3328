// Gradients of the mean cross entropy, as norms over the parameters of each layer and its parts.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "analyze/inputs.h"
#include "analyze/subject.h"

namespace dtn {

struct GradientNorms {
  double loss = 0;
  std::vector<double> layers;  // [L], of all parameters of the layer
  std::vector<std::array<double, 3>>
      parts;  // [L]: of its norms, its attention, its MLP; NaN of none
};

// One backward pass for each batch, in float32, in an evaluation. Nothing without labels or classes.
std::optional<GradientNorms> gradient_norms(const OpenSubject&, AnalysisInputs&);

}  // namespace dtn
