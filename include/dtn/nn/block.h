// One pre-norm transformer block: attention and MLP, each on a residual branch. Its parameters are
// those of norm1, attn, norm2 and mlp, and, with a layer scale, ls1 and ls2. The default attention
// and MLP are those of a vision transformer (attention.h, mlp.h); a model family may replace them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "dtn/nn/attention.h"
#include "dtn/nn/layer_scale.h"
#include "dtn/nn/mlp.h"
#include "dtn/nn/observer.h"
#include "dtn/nn/residual_stream.h"

namespace dtn {

// Parts and sizes of a block.
struct BlockOptions {
  Attention::Options attention;
  Mlp::Options mlp;
  // Make another attention or MLP with parameters in the scope; unset: the defaults.
  std::function<std::unique_ptr<BlockAttention>(const Scope&)> make_attention{};
  std::function<std::unique_ptr<BlockMlp>(const Scope&)> make_mlp{};
  std::optional<NormConfig> norm;  // unset: LayerNorm
  NormShape norm_shape;
  double drop_path = 0;
  std::optional<double> layer_scale{};  // initial value of its gains; unset: no layer scale
};

// A pre-norm transformer block.
class Block {
 public:
  Block(const Scope&, const BlockOptions&);

  // Adds both branches to the stream; the last one may stay pending. Shows everything to the
  // observer of the context (observer.h).
  void forward(Context&, ResidualStream& stream, const TokenGrid& grid) const;
  // forward() for only the first `count` tokens of the prefix, such as a class token. For use if no
  // other token is needed afterwards. The result for these tokens is exact. The stream comes with
  // all tokens and leaves with [B, count, C]. Throws Error unless has_first_path(). Observers see
  // nothing of it.
  void forward_first(Context&, ResidualStream& stream, const TokenGrid& grid,
                     std::int64_t count) const;
  // The reason why the block cannot process tokens of a grid, as the end of a sentence; empty: it
  // can.
  std::string grid_problem(const TokenGrid& grid) const;
  // The block as a layer, for observers.
  LayerInfo info() const;
  // True if forward_first() works: all parts can compute the prefix tokens alone.
  bool has_first_path() const {
    return norm2_->prefix_is_per_token() && attention_->has_first_path() && mlp_->is_per_token();
  }

 private:
  Variable normalized(Context&, ResidualStream& stream, Normalizer&, const TokenGrid& grid) const;
  void attention_branch(Context&, ResidualStream& stream, const TokenGrid& grid) const;
  // Ends the attention branch: the projection, dropout and the residual sum.
  void project(Context&, ResidualStream& stream, const Variable& mixed,
               const TokenGrid& grid) const;
  void mlp_branch(Context&, ResidualStream& stream, const TokenGrid& grid) const;

  std::string path_;
  std::int64_t heads_, norm_heads_;
  std::unique_ptr<Normalizer> norm1_;
  std::unique_ptr<BlockAttention> attention_;
  std::optional<LayerScale> layer_scale1_;
  DropPath drop_path1_;
  std::unique_ptr<Normalizer> norm2_;
  std::unique_ptr<BlockMlp> mlp_;
  std::optional<LayerScale> layer_scale2_;
  DropPath drop_path2_;
};

}  // namespace dtn
