// Multi-head self-attention of long sequences, in which a token sees some of the others: those of
// some blocks (BigBird; Zaheer et al., NeurIPS 2020), or those of a like hash (Reformer; Kitaev,
// Kaiser, Levskaya, ICLR 2020). Sequences of different lengths are padded at the end. Unless the
// variant says otherwise what a pad holds reaches nothing, and its output and its gradient are 0.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// What is done with pads and rows that fill up the last block or chunk. kClean: nothing reaches a
// token from them. kLra: as in the Long-Range Arena's code, for its numbers (see each).
enum class SparseVariant { kClean, kLra };

// Which blocks of tokens see which, of every head. Made once for a layer.
struct BlockPattern {
  struct Options {
    std::int64_t tokens;  // T
    std::int64_t heads;
    std::int64_t block = 64;
    std::int64_t random = 3;  // random blocks that an inner row sees
    std::int64_t layer = 0;   // which of the model's, from 0 on: the seed
    SparseVariant variant = SparseVariant::kClean;
  };
  // Positions that `tokens` are filled up to: whole blocks, in the variant kLra one more where they
  // are whole blocks already.
  static std::int64_t positions(const Options&);
  // Whether blocks are too few for a pattern (fewer than random + 5), so that all see all.
  static bool is_dense(const Options&);
  // Throws Error where a row has fewer candidates than random blocks.
  static std::shared_ptr<const BlockPattern> make(const Options&);

  Options options;
  std::int64_t blocks;  // n
  // [H, n, random + 5] int64 on the host: the blocks that a row sees, ascending, -1 behind the last.
  // The first and the last row see all and have none here. Undefined: all rows see all.
  Tensor seen;

  // The same where kernels of a device find it; copied once, and for one thread at a time.
  const Tensor& seen_on(Device device) const;
  mutable Tensor device_copy{};
};

// softmax(q k^T / sqrt(D)) v per head over the blocks that a token sees: qkv [B, T, 3 H D] ->
// [B, T, H D] with the tokens and heads of the pattern. lengths [B] int64 as in ops::attention, or
// undefined. In the variant kLra positions behind T are keys with score 0 and value 0. No T x T
// tensor is ever made.
Variable block_attention(Context&, const Variable& qkv, const BlockPattern& pattern,
                         const Tensor& lengths = {});

struct HashedAttention {
  std::int64_t heads;
  SparseVariant variant = SparseVariant::kClean;
};

// Attention of every token to those of its chunk and the one before, when tokens are sorted by a
// random hash: qk, v [B, T, H D] -> [B, T, H D]. rotations [D, hashes, buckets / 2] float32: the
// directions of the hash, the same for all heads; buckets is also the number of chunks of a round.
// Queries and keys are one: in the variant kClean the score of q_i and k_j is q_i . q_j / |q_j|, and
// a token sees itself only where it sees nothing else. In kLra it is sqrt(D) q_i . q_j; lengths are
// of no account, since pads are tokens as others are, between 1 and `buckets` rows of zeros follow
// the last, and the result is [B, H, N, D] read as [B, N, H D]. No gradient goes through the hash.
Variable hashed_attention(Context&, const Variable& qk, const Variable& v, const Tensor& rotations,
                          const HashedAttention& how, const Tensor& lengths = {});

namespace reference {
Variable block_attention(Context&, const Variable& qkv, const BlockPattern& pattern,
                         const Tensor& lengths = {});
Variable hashed_attention(Context&, const Variable& qk, const Variable& v, const Tensor& rotations,
                          const HashedAttention& how, const Tensor& lengths = {});
}  // namespace reference
}  // namespace dtn::ops
