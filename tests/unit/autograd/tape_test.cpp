#include "dtn/autograd/tape.h"

#include <gtest/gtest.h>

#include "core/allocator.h"
#include "dtn/autograd/context.h"
#include "small_operations.h"

namespace dtn {
namespace {

using namespace dtn::test;

// y = 2 x. Counts the runs of its backward pass.
Variable twice(Context& ctx, const Variable& x, int* runs) {
  Tensor y = Tensor::empty_like(x.value());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    y.data<double>()[i] = 2 * x.value().data<double>()[i];
  }
  return ctx.record("twice", y, {&x}, [runs, dx = x.sink()](const Tensor& dy) {
    ++*runs;
    Tensor d = dy.clone();
    for (std::int64_t i = 0; i < d.numel(); ++i) d.data<double>()[i] *= 2;
    dx->accumulate(std::move(d));
  });
}

TEST(Tape, RunsInReverseAndIsEmptyAfterwards) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  int runs = 0;
  Variable x(tensor_of({1, 2}), true);
  Variable y = twice(ctx, twice(ctx, x, &runs), &runs);
  EXPECT_EQ(tape.size(), 2u);
  tape.backward(y, tensor_of({1, 10}));
  EXPECT_EQ(doubles(x.grad()), (Doubles{4, 40}));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_FALSE(y.grad().defined()) << "gradients of results are used up";
}

TEST(Tape, SkipsNodesWithoutGradient) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  int used = 0, unused = 0;
  Variable x(tensor_of({1}), true);
  Variable y = twice(ctx, x, &used);
  Variable side = twice(ctx, y, &unused);
  Variable later = twice(ctx, side, &unused);
  tape.backward(y);
  EXPECT_EQ(used, 1);
  EXPECT_EQ(unused, 0);
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_EQ(doubles(x.grad()), (Doubles{2}));
}

TEST(Tape, SumsGradientsOfAllUses) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  int runs = 0;
  Variable x(tensor_of({3}), true);
  Variable y = add(ctx, twice(ctx, x, &runs), mul(ctx, x, x));
  tape.backward(y);
  EXPECT_EQ(doubles(x.grad()), (Doubles{2 + 2 * 3}));
  // A second backward pass adds to the gradient.
  Variable z = twice(ctx, x, &runs);
  tape.backward(z);
  EXPECT_EQ(doubles(x.grad()), (Doubles{10}));
}

TEST(Tape, FreesSavedTensorsAfterNodeRuns) {
  constexpr std::int64_t kBytes = 1 << 20;
  std::vector<std::size_t> in_use;
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable x(tensor_of({1}), true), y = x;
  std::size_t before = allocator_stats().bytes_in_use;
  for (int i = 0; i < 4; ++i) {
    Tensor saved = Tensor::zeros({kBytes / 8}, DType::kFloat64);
    Variable previous = y;
    y = ctx.record("saves a megabyte", tensor_of({1}), {&previous},
                   [saved, &in_use, dx = previous.sink()](const Tensor& dy) {
                     in_use.push_back(allocator_stats().bytes_in_use);
                     dx->accumulate(dy);
                   });
  }
  EXPECT_GE(allocator_stats().bytes_in_use, before + 4 * kBytes);
  tape.backward(y);
  ASSERT_EQ(in_use.size(), 4u);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GE(in_use[i - 1], in_use[i] + kBytes);
  EXPECT_LT(allocator_stats().bytes_in_use, before + kBytes);
}

TEST(Tape, FreesUnsavedIntermediateValues) {
  constexpr std::int64_t kCount = 1 << 17;  // a megabyte of float64
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable x(Tensor::full({kCount}, DType::kFloat64, 1), true);
  std::size_t before = allocator_stats().bytes_in_use;
  int runs = 0;
  Variable y = x;
  for (int i = 0; i < 8; ++i) y = twice(ctx, y, &runs);  // saves nothing
  EXPECT_LT(allocator_stats().bytes_in_use, before + 2 * kCount * 8);
}

TEST(Tape, RejectsInvalidStart) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  int runs = 0;
  EXPECT_THROW(tape.backward(Variable(tensor_of({1}))), Error) << "nothing trainable";
  Variable y = twice(ctx, Variable(tensor_of({1, 2}), true), &runs);
  EXPECT_THROW(tape.backward(y), Error) << "two elements and no seed";
  EXPECT_THROW(tape.backward(y, tensor_of({1, 2, 3})), Error) << "a seed of another shape";
}

TEST(Tape, ErrorNamesFailedOperation) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable x(tensor_of({1}), true);
  Variable y =
      ctx.record("fragile", tensor_of({1}), {&x}, [](const Tensor&) { throw Error("broke"); });
  try {
    tape.backward(y);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("fragile"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("broke"), std::string::npos);
  }
}

TEST(Recording, NeedsTapeAndInputThatRequiresGradient) {
  Tape tape;
  Context ctx;
  int runs = 0;
  Variable trainable(tensor_of({1}), true), constant(tensor_of({1}));
  EXPECT_FALSE(twice(ctx, trainable, &runs).requires_grad()) << "no tape";
  ctx.tape = &tape;
  EXPECT_FALSE(twice(ctx, constant, &runs).requires_grad());
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_TRUE(twice(ctx, trainable, &runs).requires_grad());
  EXPECT_EQ(tape.size(), 1u);
  // An absent input, for example the bias of a layer without bias, needs no gradient.
  Variable absent;
  EXPECT_TRUE(
      ctx.record("mixed", tensor_of({1}), {&absent, nullptr, &trainable}, [](const Tensor&) {})
          .requires_grad());
  EXPECT_FALSE(
      ctx.record("none", tensor_of({1}), {&absent, nullptr}, [](const Tensor&) {}).requires_grad());
}

// --- GradSlot -----------------------------------------------------------------------------------

TEST(GradSlot, StoresFirstGradientWithoutCopy) {
  GradSlot slot;
  Tensor g = tensor_of({1, 2});
  const void* memory = g.raw();
  slot.accumulate(std::move(g));
  EXPECT_EQ(slot.get().raw(), memory);
}

TEST(GradSlot, AddsInPlaceToOwnedMemory) {
  GradSlot slot;
  slot.accumulate(tensor_of({1, 2}));
  const void* memory = slot.get().raw();
  Tensor g = tensor_of({10, 20});
  slot.accumulate(g);
  EXPECT_EQ(slot.get().raw(), memory);
  EXPECT_EQ(doubles(slot.get()), (Doubles{11, 22}));
  EXPECT_EQ(doubles(g), (Doubles{10, 20}));
}

TEST(GradSlot, NeverWritesToSharedMemory) {
  GradSlot slot;
  Tensor first = tensor_of({1, 2}), second = tensor_of({10, 20});
  slot.accumulate(first);
  slot.accumulate(second);
  EXPECT_EQ(doubles(slot.get()), (Doubles{11, 22}));
  EXPECT_EQ(doubles(first), (Doubles{1, 2}));
  EXPECT_EQ(doubles(second), (Doubles{10, 20}));
  // The slot takes over the memory of the new gradient if nothing else refers to it.
  GradSlot other;
  other.accumulate(first);
  Tensor last = tensor_of({5, 5});
  const void* memory = last.raw();
  other.accumulate(std::move(last));
  EXPECT_EQ(other.get().raw(), memory);
  EXPECT_EQ(doubles(first), (Doubles{1, 2}));
  // The slot owns a buffer that others add to, even if its first gradient was shared.
  GradSlot shared;
  shared.accumulate(first);
  shared.buffer({2}, DType::kFloat64, kCpu).data<double>()[0] += 100;
  EXPECT_EQ(doubles(first), (Doubles{1, 2}));
  EXPECT_EQ(doubles(shared.get()), (Doubles{101, 2}));
}

TEST(GradSlot, BoundSlotAccumulatesInPlace) {
  Tensor flat = Tensor::zeros({4}, DType::kFloat64);
  GradSlot slot;
  slot.bind(flat.slice(1, 3));
  slot.accumulate(tensor_of({1, 2}));
  slot.buffer({2}, DType::kFloat64, kCpu).data<double>()[1] += 5;
  slot.accumulate(tensor_of({10, 20}));
  EXPECT_EQ(doubles(flat), (Doubles{0, 11, 27, 0}));
}

TEST(GradSlot, RejectsGradientOfAnotherShapeOrType) {
  GradSlot slot;
  slot.accumulate(tensor_of({1, 2}));
  EXPECT_THROW(slot.accumulate(tensor_of({1, 2, 3})), Error);
  EXPECT_THROW(slot.accumulate(Tensor::zeros({2}, DType::kFloat32)), Error);
}

// --- checkpoint ---------------------------------------------------------------------------------

struct CheckpointRun {
  Doubles y, dx, dw;
  int forwards = 0, recomputes = 0;
};

// y = piece(g), g = 3 x, with piece(v) = w v + v^2.
CheckpointRun run(bool checkpointed, bool x_trains) {
  CheckpointRun result;
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable x(tensor_of({1, 2}), x_trains), w(tensor_of({5, 7}), true);
  auto piece = [&result, w](Context& c, const Variable& v) {
    ++result.forwards;
    result.recomputes += c.mode.recompute;
    return add(c, mul(c, w, v), mul(c, v, v));
  };
  Variable g = scaled(ctx, x, 3);
  Variable y = checkpointed ? checkpoint(ctx, g, piece) : piece(ctx, g);
  EXPECT_TRUE(!checkpointed || tape.size() == (x_trains ? 2u : 1u)) << "saved inside the piece";
  result.y = doubles(y.value());
  tape.backward(y, tensor_of({1, 10}));
  if (x_trains) result.dx = doubles(x.grad());
  result.dw = doubles(w.grad());
  return result;
}

TEST(Checkpoint, NotRecordedWithoutTrainableInput) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y = checkpoint(ctx, Variable(tensor_of({1, 2})),
                                [](Context& c, const Variable& v) { return mul(c, v, v); });
  EXPECT_EQ(doubles(y.value()), (Doubles{1, 4}));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(tape.size(), 0u);
}

TEST(Checkpoint, RecomputesAndGivesSameGradients) {
  for (bool x_trains : {true, false}) {
    CheckpointRun saved = run(false, x_trains), again = run(true, x_trains);
    EXPECT_EQ(saved.y, again.y);
    EXPECT_EQ(saved.dx, again.dx);
    EXPECT_EQ(saved.dw, again.dw);
    EXPECT_EQ(saved.forwards, 1);
    EXPECT_EQ(again.forwards, 2);
    EXPECT_EQ(again.recomputes, 1) << "the second run must know that it is one";
  }
}

TEST(Checkpoint, AccumulatesIntoExistingGradient) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable x(tensor_of({3}), true);
  auto square = [](Context& c, const Variable& v) { return mul(c, v, v); };
  Variable inside = checkpoint(ctx, x, square);
  Variable y = add(ctx, inside, scaled(ctx, x, 100));
  tape.backward(y);
  EXPECT_EQ(doubles(x.grad()), (Doubles{106}));
}

TEST(Checkpoint, WithoutTapeRunsFunctionOnce) {
  Context ctx;
  int calls = 0;
  Variable y = checkpoint(ctx, Variable(tensor_of({3}), true), [&](Context& c, const Variable& v) {
    ++calls;
    return mul(c, v, v);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(doubles(y.value()), (Doubles{9}));
}

// --- Variable -----------------------------------------------------------------------------------

TEST(Variable, ConvertsToRequestedType) {
  Variable v(Tensor::from<float>(std::vector<float>{1.0f, 1.00390625f}, {2}), true);
  EXPECT_EQ(v.value_as(DType::kFloat32).raw(), v.value().raw());
  EXPECT_EQ(doubles(v.value_as(DType::kBFloat16)), (Doubles{1, 1}));
  Tensor copy = as(tensor_of({8, 9}), DType::kBFloat16);
  v.set_low_precision_copy(copy);
  EXPECT_EQ(v.value_as(DType::kBFloat16).raw(), copy.raw());
  EXPECT_FALSE(Variable().value_as(DType::kFloat32).defined());
}

TEST(Variable, ReshapeSharesGradient) {
  Variable v(Tensor::zeros({2, 3}, DType::kFloat32), true);
  v.set_low_precision_copy(Tensor::zeros({2, 3}, DType::kBFloat16));
  Variable flat = v.reshaped({6});
  EXPECT_EQ(flat.sink(), v.sink());
  EXPECT_EQ(flat.value().raw(), v.value().raw());
  EXPECT_EQ(flat.value_as(DType::kBFloat16).shape(), Shape({6}));
}

}  // namespace
}  // namespace dtn
