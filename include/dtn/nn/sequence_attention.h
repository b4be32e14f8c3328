// The attention of a block over padded sequences: dense, by blocks (BigBird) or by hash (Reformer).
// Parameters, none with a bias: qkv.weight [3 C, C] and proj.weight [C, C]; by hash qk.weight,
// v.weight and proj.weight [C, C] and the buffer rotations [D, hashes, buckets / 2], and in the
// variant lra no proj. All start Xavier-uniform, q, k and v each as a matrix of its own.
#pragma once

#include <memory>

#include "dtn/config/model_config.h"
#include "dtn/nn/block_parts.h"
#include "dtn/ops/sparse_attention.h"

namespace dtn {

struct SequenceAttentionOptions {
  std::int64_t channels, heads;  // C, H
  SequenceAttentionConfig how{};
  double dropout = 0;       // behind the projection
  std::int64_t tokens = 0;  // T of BigBird, which always runs at the same, the class token included
  std::int64_t layer = 0;   // of BigBird: which of the model's, from 0 on
};

// Throws Error where a pattern of blocks cannot be drawn, or buckets are odd.
std::unique_ptr<BlockAttention> make_sequence_attention(const Scope&,
                                                        const SequenceAttentionOptions&);

// Of BigBird: which blocks see which.
ops::BlockPattern::Options block_pattern_of(const SequenceAttentionOptions&);

}  // namespace dtn
