#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/analyze/measurements.h"
#include "dtn/ops/loss.h"

namespace dtn {
namespace {

// Returns true if a parameter's name starts with one of the paths.
bool lies_in(const std::string& name, const std::vector<std::string>& paths) {
  return std::ranges::any_of(paths, [&](const std::string& path) {
    return name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.';
  });
}

// Sum of squares; its root is NaN if nothing was added.
struct Squares {
  double sum = 0;
  bool any = false;
  void add(double squares) {
    sum += squares;
    any = true;
  }
  double root() const { return any ? std::sqrt(sum) : std::numeric_limits<double>::quiet_NaN(); }
};

double squares_of(const Tensor& gradient) {
  double sum = 0;
  for (const float g : gradient.values<float>()) {
    sum += static_cast<double>(g) * static_cast<double>(g);
  }
  return sum;
}

void add_layer(const LayerInfo& layer, ParameterStore& store, GradientNorms& norms) {
  std::vector<std::string> norm_paths;
  for (const LayerInfo::Norm& norm : layer.norms) norm_paths.push_back(norm.path);
  Squares all;
  std::array<Squares, 3> parts;
  for (const Parameter& p : store.parameters()) {
    if (p.frozen || !lies_in(p.name, layer.paths)) continue;
    const double squares = squares_of(ParameterStore::view(store.gradients(), p));
    all.add(squares);
    if (lies_in(p.name, norm_paths)) {
      parts[0].add(squares);
    } else if (lies_in(p.name, layer.attention)) {
      parts[1].add(squares);
    } else if (lies_in(p.name, layer.mlp)) {
      parts[2].add(squares);
    }
  }
  norms.layers.push_back(all.root());
  norms.parts.push_back({parts[0].root(), parts[1].root(), parts[2].root()});
}

}  // namespace

std::optional<GradientNorms> gradient_norms(const OpenSubject& subject, AnalysisInputs& inputs) {
  if (!inputs.labelled() || subject.config().num_classes == 0) return std::nullopt;
  ParameterStore& store = subject.model().parameters();
  store.zero_gradients();
  GradientNorms norms;
  inputs.each_batch([&](const Fields& batch) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable logits = subject.forward(batch, nullptr, &tape);
    const auto loss = ops::cross_entropy(ctx, logits, {.labels = batch.at("label"), .soft = {}});
    for (const float l : loss.per_sample.values<float>()) norms.loss += static_cast<double>(l);
    const double share = static_cast<double>(logits.dim(0)) / static_cast<double>(inputs.count());
    tape.backward(loss.mean, Tensor::full({1}, DType::kFloat32, share));
  });
  norms.loss /= static_cast<double>(inputs.count());
  for (const LayerInfo& layer : subject.layers) add_layer(layer, store, norms);
  return norms;
}

}  // namespace dtn
