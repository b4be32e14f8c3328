// Linear CKA between the layers of models that are shown the same images.
#pragma once

#include <vector>

#include "analyze/inputs.h"
#include "analyze/subject.h"

namespace dtn {

struct Similarity {
  std::size_t a, b;  // subjects, a < b
  std::vector<std::vector<double>>
      matrix;  // [L_a + 1][L_b + 1]; empty: their tokens do not pair up
};

// Of every pair. Samples are patch tokens, or where grids change on the way through one of both
// models the mean token of each image.
std::vector<Similarity> similarities(const std::vector<OpenSubject>&, AnalysisInputs&);

}  // namespace dtn
