// The blocks of LeViT. Linear layers have no bias; a normalizer follows each.
#pragma once

#include <memory>
#include <vector>

#include "dtn/nn/norm_layers.h"
#include "dtn/nn/observer.h"

namespace dtn {

// Channels per head of the normalizer after an attention's projection. The number of attention
// heads need not divide the output channels, so the normalizer has a different number of heads.
inline constexpr int kChannelsOfSiteHead = 32;

// Options of a block's normalizers.
struct LevitNorms {
  NormConfig batch;    // BatchNorm, after all other linear layers
  NormConfig at_site;  // after the projection of an attention
  double eps = kDefaultNormEps, site_eps = kDefaultNormEps;
};

// One entry of the flat list `blocks`. Checkpointing may run each entry again.
class LevitBlock {
 public:
  virtual ~LevitBlock() = default;
  // x [B, T, C] -> [B, T', C'], T' = grid().tokens().
  virtual Variable forward(Context&, const Variable& x) const = 0;
  // The grid of the output tokens.
  virtual TokenGrid grid() const = 0;
  // Adds its description to the layers. An attention begins a layer, and the MLP after it ends it.
  virtual void describe(std::vector<LayerInfo>& layers) const = 0;
};

// x + m.2(hardswish(m.0 x))
std::unique_ptr<LevitBlock> make_levit_mlp(const Scope&, std::int64_t channels, std::int64_t hidden,
                                           const TokenGrid&, const LevitNorms&);

// x + m.proj.1(hardswish(attention(m.qkv x))). For each head, m.qkv has 16 columns of q, 16 of k
// and 32 of v, with the heads outermost.
std::unique_ptr<LevitBlock> make_levit_attention(const Scope&, std::int64_t channels,
                                                 std::int64_t heads, const TokenGrid&,
                                                 const LevitNorms&);

// proj.1(hardswish(attention(q.1 x', kv x))), where x' are the tokens of every second row and
// column. For each head, kv has 16 columns of k and 64 of v. There is one head for every 16
// channels of x.
std::unique_ptr<LevitBlock> make_levit_shrink(const Scope&, std::int64_t in, std::int64_t out,
                                              const TokenGrid&, const LevitNorms&);
// The grid after it.
TokenGrid shrunk(const TokenGrid& grid);

}  // namespace dtn
