// Those who look into a model while it runs. The Context of a pass carries at most one; layers show
// it what passes through them, which costs a pass without one a test of a pointer for each norm,
// attention and branch. A pass computes the same bits with one as without: what it would not compute
// as such, for instance a branch that the product at its end adds, is computed for the observer
// beside it. Tensors are shown as they are, on their device and in their type, and must not be
// changed; whoever keeps one keeps its memory.
//
//   struct LongestToken : Observer {
//     void end_layer(const Tensor& x, const TokenGrid& grid) override { ... }
//   } longest;
//   Context ctx;
//   ctx.observer = &longest;
//   ctx.mode.skip_unread = false;  // or the last layer may run for its class token alone, unseen
//   model.forward(ctx, images);
#pragma once

#include <string>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/nn/tokens.h"
#include "dtn/ops/grouped_attention.h"

namespace dtn {

class Normalizer;

// What attention weights are made of: softmax(scale q k^T + bias + penalty of the regions), see
// ops::grouped_attention.
struct AttentionView {
  Tensor queries, keys;  // [B, Q, *] and [B, S, *], of which `how` says what is whose
  Tensor bias;           // [H, Q, S] of a group, or undefined
  ops::GroupedAttention how;
  TokenGrid query_grid, key_grid;  // with the tokens ahead of them
  // Row u of the keys' grid stands at row key_start + key_step u of the queries'; columns likewise.
  double key_start = 0, key_step = 1;
};

// The context for what is computed for an observer alone.
inline Context unseen(const Context& ctx) {
  Context aside = ctx;
  aside.tape = nullptr;
  aside.observer = nullptr;
  return aside;
}

class Observer {
 public:
  enum class Branch { kAttention, kMlp };

  virtual ~Observer() = default;

  // A layer begins: the residual stream [B, T, C], T = grid.tokens().
  virtual void begin_layer(const Tensor& /*x*/, const TokenGrid&) {}
  // One of its normalizers, in order of use: y = norm(x), both [B, T, C].
  virtual void normalized(const Normalizer&, const Tensor& /*x*/, const Tensor& /*y*/,
                          const TokenGrid&) {}
  virtual void attention(const AttentionView&) {}
  // What is about to be added to the stream, [B, T, C].
  virtual void branch(Branch, const Tensor& /*y*/, const TokenGrid&) {}
  // The layer ends: the stream with all its branches.
  virtual void end_layer(const Tensor& /*x*/, const TokenGrid&) {}
};

// What a layer consists of, for those who want to know what they are shown.
struct LayerInfo {
  struct Norm {
    std::string path;  // of its parameters: blocks.3.norm1
    std::int64_t heads = 1;
    const Normalizer* norm = nullptr;
  };
  std::vector<std::string> paths;  // of its parameters: blocks.3
  std::int64_t heads = 0;          // of its attention; 0: it has none
  std::vector<Norm> norms;         // in order of use
  // Where the parameters of the branches lie; those of `norms` among them are not theirs.
  std::vector<std::string> attention{}, mlp{};
};

}  // namespace dtn
