// Cases of RoIAlign and of the losses of detectors for the tests of operations, in any type and on
// any device.
#pragma once

#include "dtn/ops/detection.h"
#include "op_runs.h"

namespace dtn::test {

// --- RoIAlign -----------------------------------------------------------------------------------

// Two images, three levels of cells of 4, 8 and 16 pixels.
struct RoiOpCase {
  std::int64_t channels, size;

  static constexpr std::int64_t kGrids[3][2] = {{9, 13}, {5, 7}, {3, 4}};
  std::string name() const { return cat("roi_align C ", channels, " S ", size); }
  std::vector<Input> inputs() const {
    std::vector<Input> inputs;
    for (const auto& [h, w] : kGrids) {
      inputs.push_back(
          Input::activation({2, h * w, channels}, static_cast<std::uint32_t>(inputs.size() + 1)));
    }
    return inputs;
  }
  static std::vector<ops::RoiLevel> levels(const std::vector<Variable>& features) {
    std::vector<ops::RoiLevel> levels;
    double scale = 0.25;
    for (std::size_t l = 0; l < features.size(); ++l, scale /= 2) {
      levels.push_back({features[l], kGrids[l][0], kGrids[l][1], scale});
    }
    return levels;
  }
  static ops::Rois rois(Device device) {
    const std::vector<float> boxes = {3.3f,  5.1f, 40.2f, 33.7f, -9, -7, 30, 20, 20, 1,
                                      21,    35,   0,     0,     52, 36, 30, 30, 80, 80,
                                      12.5f, 8.5f, 13,    9.5f,  10, 10, 10, 20};
    return {Tensor::from(std::vector<std::int64_t>{0, 1, 1, 0, 1, 0, 0}, {7}).to(device),
            Tensor::from(std::vector<std::int64_t>{0, 1, 0, 2, 1, 0, 2}, {7}).to(device),
            Tensor::from(boxes, {7, 4}).to(device)};
  }
};

inline const std::vector<RoiOpCase> kRoiCases = {{3, 7}, {17, 2}, {32, 3}};

using RoiOp = std::function<Variable(Context&, const std::vector<ops::RoiLevel>&, const ops::Rois&,
                                     std::int64_t)>;

inline Op roi_op(const RoiOp& op, const RoiOpCase& c, Device device = kCpu) {
  return [=](Context& ctx, const std::vector<Variable>& v) {
    return op(ctx, RoiOpCase::levels(v), RoiOpCase::rois(device), c.size);
  };
}

// --- losses -------------------------------------------------------------------------------------

// Outputs of one level, whose targets are a slice of those of all levels.
struct AnchorCase {
  std::int64_t batch, anchors, classes;

  std::string name() const { return cat("anchors ", batch, " x ", anchors, " x ", classes); }
  Input logits() const { return Input::activation({batch, anchors, classes}, 1, 4); }
  Input deltas() const { return Input::activation({batch, anchors, 4}, 2); }
  ops::AnchorTargets targets(DType dtype, Device device) const {
    constexpr std::int64_t kFirst = 3, kAfter = 4;
    const std::int64_t all = kFirst + anchors + kAfter;
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < batch * all; ++i) {
      labels.push_back(i % 3 == 0 ? i % classes : i % 5 == 1 ? ops::kIgnored : ops::kBackground);
    }
    const Tensor deltas = as(random_tensor({batch, all, 4}, 3), accumulator_of(dtype));
    return {Tensor::from(labels, {batch, all}).to(device), deltas.to(device), kFirst};
  }
  Tensor scale(DType dtype, Device device) const {
    return Tensor::full({1}, accumulator_of(dtype), 0.125).to(device);
  }
};

inline const std::vector<AnchorCase> kAnchorCases = {{1, 1, 1}, {2, 7, 3}, {2, 30, 80}, {1, 53, 5}};

using AnchorOp =
    std::function<Variable(Context&, const Variable&, const ops::AnchorTargets&, const Tensor&)>;

inline Op anchor_op(const AnchorOp& op, const AnchorCase& c, Device device = kCpu) {
  return [=](Context& ctx, const std::vector<Variable>& v) {
    const DType dtype = v[0].dtype();
    return op(ctx, v[0], c.targets(dtype, device), c.scale(dtype, device));
  };
}

// focal_loss() or its reference with options.
template <class F>
AnchorOp focal_op(F&& op, const ops::FocalOptions& options) {
  return [=](Context& ctx, const Variable& z, const ops::AnchorTargets& targets,
             const Tensor& scale) { return op(ctx, z, targets, scale, options); };
}

}  // namespace dtn::test
