// Small detectors and their inputs, from files that make_detector_goldens.py writes. The script
// lists the tensors of each file.
#pragma once

#include <algorithm>

#include "dtn/io/safetensors.h"
#include "dtn/models/detector.h"
#include "dtn/models/presets.h"
#include "dtn/models/weights.h"
#include "dtn/ops/detection.h"
#include "golden/models/network_cases.h"

namespace dtn::golden {

inline TensorFile read_detection(const std::string& name) {
  return read_safetensors(DTN_TESTS_FOLDER "/golden/detection/" + name + ".safetensors");
}

// A file with the expected values of a detector.
struct DetectorCase {
  std::string name;
  DetectorKind kind;
  const char* norm;
  TensorFile expected = read_detection(name);

  const Tensor& at(const std::string& tensor) const {
    const Tensor* found = expected.find(tensor);
    if (!found) throw Error(name + " has no tensor " + tensor);
    return *found;
  }
};

inline std::vector<DetectorCase> detector_cases() {
  return {{"retinanet_ln", DetectorKind::kRetinaNet, "ln"},
          {"retinanet_dtn", DetectorKind::kRetinaNet, "dtn"},
          {"mask_rcnn_dtn", DetectorKind::kMaskRcnn, "dtn"}};
}

// The section `model` of the script.
inline ModelConfig model_of(const DetectorCase& c) {
  ModelConfig m = preset_registry().at("pvt_tiny").model;
  m.image_size = {96, 64};
  m.depth = {1, 1, 2, 1};
  m.embed_dim = {8, 16, 20, 32};
  m.num_heads = {2, 4, 5, 8};
  m.mlp_ratio = {2, 2, 2, 2};
  m.num_classes = 3;
  m.norm.type = c.norm;
  m.detector.kind = c.kind;
  m.detector.fpn_channels = 16;
  m.detector.head_convs = 2;
  m.detector.head_fc = 24;
  return m;
}

inline bool is_of_token_norm(const std::string& name) {
  return name.ends_with("mean_norm_weight") || name.ends_with("var_norm_weight") ||
         name.find("pos_proj") != std::string::npos;
}

// The weights of a detector, with the names of its parameters.
inline NamedTensors weights_of(const DetectorCase& c) {
  const std::string own = c.kind == DetectorKind::kRetinaNet ? "retinanet." : "mask_rcnn.";
  NamedTensors weights;
  for (const auto& [name, tensor] : read_detection("detector_weights").tensors) {
    if (std::string(c.norm) == "ln" && is_of_token_norm(name)) continue;
    if (name.starts_with("backbone.")) weights.emplace_back(name, tensor);
    if (name.starts_with(own)) weights.emplace_back(name.substr(own.size()), tensor);
  }
  return weights;
}

// Images of the model, from the bytes of a file.
inline Tensor images_from(const Tensor& bytes, DType dtype) {
  Doubles values;
  for (std::uint8_t byte : bytes.values<std::uint8_t>()) values.push_back((byte - 128) / 64.0);
  return test::from_doubles(values, bytes.shape(), dtype);
}

// Rows of the regions given.boxes, on the levels that their sizes select: 0, 1, 2 and 3.
inline ops::Rois given_rois(const DetectorCase& c) {
  return {c.at("given.image"), Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3}, {4}),
          c.at("given.boxes")};
}

// Levels of the pyramid that regions read.
inline std::vector<ops::RoiLevel> roi_levels_of(const Detector& model, const Features& levels) {
  std::vector<ops::RoiLevel> read;
  for (std::size_t i = 0; i < 4; ++i) {
    read.push_back({levels[i].x, levels[i].grid.height, levels[i].grid.width,
                    1.0 / static_cast<double>(model.strides()[i])});
  }
  return read;
}

// Compares the gradients of all parameters with a tensor of the script's summaries: for each
// parameter, by ascending name, the largest value, the projection on values(3000), three elements.
inline void expect_gradients(Detector& model, const Tensor& summaries, double tolerance) {
  std::vector<const Parameter*> parameters;
  for (const Parameter& p : model.parameters().parameters()) parameters.push_back(&p);
  std::ranges::sort(parameters, {}, &Parameter::name);
  ASSERT_EQ(summaries.shape(), (Shape{static_cast<std::int64_t>(parameters.size()), 5}));
  const double* want = summaries.data<double>();
  for (const Parameter* p : parameters) {
    SCOPED_TRACE(p->name);
    const Doubles got = test::doubles(ParameterStore::view(model.parameters().gradients(), *p));
    const auto count = static_cast<std::int64_t>(got.size());
    const double bound = tolerance * want[0] + 1e-12;
    const Doubles factors = values(3000, count, 1, 0);
    double projection = 0;
    for (std::size_t i = 0; i < got.size(); ++i) projection += got[i] * factors[i];
    // A parameter without effect has gradients of rounding alone.
    if (!p->name.ends_with("pos_proj.bias")) {
      EXPECT_NEAR(test::max_abs(got), want[0], bound);
      EXPECT_NEAR(projection, want[1], bound * std::sqrt(static_cast<double>(count)));
      for (std::int64_t k = 0; k < 3; ++k) {
        EXPECT_NEAR(got[static_cast<std::size_t>(k * count / 3)], want[2 + k], bound) << k;
      }
    }
    want += 5;
  }
}

}  // namespace dtn::golden
