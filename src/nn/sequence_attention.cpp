#include "dtn/nn/sequence_attention.h"

#include <optional>

#include "dtn/nn/initializers.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

using Options = SequenceAttentionOptions;

ops::SparseVariant variant_of(const Options& o) {
  return o.how.variant == SequenceVariant::kLra ? ops::SparseVariant::kLra
                                                : ops::SparseVariant::kClean;
}

// Options for one matrix [C, C], or several with their rows joined.
Linear::Options without_bias(const Options& o) {
  return {.bias = false, .init = xavier_uniform(o.channels, o.channels)};
}

// One projection to queries, keys and values.
class PackedAttention : public BlockAttention {
 public:
  PackedAttention(const Scope& scope, const Options& o)
      : qkv_(scope / "qkv", o.channels, 3 * o.channels, without_bias(o)),
        proj_(scope / "proj", o.channels, o.channels, without_bias(o)),
        dropout_(scope / "proj_drop", o.dropout) {}

  const Linear* projection() const override { return &proj_; }
  const Dropout* dropout() const override { return &dropout_; }

 protected:
  Linear qkv_;

 private:
  Linear proj_;
  Dropout dropout_;
};

class DenseAttention final : public PackedAttention {
 public:
  DenseAttention(const Scope& scope, const Options& o)
      : PackedAttention(scope, o),
        heads_(o.heads),
        weight_dropout_(o.how.dropout),
        stream_(scope.random("attn_drop")) {}

  Variable mix(Context& ctx, const Variable& x, const TokenGrid& grid) const override {
    return ops::attention(ctx, qkv_.forward(ctx, x), heads_,
                          {.lengths = grid.lengths, .dropout = weight_dropout_, .stream = stream_});
  }

 private:
  std::int64_t heads_;
  double weight_dropout_;
  std::uint32_t stream_;
};

class BlockwiseAttention final : public PackedAttention {
 public:
  BlockwiseAttention(const Scope& scope, const Options& o)
      : PackedAttention(scope, o), pattern_(ops::BlockPattern::make(block_pattern_of(o))) {}

  Variable mix(Context& ctx, const Variable& x, const TokenGrid& grid) const override {
    return ops::block_attention(ctx, qkv_.forward(ctx, x), *pattern_, grid.lengths);
  }

 private:
  std::shared_ptr<const ops::BlockPattern> pattern_;
};

class HashedAttention final : public BlockAttention {
 public:
  HashedAttention(const Scope& scope, const Options& o)
      : how_{o.heads, variant_of(o)},
        qk_(scope / "qk", o.channels, o.channels, without_bias(o)),
        v_(scope / "v", o.channels, o.channels, without_bias(o)),
        rotations_(make_rotations(scope, o)),
        dropout_(scope / "proj_drop", o.dropout) {
    if (how_.variant == ops::SparseVariant::kClean) {
      proj_.emplace(scope / "proj", o.channels, o.channels, without_bias(o));
    }
  }

  Variable mix(Context& ctx, const Variable& x, const TokenGrid& grid) const override {
    return ops::hashed_attention(ctx, qk_.forward(ctx, x), v_.forward(ctx, x), rotations(), how_,
                                 grid.lengths);
  }
  const Linear* projection() const override { return proj_ ? &*proj_ : nullptr; }
  const Dropout* dropout() const override { return &dropout_; }

 private:
  static Buffer* make_rotations(const Scope& scope, const Options& o) {
    const SequenceAttentionConfig& how = o.how;
    DTN_CHECK(how.buckets > 0 && how.buckets % 2 == 0 && how.hashes > 0,
              "hashed attention needs at least 1 round and an even number of buckets, not ",
              how.hashes, " and ", how.buckets);
    return scope.buffer("rotations", {o.channels / o.heads, how.hashes, how.buckets / 2},
                        normal_with(1));
  }
  // Converts to float32, because a float64 model has float64 buffers.
  Tensor rotations() const {
    Context plain;
    return primitive::cast(plain, Variable(rotations_->value), DType::kFloat32).value();
  }

  ops::HashedAttention how_;
  Linear qk_, v_;
  std::optional<Linear> proj_;
  Buffer* rotations_;
  Dropout dropout_;
};

}  // namespace

ops::BlockPattern::Options block_pattern_of(const Options& o) {
  return {.tokens = o.tokens,
          .heads = o.heads,
          .block = o.how.block_size,
          .random = o.how.random_blocks,
          .layer = o.layer,
          .variant = variant_of(o)};
}

std::unique_ptr<BlockAttention> make_sequence_attention(const Scope& scope, const Options& o) {
  switch (o.how.kind) {
    case SequenceAttentionKind::kBigBird: return std::make_unique<BlockwiseAttention>(scope, o);
    case SequenceAttentionKind::kReformer: return std::make_unique<HashedAttention>(scope, o);
    default: return std::make_unique<DenseAttention>(scope, o);
  }
}

}  // namespace dtn
