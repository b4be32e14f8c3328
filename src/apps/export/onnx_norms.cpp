#include "apps/export/onnx_norms.h"

#include <algorithm>
#include <cmath>

#include "config/document.h"
#include "dtn/core/check.h"
#include "nn/norms/groups.h"

namespace dtn::onnx {

Weights::Weights(const NamedTensors& tensors) : tensors_(tensors.begin(), tensors.end()) {}

const Tensor* Weights::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const Tensor& Weights::at(const std::string& name) const {
  const Tensor* tensor = find(name);
  DTN_CHECK(tensor, "the model has no tensor ", name);
  return *tensor;
}

std::vector<double> doubles_of(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

Tensor constant(const std::vector<double>& values, const Shape& shape) {
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

namespace {

Value of_layer(const Norm& n, const Value& x) { return layer_norm(n, x); }

Value root_mean_square(const Norm& n, const Value& x) {
  const Value y = n.over_deviation(x, mean(n.g, square(n.g, x), {-1}));
  return n.scaled_by_weight(y);
}

// Divides by the larger of |x| and eps.
Value scale(const Norm& n, const Value& x) {
  const Value squares =
      scaled(n.g, mean(n.g, square(n.g, x), {-1}), static_cast<double>(n.place.channels));
  const Value length = n.g.node("Max", {square_root(n.g, squares), n.g.number(n.place.eps)});
  return n.scaled_by_weight(div(n.g, x, length));
}

// Running statistics are a gain and a shift of each channel.
Value batch(const Norm& n, const Value& x) {
  std::vector<double> gain = n.gains(), shift = n.shifts();
  const std::vector<double> mu = n.values("running_mean"), var = n.values("running_var");
  for (std::size_t c = 0; c < gain.size(); ++c) {
    gain[c] /= std::sqrt(var[c] + n.place.eps);
    shift[c] -= mu[c] * gain[c];
  }
  return add(n.g, mul(n.g, x, n.per_channel("gain", gain)), n.per_channel("shift", shift));
}

Value instance(const Norm& n, const Value& x) {
  const Value centred = sub(n.g, x, mean(n.g, x, {1}));
  Value variance = mean(n.g, square(n.g, centred), {1});
  if (*n.config.find<std::string>("variant") == "official") {  // over T - 1
    const auto tokens = static_cast<double>(n.place.tokens);
    variance = scaled(n.g, variance, tokens / (tokens - 1));
  }
  return n.weighted(n.over_deviation(centred, variance));
}

Value group(const Norm& n, const Value& x) {
  const std::int64_t groups = groups_of(n.config, n.place.heads), c = n.place.channels;
  const Value split = reshape(n.g, x, {0, n.place.tokens, groups, c / groups});
  const Value centred = sub(n.g, split, mean(n.g, split, {1, 3}));
  const Value y = n.over_deviation(centred, mean(n.g, square(n.g, centred), {1, 3}));
  return n.weighted(reshape(n.g, y, {0, n.place.tokens, c}));
}

// Divides each group of channels by its root mean square, then each channel by a running one.
Value power(const Norm& n, const Value& x) {
  const std::int64_t groups = groups_of(n.config, n.place.heads), c = n.place.channels;
  const Value split = reshape(n.g, x, {0, n.place.tokens, groups, c / groups});
  const Value y = n.over_deviation(split, mean(n.g, square(n.g, split), {3}));
  std::vector<double> gain = n.gains();
  const std::vector<double> phi = n.values("running_phi");
  for (std::size_t i = 0; i < gain.size(); ++i) gain[i] /= std::sqrt(phi[i] + n.place.eps);
  const Value z = reshape(n.g, y, {0, n.place.tokens, c});
  return add(n.g, mul(n.g, z, n.per_channel("gain", gain)), n.per_channel("shift", n.shifts()));
}

// x [N, .., in] -> [N, .., out] by the layer `of` of the normalizer.
Value linear(const Norm& n, const std::string& of, const Value& x) {
  const Value weight = transpose(n.g, n.weight(of + ".weight"), {1, 0});
  return add(n.g, matmul(n.g, x, weight), n.weight(of + ".bias"));
}

// LayerNorm with a gain and a shift from the mean of all tokens' summaries.
Value dynamic_layer(const Norm& n, const Value& x) {
  const std::int64_t c = n.place.channels;
  const Value summary = mean(n.g, n.g.node("Tanh", {linear(n, "summary", x)}), {1});
  const Value modulation = linear(n, "modulation", summary);  // [N, 1, 2 C]
  const Value gain = slice(n.g, modulation, 2, c, 2 * c);
  return add(n.g, mul(n.g, layer_norm(n, x), gain), slice(n.g, modulation, 2, 0, c));
}

std::vector<double> shares(std::vector<double> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (double& v : logits) sum += v = std::exp(v - most);
  for (double& v : logits) v /= sum;
  return logits;
}

// Mixes the statistics of the image, the token and the batch by learnt shares.
Value switchable(const Norm& n, const Value& x) {
  Graph& g = n.g;
  const Value image_mean = mean(g, x, {1}), token_mean = mean(g, x, {2});
  const Value image_var = mean(g, square(g, sub(g, x, image_mean)), {1});
  const Value token_var = mean(g, square(g, sub(g, x, token_mean)), {2});
  const auto mixed = [&](const std::string& of, const Value& image, const Value& token) {
    const std::vector<double> share = shares(n.values(of + "_weight"));
    std::vector<double> running = n.values("running_" + of);
    for (double& v : running) v *= share[2];
    const Value own = add(g, scaled(g, image, share[0]), scaled(g, token, share[1]));
    return add(g, own, n.per_channel("of_batch_" + of, running));
  };
  const Value mu = mixed("mean", image_mean, token_mean);
  const Value var = mixed("var", image_var, token_var);
  return n.weighted(n.over_deviation(sub(g, x, mu), var));
}

struct Row {
  const char* type;
  Value (*write)(const Norm&, const Value&);
};

constexpr Row kRows[] = {{"ln", of_layer},
                         {"dtn", dynamic_token_norm},
                         {"rms", root_mean_square},
                         {"scale", scale},
                         {"bn", batch},
                         {"in", instance},
                         {"gn", group},
                         {"sn", switchable},
                         {"power", power},
                         {"pono", of_layer},
                         {"dln", dynamic_layer}};

}  // namespace

Value layer_norm(Graph& g, const Weights& weights, const std::string& path, double eps,
                 const Value& x) {
  return g.node("LayerNormalization",
                {x, g.tensor(path + ".weight", weights.at(path + ".weight")),
                 g.tensor(path + ".bias", weights.at(path + ".bias"))},
                {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(eps)}});
}

Value layer_norm(const Norm& n, const Value& x) {
  if (n.affine()) return layer_norm(n.g, n.weights, n.place.path, n.place.eps, x);
  return n.g.node("LayerNormalization",
                  {x, n.per_channel("gain", n.gains()), n.per_channel("shift", n.shifts())},
                  {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(n.place.eps)}});
}

Value normalized(const Norm& n, const Value& x) {
  for (const Row& row : kRows) {
    if (n.config.type == row.type) return row.write(n, x);
  }
  throw ConfigError(cat("model.norm.type: ", n.config.type,
                        " cannot be exported to ONNX; the exportable normalizers are ",
                        config::join(kRows, ", ", &Row::type)));
}

}  // namespace dtn::onnx
