// The interface of every normalizer. A normalizer is added by one file in src/norms/ and one line
// in src/norms/registry.cpp; the config loader, the help, gradient checks, parity tests and benches
// find it there.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "dtn/autograd/context.h"
#include "dtn/config/norm_config.h"
#include "dtn/nn/parameters.h"

namespace dtn {

// The arrangement of the T tokens that a normalizer sees. A sequence is a grid of one row.
struct TokenGrid {
  std::int64_t height = 1, width = 1;
  std::int64_t tokens() const { return height * width; }
};

// A square where T is one, else a sequence.
TokenGrid square_or_sequence(std::int64_t tokens);

inline constexpr double kDefaultNormEps = 1e-5;

// What a normalizer is built for.
struct NormShape {
  std::int64_t channels;  // C
  std::int64_t heads;     // H
  double eps;
  TokenGrid grid{0, 0};  // as far as it is known when the model is built, else 0 x 0
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;

  // x [B, T, C] -> [B, T, C]. The gradient that already waits at x (it reached x along the
  // residual) is added in the same pass.
  virtual Variable forward(Context&, const Variable& x, const TokenGrid& grid) = 0;
  // forward() of residual + s_b branch (see ResidualStream), handing that sum out too. A normalizer
  // that reads its input only once adds while it reads.
  virtual Variable forward_sum(Context&, const Variable& residual, const Variable& branch,
                               const Tensor& scale, const TokenGrid& grid, Variable& sum);
  // The same in primitive operations, which run on every device and type: the specification, the
  // oracle of the tests.
  virtual Variable reference(Context&, const Variable& x, const TokenGrid& grid) = 0;

  // Multiply-adds per sample beyond the few per element that every normalizer has: as the paper
  // counts them, and as they are carried out.
  virtual double paper_multiply_adds(const TokenGrid&) const { return 0; }
  virtual double multiply_adds(const TokenGrid&) const { return 0; }
  // The same for the backward pass, as they are carried out.
  virtual double backward_multiply_adds(const TokenGrid&) const { return 0; }
};

struct NormRow {
  NormSchema schema;
  // Null where schema.needs says what is missing.
  std::unique_ptr<Normalizer> (*make)(const NormConfig&, const NormShape&, ParameterStore&,
                                      const std::string& prefix);
};

// All normalizers, and their schemas for the config loader.
std::span<const NormRow> norm_registry();
std::span<const NormSchema> norm_schemas();

// Builds a normalizer whose parameters are named <prefix>.weight and so on. Options that `config`
// does not name take their defaults. Throws ConfigError listing the known types.
std::unique_ptr<Normalizer> make_normalizer(const NormConfig& config, const NormShape& shape,
                                            ParameterStore& store, const std::string& prefix);

// LayerNorm over C, for the places where the architecture fixes it.
std::unique_ptr<Normalizer> make_layer_norm(const NormShape& shape, ParameterStore& store,
                                            const std::string& prefix);

}  // namespace dtn
