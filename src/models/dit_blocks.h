// Blocks of a diffusion transformer, by the way of the condition into them.
//
// Adaptive blocks (adaln_zero, adaln) modulate the norms by shifts and scales of each sample, and
// gate the branches:
//     h += gate1 attn((1 + scale1) norm1(h) + shift1)
//     h += gate2 mlp((1 + scale2) norm2(h) + shift2)
// adaln has no gates. Parameters: those of a transformer block (block.h).
//
// Cross blocks attend to the tokens of the condition, c:
//     h += attn(norm1(h))
//     h += cross_attn(norm_cross(h), c)
//     h += mlp(norm2(h))
// Parameters: also norm_cross.* and cross_attn.{q,kv,proj}.{weight,bias}.
#pragma once

#include <memory>
#include <string>

#include "dtn/nn/block.h"

namespace dtn {

// Modulation of an adaptive block.
struct DitModulation {
  Variable attention, mlp;            // [B, 2 D]: shifts, then scales
  Variable attention_gate, mlp_gate;  // [B, D]; undefined: no gates
};

// The stream of tokens, with a gated branch that is not added yet: the next norm adds it, which
// reads the stream anyway.
class GatedStream {
 public:
  explicit GatedStream(Variable x) : x_(std::move(x)) {}

  // The stream with the branch, [B, T, D].
  const Variable& sum(Context&);
  // The input of the next branch: the norm of the sum, modulated.
  Variable modulated(Context&, Normalizer&, const Variable& modulation, const TokenGrid&);
  // branch [B, T, D], gate [B, D]; an undefined gate is 1.
  void add(Context&, Variable branch, Variable gate);
  // Replaces the stream by a sum that is computed already.
  void set(Variable sum);

 private:
  Variable x_, branch_, gate_;
};

// A block with modulated norms.
class AdaptiveBlock {
 public:
  AdaptiveBlock(const Scope&, const BlockOptions&);

  // Adds both branches to the stream; the last one may stay pending. Shows the same values to an
  // observer as Block does. Its norms are shown without the modulation.
  void forward(Context&, GatedStream&, const DitModulation&, const TokenGrid&) const;
  LayerInfo info() const;

 private:
  Variable modulated(Context&, GatedStream&, Normalizer&, const Variable& modulation,
                     const TokenGrid&) const;
  void attention_branch(Context&, GatedStream&, const DitModulation&, const TokenGrid&) const;
  void mlp_branch(Context&, GatedStream&, const DitModulation&, const TokenGrid&) const;

  std::string path_;
  std::int64_t heads_;
  std::unique_ptr<Normalizer> norm1_;
  Attention attention_;
  std::unique_ptr<Normalizer> norm2_;
  Mlp mlp_;
};

// Attention from all tokens to a few others.
class CrossAttention {
 public:
  CrossAttention(const Scope&, std::int64_t channels, std::int64_t heads);

  // x [B, T, D], condition [B, S, D] in the type of x -> [B, T, D], after the projection, plus
  // residual [B, T, D].
  Variable forward_add(Context&, const Variable& x, const Variable& condition,
                       const Variable& residual) const;

 private:
  std::int64_t heads_;
  Linear q_, kv_, proj_;
};

// A block with attention to the tokens of the condition.
class CrossBlock {
 public:
  CrossBlock(const Scope&, const BlockOptions&);

  // x [B, T, D], condition [B, S, D] in the type of x.
  Variable forward(Context&, const Variable& x, const Variable& condition, const TokenGrid&) const;
  LayerInfo info() const;

 private:
  Variable normalized(Context&, const Variable& x, Normalizer&, const TokenGrid&) const;

  std::string path_;
  std::int64_t heads_;
  std::unique_ptr<Normalizer> norm1_;
  Attention attention_;
  std::unique_ptr<Normalizer> norm_cross_;
  CrossAttention cross_;
  std::unique_ptr<Normalizer> norm2_;
  Mlp mlp_;
};

}  // namespace dtn
