// A vision transformer as an ONNX model.
#pragma once

#include "dtn/models/classifier.h"
#include "export/onnx_graph.h"

namespace dtn::onnx {

inline constexpr int kMinOpset = 17;  // the first with LayerNormalization
inline constexpr int kMaxOpset = 23;  // operators used here have not changed up to there

// The graph of the model in evaluation: `images` [N, channels, height, width] float32,
// already normalized, to `logits` [N, K] (features where the model has no head), N being any
// number. Weights keep their names; those of linear layers lie transposed, under their name and
// ".T". Throws ConfigError for an opset that is not known, and for models and normalizers that have
// no such form.
Graph graph_of(Classifier& model, int opset);

}  // namespace dtn::onnx
