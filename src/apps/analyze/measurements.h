// Measurements of opened models besides those of Collector: gradients and similarities.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "apps/analyze/inputs.h"
#include "apps/analyze/subject.h"

namespace dtn {

// Gradients of the mean loss, cross entropy or that of an image-to-image model, as norms over the
// parameters of each layer and its parts.
struct GradientNorms {
  double loss = 0;
  std::vector<double> layers;                // [L], over all parameters of the layer
  std::vector<std::array<double, 3>> parts;  // [L]: norms, attention, MLP; NaN: the layer has none
};

// Runs one backward pass for each batch, in float32, in evaluation mode. Returns nothing for a
// classifier without labels or classes.
std::optional<GradientNorms> gradient_norms(const OpenSubject&, AnalysisInputs&);

// Linear CKA between the layers of two models that see the same images.
struct Similarity {
  std::size_t a, b;  // subjects, a < b
  std::vector<std::vector<double>>
      matrix;  // [L_a + 1][L_b + 1]; empty: their tokens do not pair up
};
// Returns the similarity of every pair of models. Samples are patch tokens. If the grid of either
// model changes between layers, samples are the mean tokens of the images.
std::vector<Similarity> similarities(const std::vector<OpenSubject>&, AnalysisInputs&);

}  // namespace dtn
