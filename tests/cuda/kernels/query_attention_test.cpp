// Compares attention of a few queries on the device with the CPU in float64.
#include "kernels/attention/query_attention.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

struct Size {
  std::int64_t b, queries, t, h, d;
  Shape q() const { return {b, queries, h, d}; }
  Shape kv() const { return {b, t, 2, h, d}; }
  Shape lse() const { return {b, h, queries}; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
};

struct Result {
  Tensor out, lse, dq, dkv;
  std::vector<Tensor> all() const { return {out, lse, dq, dkv}; }
};

// A problem in float64 whose numbers bfloat16 represents exactly, so every type has the same
// numbers.
struct Problem {
  Size size;
  Tensor q, kv, dout;

  explicit Problem(const Size& s)
      : size(s),
        q(representable(random_tensor(s.q(), 1, 2))),
        kv(representable(random_tensor(s.kv(), 2))),
        dout(representable(random_tensor(s.q(), 3))) {}
};

template <class Queue>
Result run_on_queue(Queue& queue, Where where, const Problem& p, DType dtype) {
  const Size& s = p.size;
  const Twin q(as(p.q, dtype)), kv(as(p.kv, dtype)), dout(as(p.dout, dtype));
  const Twin out = Twin::output(s.q(), dtype), lse = Twin::output(s.lse(), accumulator_of(dtype));
  const Twin dq = Twin::output(s.q(), dtype), dkv = Twin::output(s.kv(), dtype);
  run(queue, QueryAttentionForward{dtype, s.b, s.queries, s.t, s.h, s.d, s.scale(), q.at(where),
                                   kv.at(where), out.at(where), lse.at(where)});
  run(queue, QueryAttentionBackward{dtype, s.b, s.queries, s.t, s.h, s.d, s.scale(), q.at(where),
                                    kv.at(where), out.at(where), lse.at(where), dout.at(where),
                                    dq.at(where), dkv.at(where)});
  if (where == kOnHost) return {out.host(), lse.host(), dq.host(), dkv.host()};
  return {out.device(), lse.device(), dq.device(), dkv.device()};
}

// There are four consecutive sums, of D and of T terms. An error of a score or of lse is a relative
// error of p. dq and dk include the rounding of out (through delta) and their own rounding.
void expect_matches(const Size& s, DType dtype) {
  SCOPED_TRACE(
      cat("B ", s.b, " Q ", s.queries, " T ", s.t, " H ", s.h, " D ", s.d, " ", name_of(dtype)));
  const Problem p(s);
  const Result want = run_on_queue(cpu_queue(), kOnHost, p, DType::kFloat64);
  const double sums =
      unit_roundoff(DType::kFloat32) *
      (4 * std::sqrt(static_cast<double>(s.t + s.d)) + 4 * max_abs(doubles(want.lse)));
  const double stored = dtype == DType::kBFloat16 ? unit_roundoff(dtype) : 0;
  // With one token dq is 0 except for rounding.
  const double floor = s.t > 1 ? 1e-30 : max_abs(doubles(p.dout)) * max_abs(doubles(p.kv));
  under_every_schedule([&] {
    const Result got = run_on_queue(cuda_queue(), kOnDevice, p, dtype);
    expect_close("query_attention_forward", "out", got.out, doubles(want.out), sums + stored);
    expect_close("query_attention_forward", "lse", got.lse, doubles(want.lse), sums, 1);
    expect_close("query_attention_backward", "dq", got.dq, doubles(want.dq), sums + 2 * stored,
                 floor);
    expect_close("query_attention_backward", "dkv", got.dkv, doubles(want.dkv), sums + 2 * stored,
                 floor);
    return got.all();
  });
}

TEST(CudaQueryAttention, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Size& s : {Size{2, 1, 197, 2, 48}, Size{1, 3, 196, 1, 64}, Size{1, 2, 31, 2, 7},
                          Size{2, 1, 1, 1, 16}, Size{1, 3, 131, 1, 100}, Size{1, 1, 67, 1, 256}}) {
      expect_matches(s, dtype);
    }
  }
}

TEST(CudaQueryAttention, RejectsSizesBeyondSharedMemory) {
  DTN_SKIP_WITHOUT_DEVICE();
  // 99 KiB of shared memory hold 28 queries of 64 channels; 227 KiB hold 64 queries.
  const Problem wide({1, 1, 2, 1, 257}), many({1, 70, 2, 1, 64});
  EXPECT_THROW(run_on_queue(cuda_queue(), kOnDevice, wide, DType::kFloat32), Error);
  EXPECT_THROW(run_on_queue(cuda_queue(), kOnDevice, many, DType::kFloat32), Error);
  const Problem fits({1, 27, 2, 1, 64});
  EXPECT_NO_THROW(run_on_queue(cuda_queue(), kOnDevice, fits, DType::kFloat32));
}

}  // namespace
}  // namespace dtn::test
