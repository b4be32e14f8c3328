// Compares attention over padded sequences, dense and sparse, on the device with the CPU in
// float64.
#include "dtn/ops/sparse_attention.h"

#include "cuda/twin.h"
#include "kernels/attention/attention.h"
#include "kernels/sparse_attention/block_attention.h"
#include "kernels/sparse_attention/hashed_attention.h"
#include "sparse_attention_cases.h"

namespace dtn::test {
namespace {

using ops::SparseVariant;
using std::int64_t;

const std::vector<DType> kTypes = {DType::kFloat32, DType::kBFloat16};
const std::vector<DType> kOnTensorCores = {DType::kBFloat16};

// Results of a problem: outputs, log-sum-exp where it is compared, and gradients.
struct Results {
  std::vector<Tensor> all;
};
using Problem = std::function<Results(Where, DType)>;

// Error bound: the four sums in float32. bfloat16 also rounds the stored p, out, ds and a gradient.
double bound_of(DType dtype, int64_t terms) {
  const double sums = 16 * unit_roundoff(DType::kFloat32) * std::sqrt(static_cast<double>(terms));
  return dtype == DType::kBFloat16 ? sums + 4 * unit_roundoff(dtype) : sums;
}

void expect_matches(const std::string& name, const Problem& problem, int64_t terms,
                    const std::vector<DType>& types = kTypes) {
  SCOPED_TRACE(name);
  const Results want = problem(kOnHost, DType::kFloat64);
  for (DType dtype : types) {
    under_every_schedule([&] {
      const Results got = problem(kOnDevice, dtype);
      for (std::size_t i = 0; i < want.all.size(); ++i) {
        EXPECT_GT(max_abs(doubles(want.all[i])), 0);
        expect_close("sparse_attention", cat(name, " ", name_of(dtype), " tensor ", i), got.all[i],
                     doubles(want.all[i]), bound_of(dtype, terms));
      }
      return got.all;
    });
  }
}

template <class Arguments>
void run_where(Where where, const Arguments& arguments) {
  where == kOnDevice ? run(cuda_queue(), arguments) : run(cpu_queue(), arguments);
}
Tensor result(const Twin& t, Where where) { return where == kOnDevice ? t.device() : t.host(); }
const int64_t* whole_numbers(const Twin& t, Where where) {
  return static_cast<const int64_t*>(t.at(where));
}
Twin twin_of(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? Twin() : Twin(lengths_of(lengths));
}
// Random rows [B, T, *]; the padding holds NaN.
Tensor padded(const Shape& shape, const std::vector<int64_t>& lengths, std::uint32_t stream) {
  Tensor x = representable(random_tensor(shape, stream, 1.5));
  for (int64_t b = 0; b < shape[0] && !lengths.empty(); ++b) {
    const int64_t row = shape.numel() / shape[0] / shape[1];
    std::fill(x.data<double>() + (b * shape[1] + lengths[static_cast<std::size_t>(b)]) * row,
              x.data<double>() + (b + 1) * shape[1] * row, NAN);
  }
  return x;
}

struct DenseCase {
  int64_t batch, tokens, heads, dim;
  std::vector<int64_t> lengths;
  double dropout;
};

Results run_dense(const DenseCase& c, Where where, DType dtype) {
  const Shape shape = {c.batch, c.tokens, c.heads, c.dim};
  const Twin qkv(as(padded({c.batch, c.tokens, 3, c.heads, c.dim}, c.lengths, 1), dtype));
  const Twin dout(as(padded(shape, c.lengths, 2), dtype)), lengths = twin_of(c.lengths);
  const Twin out = Twin::output(shape, dtype), dqkv = Twin::output(qkv.host().shape(), dtype);
  const Twin lse = Twin::output({c.batch, c.heads, c.tokens}, accumulator_of(dtype));
  AttentionForward forward{dtype, c.batch,       c.tokens,      c.heads,      c.dim,
                           0.3,   qkv.at(where), out.at(where), lse.at(where)};
  forward.lengths = whole_numbers(lengths, where);
  forward.dropout.p = c.dropout;
  forward.dropout.key = {5, 6, 7};
  forward.dropout.first_sample = 3;
  AttentionBackward backward{
      dtype,         c.batch,       c.tokens,      c.heads,        c.dim,         0.3,
      qkv.at(where), out.at(where), lse.at(where), dout.at(where), dqkv.at(where)};
  backward.lengths = forward.lengths;
  backward.dropout = forward.dropout;
  run_where(where, forward);
  run_where(where, backward);
  return {{result(out, where), result(lse, where), result(dqkv, where)}};
}

// Covers more than one tile of 64 tokens on either side, tiles that are partly or entirely padding,
// and each number of columns that the tensor-core kernels support.
TEST(CudaPaddedAttention, TilesMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const DenseCase& c :
       {DenseCase{3, 150, 1, 32, {150, 1, 70}, 0}, DenseCase{1, 100, 2, 56, {}, 0.3},
        DenseCase{2, 90, 1, 16, {64, 85}, 0.1}, DenseCase{1, 66, 1, 64, {65}, 0.5}}) {
    expect_matches(
        cat("T ", c.tokens, " D ", c.dim, " dropout ", c.dropout),
        [&](Where where, DType dtype) { return run_dense(c, where, dtype); }, c.tokens + c.dim,
        kOnTensorCores);
  }
}

TEST(CudaPaddedAttention, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const DenseCase& c :
       {DenseCase{2, 23, 2, 16, {23, 5}, 0}, DenseCase{2, 21, 1, 70, {20, 9}, 0.3},
        DenseCase{1, 20, 1, 33, {}, 0.1}}) {
    expect_matches(
        cat("T ", c.tokens, " dropout ", c.dropout),
        [&](Where where, DType dtype) { return run_dense(c, where, dtype); }, c.tokens + c.dim);
  }
}

Results run_blocks(const BlockCase& c, Where where, DType dtype) {
  const auto pattern = ops::BlockPattern::make(c.pattern);
  const int64_t tokens = c.pattern.tokens;
  const Shape shape = {c.batch, tokens, c.heads, c.dim};
  const Twin qkv(as(padded({c.batch, tokens, 3, c.heads, c.dim}, c.lengths, 1), dtype));
  const Twin dout(as(padded(shape, c.lengths, 2), dtype)), lengths = twin_of(c.lengths);
  const Twin seen = pattern->seen.defined() ? Twin(pattern->seen) : Twin();
  const Twin out = Twin::output(shape, dtype), dqkv = Twin::output(qkv.host().shape(), dtype);
  const Twin lse = Twin::output({c.batch, c.heads, tokens}, accumulator_of(dtype));
  const BlockAttentionProblem p{.dtype = dtype,
                                .batch = c.batch,
                                .tokens = tokens,
                                .heads = c.heads,
                                .head_dim = c.dim,
                                .scale = 0.4,
                                .block = c.pattern.block,
                                .blocks = pattern->blocks,
                                .seen = whole_numbers(seen, where),
                                .width = c.pattern.random + 5,
                                .zero_keys = c.pattern.variant == SparseVariant::kLra,
                                .lengths = whole_numbers(lengths, where)};
  run_where(where, BlockAttentionForward{p, qkv.at(where), out.at(where), lse.at(where)});
  run_where(where, BlockAttentionBackward{p, qkv.at(where), out.at(where), lse.at(where),
                                          dout.at(where), dqkv.at(where)});
  return {{result(out, where), result(lse, where), result(dqkv, where)}};
}

TEST(CudaBlockAttention, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (SparseVariant variant : {SparseVariant::kClean, SparseVariant::kLra}) {
    const std::string name = variant == SparseVariant::kLra ? "lra" : "clean";
    for (const BlockCase& c :
         {BlockCase{name, 2, 2, 16, pattern_options(26, 2, 3, 2, variant), {26, 11}},
          BlockCase{name + ", whole", 1, 2, 8, pattern_options(24, 2, 3, 3, variant), {}},
          BlockCase{
              name + ", all see all", 2, 1, 65, pattern_options(19, 1, 4, 3, variant), {7, 19}}}) {
      expect_matches(
          c.name, [&](Where where, DType dtype) { return run_blocks(c, where, dtype); },
          c.pattern.tokens + c.dim);
    }
  }
}

// Blocks of one tile and of two tiles; the last block is shorter than the others.
TEST(CudaBlockAttention, TilesMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const SparseVariant clean = SparseVariant::kClean, lra = SparseVariant::kLra;
  for (const BlockCase& c :
       {BlockCase{"tiles", 2, 1, 24, pattern_options(400, 1, 64, 1, clean), {400, 210}},
        BlockCase{"tiles of lra", 1, 2, 16, pattern_options(448, 2, 64, 1, lra), {}},
        BlockCase{"two tiles a block", 1, 1, 8, pattern_options(780, 1, 128, 1, clean), {700}}}) {
    EXPECT_TRUE(ops::BlockPattern::make(c.pattern)->seen.defined()) << c.name;
    expect_matches(
        c.name, [&](Where where, DType dtype) { return run_blocks(c, where, dtype); },
        c.pattern.tokens + c.dim, kOnTensorCores);
  }
}

Results run_hashed(const HashedCase& c, Where where, DType dtype) {
  const Shape shape = {c.batch, c.tokens, c.heads, c.dim};
  const bool lra = c.variant == SparseVariant::kLra;
  // The lra variant multiplies scores by sqrt(D), so its inputs are small. Otherwise a token
  // attends to little more than itself, and its gradients are differences of nearly equal numbers.
  const Twin qk(as(c.qk(1e-4, lra ? 0.5 : 1), dtype)), rotations(c.rotations());
  const Twin v(as(padded(shape, c.lengths, 2), dtype));
  const Twin dout(as(padded(shape, c.lengths, 3), dtype)), lengths = twin_of(c.lengths);
  const Twin out = Twin::output(shape, dtype);
  const Twin dqk = Twin::output(shape, dtype), dv = Twin::output(shape, dtype);
  const int64_t positions = (c.tokens + (lra ? c.buckets : c.buckets - 1)) / c.buckets * c.buckets;
  const HashedAttentionProblem p{.dtype = dtype,
                                 .batch = c.batch,
                                 .tokens = c.tokens,
                                 .heads = c.heads,
                                 .head_dim = c.dim,
                                 .positions = positions,
                                 .hashes = c.hashes,
                                 .buckets = c.buckets,
                                 .lra = lra,
                                 .lengths = whole_numbers(lengths, where)};
  const Twin lse = Twin::output({c.batch, c.heads, positions}, accumulator_of(dtype));
  const Twin order = Twin::output({c.batch, c.heads, c.hashes, positions}, DType::kInt64);
  auto* sorted = static_cast<int64_t*>(order.at(where));
  run_where(where, HashedAttentionForward{p, qk.at(where), v.at(where),
                                          static_cast<const float*>(rotations.at(where)),
                                          out.at(where), lse.at(where), sorted});
  run_where(where,
            HashedAttentionBackward{p, qk.at(where), v.at(where), out.at(where), lse.at(where),
                                    sorted, dout.at(where), dqk.at(where), dv.at(where)});
  return {{result(out, where), result(dqk, where), result(dv, where)}};
}

// Chunks shorter and longer than a tile, a last chunk that is empty or short, and padding.
TEST(CudaHashedAttention, TilesMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const SparseVariant clean = SparseVariant::kClean;
  for (const HashedCase& c : {HashedCase{"tiles", 2, 203, 1, 32, 1, 10, clean, {203, 1}},
                              HashedCase{"tiles, long chunks", 1, 290, 1, 24, 1, 2, clean, {}},
                              HashedCase{"tiles, pads", 2, 270, 1, 16, 1, 4, clean, {131, 270}}}) {
    expect_matches(
        c.name, [&](Where where, DType dtype) { return run_hashed(c, where, dtype); },
        c.tokens + c.dim, kOnTensorCores);
  }
}

// Each chunk is one token, which attends to the token before it. The neighbour of the first token
// is empty, so this token attends to itself alone; the next token attends to it. All weights are 1,
// so dqk is 0 except for rounding.
TEST(CudaHashedAttention, TokenAttendingOnlyToItself) {
  DTN_SKIP_WITHOUT_DEVICE();
  const HashedCase c{"a token a chunk", 1, 5, 2, 64, 1, 6, SparseVariant::kClean, {}};
  const Results want = run_hashed(c, kOnHost, DType::kFloat64);
  for (DType dtype : kTypes) {
    const Results got = run_hashed(c, kOnDevice, dtype);
    for (std::size_t i : {0, 2}) {
      expect_close("sparse_attention", cat(c.name, " tensor ", i), got.all[i], doubles(want.all[i]),
                   bound_of(dtype, 1));
    }
    EXPECT_LE(max_abs(doubles(got.all[1])), 64 * unit_roundoff(dtype));
  }
}

TEST(CudaHashedAttention, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const SparseVariant clean = SparseVariant::kClean, lra = SparseVariant::kLra;
  for (const HashedCase& c : {HashedCase{"clean", 2, 23, 2, 16, 1, 4, clean, {23, 10}},
                              HashedCase{"clean, rounds", 1, 30, 2, 8, 3, 6, clean, {}},
                              HashedCase{"clean, one token", 2, 12, 1, 70, 2, 4, clean, {1, 12}},
                              HashedCase{"lra", 2, 23, 2, 16, 1, 4, lra, {}},
                              HashedCase{"lra, rounds", 1, 24, 3, 8, 2, 6, lra, {}}}) {
    expect_matches(
        c.name, [&](Where where, DType dtype) { return run_hashed(c, where, dtype); },
        c.tokens + c.dim);
  }
}

}  // namespace
}  // namespace dtn::test
