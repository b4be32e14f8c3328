// The blocks of LeViT. Linear layers have no bias, but a normalizer behind them.
#pragma once

#include "dtn/models/levit.h"

namespace dtn {

// Normalizers with heads have one for that many channels, behind the projections of attentions,
// since the attention's own heads need not divide what is put out there.
inline constexpr int kChannelsOfSiteHead = 32;

// How a block's normalizers are made.
struct LevitNorms {
  NormConfig batch;    // BatchNorm, everywhere but
  NormConfig at_site;  // behind the projection of an attention
  double eps = kDefaultNormEps, site_eps = kDefaultNormEps;
};

// Which column of attention_biases [H, h w] each pair of a query and a key takes, kept where it was
// used last.
class LevitBias {
 public:
  // Keys are the tokens of `grid`, queries those of every stride-th row and column.
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

// x + m.proj.1(hardswish(attention(m.qkv x))), with 16 columns of q, 16 of k and 32 of v for each
// head, the heads outermost.
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
// column, with 16 columns of k and 64 of v for each head; one head for every 16 channels of x.
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
