#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/analyze/measurements.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/pixel_loss.h"

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

// Returns the mean loss of a batch, and adds the sum over its samples.
Variable class_loss_of(Context& ctx, const Variable& logits, const Fields& batch,
                       GradientNorms& norms) {
  const auto loss = ops::cross_entropy(ctx, logits, {.labels = batch.at("label"), .soft = {}});
  for (const float l : loss.per_sample.values<float>()) norms.loss += static_cast<double>(l);
  return loss.mean;
}

Variable pixel_loss_of(Context& ctx, const OpenSubject& subject, const Variable& output,
                       const Fields& batch, GradientNorms& norms) {
  const TranslateConfig& weights = subject.given.config.translate;
  const ops::PixelLoss loss = ops::pixel_loss(ctx, output, batch.at("target"), weights);
  norms.loss +=
      static_cast<double>(*loss.loss.value().data<float>()) * static_cast<double>(output.dim(0));
  return loss.loss;
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
  const bool classifies = inputs.labelled() && subject.config().num_classes > 0;
  if (!classifies && !subject.translate) return std::nullopt;
  ParameterStore& store = subject.parameters();
  store.zero_gradients();
  GradientNorms norms;
  inputs.each_batch([&](const Fields& batch) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable output = subject.forward(batch, nullptr, &tape);
    const Variable loss = subject.translate ? pixel_loss_of(ctx, subject, output, batch, norms)
                                            : class_loss_of(ctx, output, batch, norms);
    const double share = static_cast<double>(output.dim(0)) / static_cast<double>(inputs.count());
    tape.backward(loss, Tensor::full({1}, DType::kFloat32, share));
  });
  norms.loss /= static_cast<double>(inputs.count());
  for (const LayerInfo& layer : subject.layers) add_layer(layer, store, norms);
  return norms;
}

}  // namespace dtn
