// The blocks of LeViT. Linear layers have no bias; a normalizer follows each.
#pragma once

#include "dtn/models/levit.h"

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

// Learned attention biases [H, h w]. An index, cached on the device of the last use, gives the
// column for each pair of a query and a key.
class LevitBias {
 public:
  // Keys are the tokens of `grid`. Queries are the tokens of every stride-th row and column.
  LevitBias(const Scope&, std::int64_t heads, const TokenGrid& grid, std::int64_t stride);

  // [H, queries, keys]
  Variable values(Context&) const;

 private:
  Parameter* biases_;
  TokenGrid grid_;
  std::int64_t stride_, queries_;
  mutable Tensor index_;
};

// x + m.2(hardswish(m.0 x))
class LevitMlp : public LevitBlock {
 public:
  LevitMlp(const Scope&, std::int64_t channels, std::int64_t hidden, const TokenGrid&,
           const LevitNorms&);
  Variable forward(Context&, const Variable& x) const override;
  TokenGrid grid() const override { return grid_; }
  void describe(std::vector<LayerInfo>& layers) const override;

 private:
  std::string path_;
  TokenGrid grid_;
  LinearNorm expand_, contract_;
};

// x + m.proj.1(hardswish(attention(m.qkv x))). For each head, m.qkv has 16 columns of q, 16 of k
// and 32 of v, with the heads outermost.
class LevitAttention : public LevitBlock {
 public:
  LevitAttention(const Scope&, std::int64_t channels, std::int64_t heads, const TokenGrid&,
                 const LevitNorms&);
  Variable forward(Context&, const Variable& x) const override;
  TokenGrid grid() const override { return grid_; }
  void describe(std::vector<LayerInfo>& layers) const override;

 private:
  std::string path_;
  std::int64_t channels_, heads_;
  TokenGrid grid_;
  LinearNorm qkv_;
  LevitBias bias_;
  LinearNorm projection_;
};

// proj.1(hardswish(attention(q.1 x', kv x))), where x' are the tokens of every second row and
// column. For each head, kv has 16 columns of k and 64 of v. There is one head for every 16
// channels of x.
class LevitShrink : public LevitBlock {
 public:
  LevitShrink(const Scope&, std::int64_t in, std::int64_t out, const TokenGrid&, const LevitNorms&);
  Variable forward(Context&, const Variable& x) const override;
  TokenGrid grid() const override { return shrunk(grid_); }
  void describe(std::vector<LayerInfo>& layers) const override;

  static TokenGrid shrunk(const TokenGrid& grid) {
    return {(grid.height + 1) / 2, (grid.width + 1) / 2};
  }

 private:
  std::string path_;
  std::int64_t channels_, heads_;
  TokenGrid grid_;  // of the keys
  LinearNorm keys_values_, queries_;
  LevitBias bias_;
  LinearNorm projection_;
};

}  // namespace dtn
