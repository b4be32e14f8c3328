// Block-sparse attention. Each inner block of queries is one AttentionBlock. The first and the
// last, which see all keys, form one together.
#include "kernels/sparse_attention/block_attention.h"

#include "dtn/core/parallel.h"
#include "kernels/attention/table_bias.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/sparse_attention/attention_blocks.h"

namespace dtn::DTN_ISA {
namespace {

struct HeadRows : SampleHead<BlockAttentionProblem> {
  // Row of token 0 in qkv [B, T, 3, H, D]: `part` is 0 for q, 1 for k, 2 for v.
  template <class T>
  T* in_qkv(T* qkv, int part) const {
    return qkv + (sample() * p.tokens * 3 + part) * p.heads * p.head_dim + head() * p.head_dim;
  }
  template <class S>
  HeadInputs<S> inputs(const S* qkv, const S* zeros) const {
    const auto rows = [&](int part) {
      return PositionRows<const S>{in_qkv(qkv, part), 3 * p.heads * p.head_dim, p.tokens, zeros};
    };
    return {rows(0), rows(1), rows(2), p.head_dim, p.scale};
  }
};

// Generates the blocks of one head of one sample.
class AttentionBlocks {
 public:
  AttentionBlocks(Scratch::Scope& scratch, const BlockAttentionProblem& p, std::int64_t head,
                  std::int64_t length)
      : p_(p),
        seen_(p.seen ? p.seen + head * p.blocks * p.width : nullptr),
        length_(length),
        queries_(scratch.take<std::int64_t>(p.blocks * p.block)),
        keys_(scratch.take<std::int64_t>(p.blocks * p.block)) {}

  // Calls f(block) for each block that has queries.
  template <class F>
  void for_each(const F& f) {
    begin();
    for (std::int64_t b = 0; b < p_.blocks; ++b) {
      if (is_global(b)) add_queries(b);
      add_keys(b);
    }
    visit(f);
    for (std::int64_t b = 0; b < p_.blocks; ++b) {
      if (is_global(b)) continue;
      begin();
      add_queries(b);
      const std::int64_t* row = seen_ + b * p_.width;
      for (std::int64_t i = 0; i < p_.width && row[i] >= 0; ++i) add_keys(row[i]);
      visit(f);
    }
  }

 private:
  bool is_global(std::int64_t b) const { return !seen_ || b == 0 || b == p_.blocks - 1; }
  void begin() { query_count_ = key_count_ = 0; }
  void add_queries(std::int64_t b) {
    const std::int64_t end = std::min((b + 1) * p_.block, length_);
    for (std::int64_t i = b * p_.block; i < end; ++i) queries_[query_count_++] = i;
  }
  void add_keys(std::int64_t b) {
    const std::int64_t end = (b + 1) * p_.block, valid = std::min(end, length_);
    for (std::int64_t i = b * p_.block; i < valid; ++i) keys_[key_count_++] = i;
    if (!p_.zero_keys) return;
    for (std::int64_t i = std::max(b * p_.block, p_.tokens); i < end; ++i) keys_[key_count_++] = i;
  }
  template <class F>
  void visit(const F& f) const {
    if (query_count_ > 0) f(AttentionBlock{queries_, query_count_, keys_, key_count_});
  }

  const BlockAttentionProblem& p_;
  const std::int64_t* seen_;  // [n, width]
  std::int64_t length_;
  std::int64_t *queries_, *keys_;
  std::int64_t query_count_ = 0, key_count_ = 0;
};

template <class A>
TableBias<A> no_bias() {
  return {nullptr, nullptr, 0};
}

template <class S>
void forward(CpuQueue& queue, const BlockAttentionForward& args) {
  using A = AccumulatorOf<S>;
  const BlockAttentionProblem& p = args.problem;
  parallel_for(p.batch * p.heads, [&](std::int64_t item) {
    Scratch::Scope scope(queue.scratch());
    const HeadRows rows{{p, item}};
    const S* zeros = zero_row<S>(scope, p.head_dim);
    const auto inputs = rows.inputs(static_cast<const S*>(args.qkv), zeros);
    const auto out = rows.in(static_cast<S*>(args.out), static_cast<S*>(nullptr));
    A* lse = static_cast<A*>(args.lse) + item * p.tokens;
    AttentionBlocks(scope, p, rows.head(), rows.length())
        .for_each([&](const AttentionBlock& block) {
          attend(queue.scratch(), inputs, block, no_bias<A>(), out, lse);
        });
    for (std::int64_t i = rows.length(); i < p.tokens; ++i) {
      std::fill_n(out.first + i * out.ld, p.head_dim, S{});
      lse[i] = 0;
    }
  });
}

template <class S>
void backward(CpuQueue& queue, const BlockAttentionBackward& args) {
  using A = AccumulatorOf<S>;
  const BlockAttentionProblem& p = args.problem;
  parallel_for(p.batch * p.heads, [&](std::int64_t item) {
    Scratch::Scope scope(queue.scratch());
    const HeadRows rows{{p, item}};
    const S* zeros = zero_row<S>(scope, p.head_dim);
    const auto inputs = rows.inputs(static_cast<const S*>(args.qkv), zeros);
    const auto out = rows.in(static_cast<const S*>(args.out), zeros);
    const auto dout = rows.in(static_cast<const S*>(args.dout), zeros);
    const A* lse = static_cast<const A*>(args.lse) + item * p.tokens;
    const HeadGradients<A> sums(scope, p.blocks * p.block, padded_dim<A>(p.head_dim));
    AttentionBlocks(scope, p, rows.head(), rows.length())
        .for_each([&](const AttentionBlock& block) {
          attend_back(queue.scratch(), inputs, block, no_bias<A>(), out, dout, lse, sums);
        });
    const A* parts[] = {sums.dq, sums.dk, sums.dv};
    for (int part = 0; part < 3; ++part) {
      S* to = rows.in_qkv(static_cast<S*>(args.dqkv), part);
      for (std::int64_t i = 0; i < p.tokens; ++i, to += 3 * p.heads * p.head_dim) {
        if (i < rows.length()) {
          store_row(parts[part] + i * sums.ld, p.head_dim, to);
        } else {
          std::fill_n(to, p.head_dim, S{});
        }
      }
    }
  });
}

}  // namespace

void run(CpuQueue& queue, const BlockAttentionForward& args) {
  for_dtype("block attention", args.problem.dtype,
            [&](auto t) { forward<decltype(t)>(queue, args); });
}

void run(CpuQueue& queue, const BlockAttentionBackward& args) {
  for_dtype("block attention", args.problem.dtype,
            [&](auto t) { backward<decltype(t)>(queue, args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(BlockAttentionForward)
DTN_DISPATCH(BlockAttentionBackward)
