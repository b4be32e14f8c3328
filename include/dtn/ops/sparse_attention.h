// Multi-head self-attention for long sequences, in which a token attends to some of the others:
// those in selected blocks (BigBird; Zaheer et al., NeurIPS 2020), or those with a similar hash
// (Reformer; Kitaev, Kaiser, Levskaya, ICLR 2020). Sequences of different lengths are padded at the
// end. Unless the variant says otherwise, values of pads affect no token, and the outputs and
// gradients of pads are 0.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Treatment of pads and of the rows that complete the last block or chunk. kClean: they affect no
// token. kLra: as in the Long-Range Arena's code, to reproduce its numbers (see each operation).
enum class SparseVariant { kClean, kLra };

// Visible blocks of tokens for each block and head. Made once for a layer.
struct BlockPattern {
  struct Options {
    std::int64_t tokens;  // T
    std::int64_t heads;
    std::int64_t block = 64;
    std::int64_t random = 3;  // random blocks that an inner row attends to
    std::int64_t layer = 0;   // index of the layer in the model, from 0: the seed
    SparseVariant variant = SparseVariant::kClean;
  };
  // Number of positions after padding `tokens` to whole blocks. The variant kLra adds one more
  // block if `tokens` fill whole blocks already.
  static std::int64_t positions(const Options&);
  // True if there are too few blocks for a pattern (fewer than random + 5), so all attend to all.
  static bool is_dense(const Options&);
  // Throws Error if a row has fewer candidates than random blocks.
  static std::shared_ptr<const BlockPattern> make(const Options&);

  Options options;
  std::int64_t blocks;  // n
  // [H, n, random + 5] int64 on the host: the blocks visible to each row, ascending, then -1. The
  // first and the last row attend to all blocks and are not listed. Undefined: all rows attend to
  // all blocks.
  Tensor seen;

  // `seen` on this device. The copy is made once. Not thread-safe.
  const Tensor& seen_on(Device device) const;
  mutable Tensor device_copy{};
};

// softmax(q k^T / sqrt(D)) v for each head over the visible blocks of a token: qkv [B, T, 3 H D] ->
// [B, T, H D] with the tokens and heads of the pattern. lengths [B] int64 as in ops::attention, or
// undefined. In the variant kLra, positions after T are keys with score 0 and value 0. Never
// allocates a T x T tensor.
Variable block_attention(Context&, const Variable& qkv, const BlockPattern& pattern,
                         const Tensor& lengths = {});

// Heads and variant of hashed_attention().
struct HashedAttention {
  std::int64_t heads;
  SparseVariant variant = SparseVariant::kClean;
};

// Hashed attention: tokens are sorted by a random hash, and each attends to the tokens of its chunk
// and of the chunk before. qk, v [B, T, H D] -> [B, T, H D]. rotations [D, hashes, buckets / 2]
// float32: the directions of the hash, the same for all heads. `buckets` is also the number of
// chunks of a round. Queries and keys are the same. No gradient flows through the hash.
//
// kClean: the score of q_i and k_j is q_i . q_j / |q_j|, and a token attends to itself only if it
// sees no other token.
// kLra: the score is sqrt(D) q_i . q_j. Lengths are ignored: pads count as tokens. Between 1 and
// `buckets` rows of zeros follow the last token, which gives N rows. The result [B, H, N, D] is
// read as [B, N, H D].
Variable hashed_attention(Context&, const Variable& qk, const Variable& v, const Tensor& rotations,
                          const HashedAttention& how, const Tensor& lengths = {});

namespace reference {
Variable block_attention(Context&, const Variable& qkv, const BlockPattern& pattern,
                         const Tensor& lengths = {});
Variable hashed_attention(Context&, const Variable& qk, const Variable& v, const Tensor& rotations,
                          const HashedAttention& how, const Tensor& lengths = {});
}  // namespace reference
}  // namespace dtn::ops
