// Attention bias from the offsets between the tokens of a grid and the cells of a coarser map.
#include "dtn/nn/positions.h"

#include "tensors.h"

namespace dtn {
namespace {

using std::int64_t;

TEST(SequencePositions, InitializeHeadsAtConsecutiveOffsets) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    Tensor weights = Tensor::empty({4, 3}, dtype);
    init_line_positions(weights, 1, "norm.pos_proj.weight");
    const test::Doubles want = {-3, 0, -1, -1, 0, -1, 1, 0, -1, 3, 0, -1};
    EXPECT_EQ(test::doubles(weights), want);
  }
}

TEST(OffsetsToPooled, GoFromTokensToCentersOfPooledPositions) {
  // 2 x 2 cells have centers at 0.5 and 2.5. The fifth row and the last column are in no cell.
  const Tensor offsets = offsets_to_cells(5, 3, 2, DType::kFloat64, kCpu);
  ASSERT_EQ(offsets.shape(), Shape({15 * 2, 3}));
  auto expect_at = [&](int64_t query, int64_t key, double dx, double dy) {
    const double* at = offsets.data<double>() + (query * 2 + key) * 3;
    EXPECT_EQ(at[0], dx);
    EXPECT_EQ(at[1], dy);
    EXPECT_EQ(at[2], dx * dx + dy * dy);
  };
  expect_at(0, 0, 0.5, 0.5);
  expect_at(0, 1, 0.5, 2.5);
  expect_at(4, 0, -0.5, -0.5);   // row 1, column 1
  expect_at(14, 1, -1.5, -1.5);  // row 4, column 2
  expect_at(5, 1, -1.5, 1.5);    // row 1, column 2
}

TEST(OffsetsToPooled, AreIntegersWithoutPooling) {
  const Tensor offsets = offsets_to_cells(2, 3, 1, DType::kFloat32, kCpu);
  const float* at = offsets.data<float>() + (1 * 6 + 5) * 3;  // from (0, 1) to (1, 2)
  EXPECT_EQ(at[0], 1);
  EXPECT_EQ(at[1], 1);
  EXPECT_EQ(at[2], 2);
}

TEST(OffsetsToPooled, RejectGridsSmallerThanPool) {
  EXPECT_THROW(offsets_to_cells(7, 3, 4, DType::kFloat32, kCpu), Error);
  EXPECT_THROW(offsets_to_cells(7, 3, 0, DType::kFloat32, kCpu), Error);
}

TEST(BiasFromOffsets, WeighsEachHeadAndPropagatesGradients) {
  const Tensor offsets = offsets_to_cells(4, 6, 2, DType::kFloat64, kCpu);
  const Variable weights(test::random_tensor({3, 3}, 1), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable bias = bias_from_offsets(ctx, weights, offsets, 24);
  ASSERT_EQ(bias.shape(), Shape({3, 24, 6}));
  const Tensor dbias = test::random_tensor(bias.shape(), 2);
  tape.backward(bias, dbias);
  for (int64_t head = 0; head < 3; ++head) {
    double want[3] = {};
    for (int64_t pair = 0; pair < 24 * 6; ++pair) {
      double sum = 0;
      for (int64_t i = 0; i < 3; ++i) {
        const double offset = offsets.data<double>()[pair * 3 + i];
        sum += weights.value().data<double>()[head * 3 + i] * offset;
        want[i] += dbias.data<double>()[head * 24 * 6 + pair] * offset;
      }
      EXPECT_NEAR(bias.value().data<double>()[head * 24 * 6 + pair], sum, 1e-12);
    }
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(weights.grad().data<double>()[head * 3 + i], want[i], 1e-11);
    }
  }
}

}  // namespace
}  // namespace dtn
