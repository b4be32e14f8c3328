// The interface of every normalizer. A new normalizer needs one file in src/nn/norms/ and one line
// in src/nn/norms/registry.cpp; a user's program calls NormRegistry::add() instead. The config
// loader, the help, gradient checks, parity tests and benches use the registry.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dtn/autograd/context.h"
#include "dtn/config/norm_config.h"
#include "dtn/core/registry.h"
#include "dtn/nn/parameters.h"
#include "dtn/nn/scope.h"
#include "dtn/nn/tokens.h"

namespace dtn {

inline constexpr double kDefaultNormEps = 1e-5;

// Sizes for which a normalizer is built.
struct NormShape {
  std::int64_t channels;  // C
  std::int64_t heads;     // H
  double eps;
  TokenGrid grid{0, 0};  // if known when the model is built, else 0 x 0
  bool affine = true;    // with the parameters `weight` and `bias`, a gain and shift per channel
  std::int64_t condition = 0;  // K: length of the vectors of Context::condition; 0: there are none
  std::int64_t styles = 0;     // S: number of styles, whose indices or weights a condition has
};

// y = gain x + shift for every channel, both [C].
struct ChannelAffine {
  Variable gain, shift;
};

// Input and mean of a normalizer, for inspection: float64, on the host.
struct NormView {
  Tensor x;     // [B, T, C]: the normalized values; the input, unless it is rescaled first
  Tensor mean;  // [B, T, C]: subtracted from x; undefined: nothing is subtracted, or not known
};

// A normalizer in its place in a model, with its parameters.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  // x [B, T, C] -> [B, T, C], T = grid.tokens(). The backward pass adds a gradient that is already
  // accumulated at x (from the residual connection) in the same pass.
  virtual Variable forward(Context&, const Variable& x, const TokenGrid& grid) = 0;
  // relu(forward()). A normalizer that can applies it in the same pass.
  virtual Variable forward_relu(Context&, const Variable& x, const TokenGrid& grid);
  // forward() of residual + s_b branch (see ResidualStream). Also returns that sum. A normalizer
  // that reads its input only once computes the sum while it reads.
  virtual Variable forward_sum(Context&, const Variable& residual, const Variable& branch,
                               const Tensor& scale, const TokenGrid& grid, Variable& sum);
  // forward(), then a gain and a shift for each sample (ops::modulate_samples). modulation
  // [B, 2 C] in the accumulator type of x: the shifts, then the scales. A normalizer that can
  // applies them in the same pass.
  virtual Variable forward_modulated(Context&, const Variable& x, const Variable& modulation,
                                     const TokenGrid& grid);
  // forward_modulated() of residual + gate_b branch (ops::gated_add). Also returns that sum.
  // residual and branch [B, T, C]; gate [B, C] and modulation [B, 2 C] in the accumulator type. A
  // normalizer that can computes everything in one pass.
  virtual Variable forward_gated_modulated(Context&, const Variable& residual, const Variable& gate,
                                           const Variable& branch, const Variable& modulation,
                                           const TokenGrid& grid, Variable& sum);
  // forward() made of primitive operations, which run on every device and type. It is the
  // specification, and the tests compare with it.
  virtual Variable reference(Context&, const Variable& x, const TokenGrid& grid) = 0;

  // forward() of an evaluation as a gain and a shift, if they are the same for all inputs. A layer
  // can fold them into its weights. Gradients flow to the parameters. Unset: depends on the input.
  virtual std::optional<ChannelAffine> eval_affine(Context&) const { return std::nullopt; }

  // Input and mean in an evaluation of x [B, T, C], float64 on the host. Slow; for inspection.
  virtual NormView view(const Tensor& x, const TokenGrid&) const { return {x, {}}; }
  // Weights of the grid's tokens in the cross-token statistics of the grid token with index
  // `token`: [H, h w] float64 on the host, every row with the sum 1. Undefined if there are no
  // cross-token statistics, or none on this grid.
  virtual Tensor position_rows(const TokenGrid&, std::int64_t /*token*/) const { return {}; }

  // The reason why the normalizer cannot work on a grid, as the end of a sentence; empty: it can.
  virtual std::string grid_problem(const TokenGrid&) const { return {}; }
  // True if the result of a token depends only on that token, so that unneeded tokens can be left
  // out.
  virtual bool is_per_token() const { return false; }
  // True if pads (TokenGrid::lengths) do not enter the statistics of the other tokens.
  virtual bool takes_lengths() const { return is_per_token(); }
  // True if the host must read the lengths. The host then waits for the device that holds them,
  // which is impossible in a captured step.
  virtual bool needs_host_lengths() const { return false; }
  // is_per_token() for the prefix tokens only (TokenGrid), for a normalizer that mixes grid tokens.
  virtual bool prefix_is_per_token() const { return is_per_token(); }
};

// A normalizer in the registry.
struct NormEntry {
  NormSchema schema;
  // Null if something is missing; schema.needs then names it.
  std::function<std::unique_ptr<Normalizer>(const NormConfig&, const NormShape&, const Scope&)>
      make;

  const std::string& name() const { return schema.type; }
};

// The available normalizers.
class NormRegistry : public Registry<NormEntry> {
 public:
  explicit NormRegistry(std::vector<NormEntry> rows) : Registry("normalizer", std::move(rows)) {}
};

// The normalizers of the library.
const NormRegistry& norm_registry();

// Builds a normalizer of the scope's registry, with its parameters in the scope. Options missing in
// `config` take their defaults. Throws ConfigError, listing the known types, for an unknown type.
std::unique_ptr<Normalizer> make_normalizer(const NormConfig& config, const NormShape& shape,
                                            const Scope& scope);

// Makes a LayerNorm over C, where the architecture prescribes it.
std::unique_ptr<Normalizer> make_layer_norm(const NormShape& shape, const Scope& scope);

}  // namespace dtn
