// Random draws for a sample depend neither on its rank nor on its micro-batch.
#include "data/feed/loader.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/primitive.h"
#include "tensors.h"

namespace dtn {
namespace {

constexpr std::int64_t kBatch = 12;
constexpr int kRanks = 3;

Context training() {
  Context ctx;
  ctx.mode.training = true;
  ctx.rng.seed = 4;
  ctx.rng.step = 2;
  return ctx;
}

Tensor rows_of(const Tensor& whole, const std::vector<std::int64_t>& rows, std::int64_t first,
               std::int64_t count) {
  std::vector<std::int64_t> extents;
  for (int d = 0; d < whole.rank(); ++d) extents.push_back(whole.dim(d));
  extents[0] = count;
  Tensor part = Tensor::empty(Shape(std::span<const std::int64_t>(extents)), whole.dtype());
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t row = rows[static_cast<std::size_t>(first + b)];
    part.slice(b, b + 1).copy_from(whole.slice(row, row + 1));
  }
  return part;
}

// Calls f(first, count, rows) for micro-batches of two samples of each rank.
template <class F>
void for_each_piece(F&& f) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<std::int64_t> rows = rows_of_rank(kBatch, rank, kRanks);
    for (std::size_t first = 0; first < rows.size(); first += 2) {
      SCOPED_TRACE(cat("rank ", rank, ", from its sample ", first));
      f(static_cast<std::int64_t>(first), std::int64_t{2}, rows);
    }
  }
}

TEST(RankRows, DropoutMasksMatchGlobalBatch) {
  for (bool reference : {false, true}) {
    auto drop = [&](Context ctx, const Tensor& x) {
      return (reference ? ops::reference::dropout : ops::dropout)(ctx, Variable(x), 0.5, 1).value();
    };
    const Tensor x = test::as(test::random_tensor({kBatch, 5, 3}, 1, 1, 3), DType::kFloat32);
    const Tensor whole = drop(training(), x);
    for_each_piece([&](std::int64_t first, std::int64_t count, const auto& rows) {
      Context ctx = training();
      ctx.rng.rows = rows.data() + first;
      EXPECT_TRUE(test::same_bits(drop(ctx, rows_of(x, rows, first, count)),
                                  rows_of(whole, rows, first, count)));
    });
  }
}

TEST(RankRows, DropoutBackwardUsesSameMask) {
  const std::vector<std::int64_t> rows = rows_of_rank(kBatch, 1, kRanks);
  Context ctx = training();
  Tape tape;
  ctx.tape = &tape;
  ctx.rng.rows = rows.data();
  Variable x(Tensor::full({2, 5, 3}, DType::kFloat32, 1), true);
  Variable y = ops::dropout(ctx, x, 0.5, 1);
  tape.backward(y, Tensor::full({2, 5, 3}, DType::kFloat32, 1));
  EXPECT_TRUE(test::same_bits(x.grad(), y.value()));
}

TEST(RankRows, DropPathMatchesGlobalBatch) {
  const Tensor whole = ops::drop_path_scales(training(), kBatch, 0.5, 1, DType::kFloat32);
  for_each_piece([&](std::int64_t first, std::int64_t count, const auto& rows) {
    Context ctx = training();
    ctx.rng.rows = rows.data() + first;
    EXPECT_TRUE(test::same_bits(ops::drop_path_scales(ctx, count, 0.5, 1, DType::kFloat32),
                                rows_of(whole, rows, first, count)));
  });
}

}  // namespace
}  // namespace dtn
