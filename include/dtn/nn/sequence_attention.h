// The attention of a block over padded sequences: dense, by blocks (BigBird) or by hash (Reformer).
// Parameters, without biases: qkv.weight [3 C, C] and proj.weight [C, C]. By hash: qk.weight,
// v.weight and proj.weight [C, C] and the buffer rotations [D, hashes, buckets / 2]; the variant
// lra has no proj. All weights start Xavier-uniform; q, k and v count as separate matrices.
#pragma once

#include <memory>

#include "dtn/config/model_config.h"
#include "dtn/nn/block_parts.h"
#include "dtn/ops/sparse_attention.h"

namespace dtn {

// Sizes and pattern of the attention of one layer.
struct SequenceAttentionOptions {
  std::int64_t channels, heads;  // C, H
  SequenceAttentionConfig how{};
  double dropout = 0;       // after the projection
  std::int64_t tokens = 0;  // BigBird: the fixed T, the class token included
  std::int64_t layer = 0;   // BigBird: index of the layer in the model, from 0
};

// Throws Error if a pattern of blocks cannot be drawn, or if the number of buckets is odd.
std::unique_ptr<BlockAttention> make_sequence_attention(const Scope&,
                                                        const SequenceAttentionOptions&);

// BigBird: the options of the layer's block pattern.
ops::BlockPattern::Options block_pattern_of(const SequenceAttentionOptions&);

}  // namespace dtn
