// Normalizers whose gain and shift come from a condition: a vector for each sample, a map over the
// tokens, or a class. A config can choose AdaptiveLayerNorm (model.norm.type: adaln) in vision
// transformers, and all of them in image-to-image models; they then read Context::condition.
//
// Values computed from a condition for a whole sample have the accumulator type (float32; float64
// for float64), whatever the type of the tokens. Linear weights decay; gains and biases do not.
//
//   AdaptiveLayerNorm norm({store, "blocks.0.norm1"}, {.channels = 384, .condition = 384});
//   ...                                  // store.allocate(), store.initialize()
//   Variable y = norm.forward(ctx, x, grid, Condition::of_vector(c));
#pragma once

#include <optional>
#include <string>

#include "dtn/autograd/context.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/parameters.h"
#include "dtn/nn/running_statistics.h"

namespace dtn {

// Condition of a normalizer: at most one of the three. Gradients flow to `vector` and `tokens`.
struct Condition {
  Variable vector;  // [B, K]: a vector for each sample
  Variable tokens;  // [B, T, K]: a vector for each token; an AdaIN style may have another T
  Tensor index;     // [B] int64: a class for each sample

  static Condition of_vector(Variable v) { return {std::move(v), {}, {}}; }
  static Condition of_tokens(Variable v) { return {{}, std::move(v), {}}; }
  static Condition of_index(Tensor i) { return {{}, {}, std::move(i)}; }
};

// Interface of the conditional normalizers.
class ConditionalNormalizer {
 public:
  virtual ~ConditionalNormalizer() = default;

  // x [B, T, C] -> [B, T, C], T the tokens of `grid`. Throws Error if x or the condition does not
  // fit the layer.
  virtual Variable forward(Context&, const Variable& x, const TokenGrid& grid,
                           const Condition&) = 0;
  // The same made of primitive operations, which run on every device and type.
  virtual Variable reference(Context&, const Variable& x, const TokenGrid& grid,
                             const Condition&) = 0;
};

// LayerNorm with gain and shift from a vector (Peebles and Xie, "Scalable diffusion models with
// transformers", 2023: adaLN and, with `gate`, adaLN-Zero):
//     (shift, scale) = W silu(c) + b
//     y = (1 + scale) (x - mean) / sqrt(var + eps) + shift
// W and b are initially zero, so the layer starts as LayerNorm without parameters. Parameters:
// modulation.{weight [2 C, K], bias [2 C]} with the rows of shift first, as in the authors' code,
// and gate.{weight [C, K], bias [C]}.
class AdaptiveLayerNorm : public ConditionalNormalizer {
 public:
  struct Options {
    std::int64_t channels;   // C
    std::int64_t condition;  // K
    bool silu = true;        // false: the caller has applied an activation to c, or needs none
    bool gate = false;
    double eps = 1e-6;
  };
  AdaptiveLayerNorm(const Scope&, const Options&);

  // Requires a vector [B, K].
  Variable forward(Context&, const Variable& x, const TokenGrid&, const Condition&) override;
  Variable reference(Context&, const Variable& x, const TokenGrid&, const Condition&) override;
  // The gate of the branch that follows, [B, C], for ops::gated_add: x + gate f(y). The gate starts
  // at 0, so the branch does too. Throws Error without the option `gate`.
  Variable gate(Context&, const Condition&) const;
  // gate() made of primitive operations.
  Variable reference_gate(Context&, const Condition&) const;

 private:
  Variable condition_of(Context&, const Condition&, std::int64_t batch, DType,
                        bool reference) const;
  const Variable& vector_for_gate(const Condition&) const;

  Options options_;
  Linear modulation_;
  std::optional<Linear> gate_;
};

// LayerNorm with gain and shift from a summary of its input (Kim, Song and Bengio, "Dynamic layer
// normalization for adaptive neural acoustic modeling in speech recognition", 2017):
//     a = mean over tokens of tanh(W_a x + b_a)
//     gain = W_g a + b_g
//     shift = W_b a + b_b
// Parameters: summary.{weight [A, C], bias [A]} and modulation.{weight [2 C, A], bias [2 C]} with
// the rows of the shift first. The bias of the gain starts at 1.
class DynamicLayerNorm : public ConditionalNormalizer {
 public:
  struct Options {
    std::int64_t channels;      // C
    std::int64_t summary = 64;  // A
    double eps = 1e-5;
  };
  DynamicLayerNorm(const Scope&, const Options&);

  // Requires no condition.
  Variable forward(Context&, const Variable& x, const TokenGrid&, const Condition& = {}) override;
  Variable reference(Context&, const Variable& x, const TokenGrid&, const Condition& = {}) override;

 private:
  Options options_;
  Linear summary_, modulation_;
};

// InstanceNorm with a gain and a shift for each style s (Dumoulin, Shlens and Kudlur, "A learned
// representation for artistic style", 2017). Normalizes each channel over the tokens of its sample:
//     y = weight_s (x - mean) / sqrt(var + eps) + bias_s
// Parameters: weight [S, C], initially ones, and bias [S, C], initially zeros.
class ConditionalInstanceNorm : public ConditionalNormalizer {
 public:
  struct Options {
    std::int64_t channels;  // C
    std::int64_t styles;    // S
    double eps = 1e-5;
  };
  ConditionalInstanceNorm(const Scope&, const Options&);

  // Requires an index [B] of styles, or a vector [B, S] of mixing weights.
  Variable forward(Context&, const Variable& x, const TokenGrid&, const Condition&) override;
  Variable reference(Context&, const Variable& x, const TokenGrid&, const Condition&) override;

 private:
  Options options_;
  Parameter *weight_, *bias_;
};

// Adaptive InstanceNorm (Huang and Belongie, "Arbitrary style transfer in real-time with adaptive
// instance normalization", 2017). Gives each channel of x the moments of a style s:
//     y = std(s) (x - mean(x)) / std(x) + mean(s),   std = sqrt(var + eps)
// over the tokens of x and of the style. Variances are biased, as in the paper; the authors' code
// divides by T - 1. No parameters.
class AdaptiveInstanceNorm : public ConditionalNormalizer {
 public:
  struct Options {
    std::int64_t channels;  // C
    double eps = 1e-5;
  };
  explicit AdaptiveInstanceNorm(const Options& options) : options_(options) {}

  // Requires the style's features as tokens [B, any number, C].
  Variable forward(Context&, const Variable& x, const TokenGrid&, const Condition&) override;
  Variable reference(Context&, const Variable& x, const TokenGrid&, const Condition&) override;

 private:
  Options options_;
};

// Conditional BatchNorm (de Vries et al., "Modulating early visual processing by language", 2017).
// Normalizes each channel over the tokens of all samples. A network with one hidden layer changes
// the gains and shifts by a vector c:
//     y = (weight + dweight(c)) (x - mean) / sqrt(var + eps) + bias + dbias(c)
//     (dbias, dweight) = W2 relu(W1 c + b1) + b2
// Parameters: weight [C] and bias [C], hidden.{weight [M, K], bias [M]} and modulation.{weight
// [2 C, M], bias [2 C]} with the rows of the shift first. W1 and W2 start small. The paper keeps
// the pretrained weight and bias; freeze them to do the same. Buffers: RunningStatistics.
class ConditionalBatchNorm : public ConditionalNormalizer {
 public:
  struct Options {
    std::int64_t channels;      // C
    std::int64_t condition;     // K
    std::int64_t hidden = 128;  // M
    double eps = 1e-5;
    double momentum = 0.1;
    bool sync = false;  // statistics over the batch of all ranks
  };
  ConditionalBatchNorm(const Scope&, const Options&);

  // Requires a vector [B, K].
  Variable forward(Context&, const Variable& x, const TokenGrid&, const Condition&) override;
  // Does not update the running statistics.
  Variable reference(Context&, const Variable& x, const TokenGrid&, const Condition&) override;

 private:
  Options options_;
  Parameter *weight_, *bias_;
  Linear hidden_, modulation_;
  RunningStatistics running_;
};

// Spatially-adaptive normalization (Park et al., "Semantic image synthesis with spatially-adaptive
// normalization", 2019): BatchNorm or InstanceNorm without parameters, then a gain and a shift for
// each element from a map over the tokens:
//     y = (1 + gain) xhat + shift,   (shift, gain) = conv(relu(conv(map)))
// with 3 x 3 convolutions and zeros around the grid. Parameters: shared.{weight [M, 9 K], bias [M]}
// and modulation.{weight [2 C, 9 M], bias [2 C]} with the rows of the shift first. The columns of a
// weight are the neighbours, row by row, and within each neighbour the channels. Buffers with
// BatchNorm: RunningStatistics.
class SpatiallyAdaptiveNorm : public ConditionalNormalizer {
 public:
  // The normalizer without parameters: BatchNorm or InstanceNorm.
  enum class Base { kBatch, kInstance };
  struct Options {
    std::int64_t channels;      // C
    std::int64_t condition;     // K
    std::int64_t hidden = 128;  // M
    Base base = Base::kBatch;
    double eps = 1e-5;
    double momentum = 0.1;
    bool sync = false;  // statistics over the batch of all ranks
  };
  SpatiallyAdaptiveNorm(const Scope&, const Options&);

  // Requires a map at the resolution of the tokens, [B, T, K].
  Variable forward(Context&, const Variable& x, const TokenGrid&, const Condition&) override;
  // Does not update the running statistics.
  Variable reference(Context&, const Variable& x, const TokenGrid&, const Condition&) override;

 private:
  Options options_;
  Linear shared_, modulation_;
  std::optional<RunningStatistics> running_;
};

}  // namespace dtn
