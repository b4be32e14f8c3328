// The interface of every normalizer. A normalizer is added by one file in src/norms/ and one line
// in src/norms/registry.cpp, or by a program of one's own with NormRegistry::add(); the config
// loader, the help, gradient checks, parity tests and benches find it there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dtn/autograd/context.h"
#include "dtn/config/norm_config.h"
#include "dtn/core/registry.h"
#include "dtn/nn/parameters.h"
#include "dtn/nn/scope.h"
#include "dtn/nn/tokens.h"

namespace dtn {

inline constexpr double kDefaultNormEps = 1e-5;

// What a normalizer is built for.
struct NormShape {
  std::int64_t channels;  // C
  std::int64_t heads;     // H
  double eps;
  TokenGrid grid{0, 0};  // as far as it is known when the model is built, else 0 x 0
};

// y = gain x + shift of every channel, both [C].
struct ChannelAffine {
  Variable gain, shift;
};

// What a normalizer does to one input, for those who look into a model: float64, on the host.
struct NormView {
  Tensor x;     // [B, T, C]: what it normalizes, the input unless it is rescaled first
  Tensor mean;  // [B, T, C]: what is subtracted from x; undefined: nothing, or nobody says what
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;

  // x [B, T, C] -> [B, T, C], T = grid.tokens(). The gradient that already waits at x (it reached x along the
  // residual) is added in the same pass.
  virtual Variable forward(Context&, const Variable& x, const TokenGrid& grid) = 0;
  // forward() of residual + s_b branch (see ResidualStream), handing that sum out too. A normalizer
  // that reads its input only once adds while it reads.
  virtual Variable forward_sum(Context&, const Variable& residual, const Variable& branch,
                               const Tensor& scale, const TokenGrid& grid, Variable& sum);
  // The same in primitive operations, which run on every device and type: the specification, the
  // oracle of the tests.
  virtual Variable reference(Context&, const Variable& x, const TokenGrid& grid) = 0;

  // What forward() is in an evaluation, where that is the same for all inputs: the layer ahead can
  // take it into its weights. Gradients flow to the parameters. Unset: it depends on the input.
  virtual std::optional<ChannelAffine> settled(Context&) const { return std::nullopt; }

  // What an evaluation makes of x [B, T, C] float64 on the host. Slow: to be looked at.
  virtual NormView view(const Tensor& x, const TokenGrid&) const { return {x, {}}; }
  // How much the tokens of the grid count in the statistics across tokens of one of them, the
  // `token`-th of the grid: [H, h w] float64 on the host, every row with the sum 1. Undefined where
  // there are no such statistics, or not on that grid.
  virtual Tensor position_rows(const TokenGrid&, std::int64_t /*token*/) const { return {}; }

  // Whether what becomes of a token depends on that token alone, so that those that nobody needs
  // may stay away.
  virtual bool is_per_token() const { return false; }
  // Whether tokens that do not count (TokenGrid::lengths) stay out of the statistics of the others.
  virtual bool takes_lengths() const { return is_per_token(); }
  // Whether the host must know those lengths for it. It then waits for a device that has them, which
  // the host of a captured step cannot.
  virtual bool needs_host_lengths() const { return false; }
  // is_per_token() of the tokens of the prefix alone (TokenGrid), where those of the grid are mixed.
  virtual bool prefix_is_per_token() const { return is_per_token(); }
};

struct NormRow {
  NormSchema schema;
  // Null where schema.needs says what is missing.
  std::function<std::unique_ptr<Normalizer>(const NormConfig&, const NormShape&, const Scope&)>
      make;

  const std::string& name() const { return schema.type; }
};

// The normalizers there are to choose from.
class NormRegistry : public Registry<NormRow> {
 public:
  explicit NormRegistry(std::vector<NormRow> rows) : Registry("normalizer", std::move(rows)) {}
};

// Ours.
const NormRegistry& norm_registry();
std::span<const NormSchema> norm_schemas();

// Builds a normalizer of the scope's registry, whose parameters lie in the scope. Options that
// `config` does not name take their defaults. Throws ConfigError listing the known types.
std::unique_ptr<Normalizer> make_normalizer(const NormConfig& config, const NormShape& shape,
                                            const Scope& scope);

// LayerNorm over C, for the places where the architecture fixes it.
std::unique_ptr<Normalizer> make_layer_norm(const NormShape& shape, const Scope& scope);

}  // namespace dtn
