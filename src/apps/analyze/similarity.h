// Linear CKA between the layers of models that see the same images.
#pragma once

#include <vector>

#include "apps/analyze/inputs.h"
#include "apps/analyze/subject.h"

namespace dtn {

struct Similarity {
  std::size_t a, b;  // subjects, a < b
  std::vector<std::vector<double>>
      matrix;  // [L_a + 1][L_b + 1]; empty: their tokens do not pair up
};

// Returns the similarity of every pair of models. Samples are patch tokens. If the grid of either
// model changes between layers, samples are the mean tokens of the images.
std::vector<Similarity> similarities(const std::vector<OpenSubject>&, AnalysisInputs&);

}  // namespace dtn
