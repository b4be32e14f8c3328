// A vision transformer as an ONNX model.
#pragma once

#include <string>

#include "apps/export/onnx_graph.h"
#include "dtn/models/classifier.h"

namespace dtn::onnx {

inline constexpr int kMinOpset = 17;  // the first with LayerNormalization
inline constexpr int kMaxOpset = 23;  // up to it, the operators used here are unchanged

// Returns the graph of the model in evaluation mode, from `images` [N, channels, height, width]
// float32, already normalized, to logits [N, K], or to features if the model has no head. N is any
// number, and `output` the name of the result. Weights keep their names; the weights of linear
// layers are stored transposed, with ".T" after their name. Throws ConfigError for an unknown
// opset, and for models and normalizers without an ONNX form.
Graph graph_of(Classifier& model, int opset, const std::string& output = "logits");

}  // namespace dtn::onnx
