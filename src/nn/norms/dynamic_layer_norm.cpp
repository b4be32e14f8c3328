// Dynamic LayerNorm (Kim, Song and Bengio, 2017); see dtn/nn/conditional_norm.h.
#include "dtn/ops/activation.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "nn/norms/conditional_parts.h"
#include "nn/norms/entries.h"
#include "nn/norms/valid_tokens.h"

namespace dtn {
namespace {

// Sets shifts to 0 and gains to 1.
void init_modulation_bias(Tensor& value, std::uint64_t, const std::string&) {
  const std::int64_t channels = value.numel() / 2;
  value.zero();
  value.slice(channels, 2 * channels).copy_from(Tensor::full({channels}, value.dtype(), 1));
}

}  // namespace

DynamicLayerNorm::DynamicLayerNorm(const Scope& scope, const Options& options)
    : options_(options),
      summary_(scope / "summary", options.channels, options.summary),
      modulation_(scope / "modulation", options.summary, 2 * options.channels,
                  {.bias_init = init_modulation_bias}) {}

Variable DynamicLayerNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                   const Condition& condition) {
  check_tokens("dln", x, grid, options_.channels);
  check_no_condition("dln", condition);
  Variable summary = ops::mean_token(ctx, ops::tanh(ctx, summary_.forward(ctx, x)));
  Variable gain = modulation_.forward(ctx, ops::cast(ctx, summary, accumulator_of(x.dtype())));
  return ops::modulated_layer_norm(ctx, x, gain, options_.eps);
}

Variable DynamicLayerNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                     const Condition& condition) {
  check_tokens("dln", x, grid, options_.channels);
  check_no_condition("dln", condition);
  Variable summary =
      ops::reference::mean_token(ctx, ops::reference::tanh(ctx, summary_.reference(ctx, x)));
  return ops::reference::modulated_layer_norm(ctx, x, modulation_.reference(ctx, summary),
                                              options_.eps);
}

namespace {

constexpr std::int64_t kUsualSummary = 64;

// Joins parts [n_i, C] along the rows, two neighbours at a time.
Variable joined_rows(Context& ctx, std::vector<Variable> parts) {
  while (parts.size() > 1) {
    std::vector<Variable> pairs;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      pairs.push_back(primitive::concat(ctx, parts[i], parts[i + 1], 0));
    }
    if (parts.size() % 2 == 1) pairs.push_back(parts.back());
    parts = std::move(pairs);
  }
  return parts.front();
}

// A dynamic LayerNorm over all tokens of a sample, also those before the grid.
class DynamicNormalizer final : public Normalizer {
 public:
  DynamicNormalizer(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : layer_(scope, {.channels = shape.channels,
                       .summary = *config.find<std::int64_t>("summary"),
                       .eps = shape.eps}) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return of_each_sample(ctx, x, grid, [&](const Variable& tokens, const TokenGrid& whole) {
      return layer_.forward(ctx, tokens, whole);
    });
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return of_each_sample(ctx, x, grid, [&](const Variable& tokens, const TokenGrid& whole) {
      return layer_.reference(ctx, tokens, whole);
    });
  }
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

 private:
  // Calls `normalize` with all samples or, if they have pads, with the valid tokens of each.
  template <class Normalize>
  static Variable of_each_sample(Context& ctx, const Variable& x, const TokenGrid& grid,
                                 Normalize&& normalize) {
    if (!grid.padded()) return normalize(x, grid);
    const auto normalize_each = [&](const Variable& packed,
                                    const std::vector<std::int64_t>& lengths) {
      std::vector<Variable> parts;
      std::int64_t at = 0;
      for (const std::int64_t length : lengths) {
        const Variable rows = primitive::narrow(ctx, packed, 0, at, at + length);
        const Variable sample = primitive::reshape(ctx, rows, {1, length, x.dim(2)});
        const Variable y = normalize(sample, TokenGrid{1, length});
        parts.push_back(primitive::reshape(ctx, y, {length, x.dim(2)}));
        at += length;
      }
      return joined_rows(ctx, std::move(parts));
    };
    return of_valid_tokens(ctx, x, grid, normalize_each);
  }

  DynamicLayerNorm layer_;
};

std::optional<NormProblem> check_dynamic(const NormConfig& config, const NormSite&) {
  if (!config.affine) return std::nullopt;
  return NormProblem{"affine", "dln takes its gain and shift from its input; remove the key"};
}

}  // namespace

NormEntry dynamic_layer_norm_entry() {
  return {
      {.type = "dln",
       .doc = "Dynamic LayerNorm: gain and shift from a summary of all tokens of the sample",
       .options =
           {{"summary", OptionKind::kInt, kUsualSummary, {}, 1, 65536, "length of the summary"}},
       .check = check_dynamic},
      make_norm<DynamicNormalizer>};
}

}  // namespace dtn
