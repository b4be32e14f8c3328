// Compares attention inside groups on the device with the CPU in float64.
#include "kernels/grouped_attention/grouped_attention.h"

#include "cuda/twin.h"
#include "grouped_attention_problem.h"

namespace dtn::test {
namespace {

struct Result {
  Tensor out, lse, dqueries, dkeys, dbias;
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors = {out, lse, dqueries};
    for (const Tensor& t : {dkeys, dbias}) {
      if (t.defined()) tensors.push_back(t);
    }
    return tensors;
  }
};

// Columns that belong to no head keep their values. They are 0, so results can be compared whole.
Twin gradient(const Shape& shape, DType dtype) { return Twin(Tensor::zeros(shape, dtype)); }

template <class Queue>
Result run_on_queue(Queue& queue, Where where, const GroupedInputs& in, DType dtype) {
  const GroupedSize& s = in.size;
  auto input = [](const Tensor& t, DType type) { return t.defined() ? Twin(as(t, type)) : Twin(); };
  auto index = [](const Tensor& t) { return t.defined() ? Twin(t) : Twin(); };
  const DType acc = accumulator_of(dtype);
  const Twin queries = input(in.queries, dtype), keys = input(in.keys, dtype);
  const Twin bias = input(in.bias, acc), dout = input(in.dout, dtype);
  const Twin tokens = index(in.tokens), regions = index(in.regions);
  const Twin out = Twin::output(s.out_shape(), dtype), lse = Twin::output(s.lse_shape(), acc);
  const Twin dqueries = gradient(s.queries_shape(), dtype);
  const Twin dkeys = s.one_array() ? Twin() : gradient(s.keys_shape(), dtype);
  const Twin dbias = s.bias ? Twin(as(in.dbias_before, acc).clone()) : Twin();
  const GroupedArrays arrays{queries.at(where), keys.at(where), tokens.at(where),
                             regions.at(where), bias.at(where), dout.at(where),
                             out.at(where),     lse.at(where),  dqueries.at(where),
                             dkeys.at(where),   dbias.at(where)};
  run(queue, grouped_forward(s, dtype, arrays));
  run(queue, grouped_backward(s, dtype, arrays));
  auto result = [=](const Twin& t) {
    return !t.host().defined() || where == kOnHost ? t.host() : t.device();
  };
  return {result(out), result(lse), result(dqueries), result(dkeys), result(dbias)};
}

// There are four consecutive sums, of D terms and of as many terms as there are tokens. An error of
// a score or of lse is a relative error of p. dq and dk include the rounding of out (through delta)
// and their own rounding. The bias gradient sums over all samples and groups.
void expect_matches(const GroupedSize& s, DType dtype) {
  SCOPED_TRACE(cat(to_string(s), " ", name_of(dtype)));
  const GroupedInputs in(s);
  const Result want = run_on_queue(cpu_queue(), kOnHost, in, DType::kFloat64);
  const double terms = static_cast<double>(std::max(s.q, s.s) + s.dk + s.dv);
  const double largest = std::max(s.regions ? 100.0 : 0.0, max_abs(doubles(want.lse)));
  const double sums = unit_roundoff(DType::kFloat32) * (4 * std::sqrt(terms) + 4 * largest);
  // Tensor cores also round p and ds.
  const double stored =
      dtype == DType::kBFloat16 ? (s.unused % 8 == 0 ? 3 : 1) * unit_roundoff(dtype) : 0;
  // With one key dq is 0 except for rounding.
  const double floor = s.s > 1 ? 1e-30 : max_abs(doubles(in.dout)) * max_abs(doubles(in.queries));
  under_every_schedule([&] {
    const Result got = run_on_queue(cuda_queue(), kOnDevice, in, dtype);
    const char *forward = "grouped_attention_forward", *backward = "grouped_attention_backward";
    expect_close(forward, "out", got.out, doubles(want.out), sums + stored);
    expect_close(forward, "lse", got.lse, doubles(want.lse), sums, 1);
    const double bound = sums + 2 * stored;
    expect_close(backward, "dqueries", got.dqueries, doubles(want.dqueries), bound, floor);
    if (got.dkeys.defined()) {
      expect_close(backward, "dkeys", got.dkeys, doubles(want.dkeys), bound, floor);
    }
    if (got.dbias.defined()) {
      expect_close(backward, "dbias", got.dbias, doubles(want.dbias), bound, floor);
    }
    return got.all();
  });
}

void expect_matches(const GroupedSize& s) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) expect_matches(s, dtype);
}

TEST(CudaGroupedAttention, Windows) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_matches({2, 2, 3, 49, 49, 32, 32, GroupedSize::kPartByPart, true, 3});
  expect_matches({1, 1, 5, 7, 7, 20, 20, GroupedSize::kPartByPart, false, 2});
}

TEST(CudaGroupedAttention, FewKeys) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_matches({1, 2, 1, 131, 49, 64, 64, GroupedSize::kTwoArrays, false, 0});
  expect_matches({2, 1, 1, 3, 1, 5, 7, GroupedSize::kTwoArrays, false, 0});
}

TEST(CudaGroupedAttention, NarrowKeysWithBias) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_matches({2, 2, 1, 16, 16, 16, 32, GroupedSize::kHeadByHead, true, 0});
  expect_matches({3, 2, 1, 16, 49, 16, 64, GroupedSize::kTwoArrays, true, 0});
}

// In bfloat16, rows that begin at multiples of 16 bytes use the tensor cores. Covers windows and
// reduced keys of less than a tile, of one tile and of more; each pair of key and value widths.
TEST(CudaGroupedAttention, Tiles) {
  DTN_SKIP_WITHOUT_DEVICE();
  const auto aligned = [](GroupedSize s) {
    s.unused = 8;
    expect_matches(s, DType::kBFloat16);
  };
  aligned({2, 2, 3, 49, 49, 32, 32, GroupedSize::kPartByPart, true, 3});
  aligned({1, 2, 2, 49, 49, 24, 32, GroupedSize::kHeadByHead, true, 0});
  aligned({2, 1, 1, 131, 49, 64, 64, GroupedSize::kTwoArrays, false, 0});
  aligned({1, 2, 1, 16, 196, 16, 32, GroupedSize::kTwoArrays, true, 0});
  aligned({1, 1, 1, 70, 130, 16, 64, GroupedSize::kTwoArrays, true, 0});
  aligned({3, 1, 1, 64, 64, 16, 8, GroupedSize::kHeadByHead, false, 0});
  aligned({5, 1, 30, 5, 5, 8, 8, GroupedSize::kPartByPart, true, 2});
}

// A block that sums the bias gradient processes several groups in sequence.
TEST(CudaGroupedAttention, MoreGroupsThanBlocksForBias) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_matches({1, 1, 520, 2, 2, 4, 4, GroupedSize::kPartByPart, true, 0}, DType::kFloat32);
}

TEST(CudaGroupedAttention, RejectsWideHeads) {
  DTN_SKIP_WITHOUT_DEVICE();
  const GroupedInputs wide({1, 1, 1, 2, 2, 65, 8}), wide_values({1, 1, 1, 2, 2, 8, 65});
  EXPECT_THROW(run_on_queue(cuda_queue(), kOnDevice, wide, DType::kFloat32), Error);
  EXPECT_THROW(run_on_queue(cuda_queue(), kOnDevice, wide_values, DType::kFloat32), Error);
}

}  // namespace
}  // namespace dtn::test
