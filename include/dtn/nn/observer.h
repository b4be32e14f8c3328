// Observers of a running model. The Context of a pass holds at most one, and layers show it their
// intermediate values. Without an observer each norm, attention and branch costs one pointer test.
// A pass computes the same bits with and without an observer. Values that the pass itself does not
// compute, such as a branch that is fused into a product, are computed separately for the observer.
// Tensors keep their device and type and must not be changed. An observer that keeps a tensor keeps
// its memory alive.
//
//   struct LongestToken : Observer {
//     void end_layer(const Tensor& x, const TokenGrid& grid) override { ... }
//   } longest;
//   Context ctx;
//   ctx.observer = &longest;
//   ctx.mode.skip_unread = false;  // else the last layer may run unseen, for its class token only
//   model.forward(ctx, images);
#pragma once

#include <string>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/nn/tokens.h"
#include "dtn/ops/grouped_attention.h"

namespace dtn {

class Normalizer;

// Inputs of attention weights: softmax(scale q k^T + bias + region penalty), see
// ops::grouped_attention.
struct AttentionView {
  Tensor queries, keys;  // [B, Q, *] and [B, S, *]; `how` gives the columns of the heads
  Tensor bias;           // [H, Q, S] of a group, or undefined
  ops::GroupedAttention how;
  TokenGrid query_grid, key_grid;  // with their prefix tokens
  // Row u of the key grid lies at row key_start + key_step u of the query grid; columns likewise.
  double key_start = 0, key_step = 1;

  // See ops::grouped_attention_weights: [B, H, Q, S] without groups.
  Tensor weights() const;
};

// The context of computations that serve only an observer: no tape and no observer.
inline Context unseen(const Context& ctx) {
  Context aside = ctx;
  aside.tape = nullptr;
  aside.observer = nullptr;
  return aside;
}

// Receives the intermediate values of a model. The functions do nothing by default.
class Observer {
 public:
  // Residual branches of a layer.
  enum class Branch { kAttention, kMlp };

  virtual ~Observer() = default;

  // A layer begins: the residual stream [B, T, C], T = grid.tokens().
  virtual void begin_layer(const Tensor& /*x*/, const TokenGrid&) {}
  // The output of the convolution of a layer, ahead of positional normalization and the normalizer.
  // Layers of encoder-decoders show it.
  virtual void convolved(const Tensor& /*x*/, const TokenGrid&) {}
  // Called for each normalizer of the layer, in order of use: y = norm(x), both [B, T, C].
  virtual void normalized(const Normalizer&, const Tensor& /*x*/, const Tensor& /*y*/,
                          const TokenGrid&) {}
  // Inputs of the attention weights of the layer.
  virtual void attention(const AttentionView&) {}
  // The value [B, T, C] that is about to be added to the stream.
  virtual void branch(Branch, const Tensor& /*y*/, const TokenGrid&) {}
  // The layer ends: the stream with all its branches.
  virtual void end_layer(const Tensor& /*x*/, const TokenGrid&) {}
};

// Structure of a layer, to interpret the values shown to an observer.
struct LayerInfo {
  // A normalizer of the layer.
  struct Norm {
    std::string path;  // of its parameters: blocks.3.norm1
    std::int64_t heads = 1;
    const Normalizer* norm = nullptr;
  };
  std::vector<std::string> paths;  // of its parameters: blocks.3
  std::int64_t heads = 0;          // of its attention; 0: no attention
  std::vector<Norm> norms;         // in order of use
  // Paths of the parameters of the branches, without those of `norms`.
  std::vector<std::string> attention{}, mlp{};
};

}  // namespace dtn
