// A parameter reports a complete gradient after the backward pass of its last use.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "dtn/autograd/context.h"
#include "small_operations.h"

namespace dtn {
namespace {

using namespace dtn::test;

// One report of a complete gradient, with its value at that time.
struct Report {
  std::string name;
  Doubles gradient;
};
using Log = std::vector<Report>;

// A parameter as in ParameterStore: its gradient accumulates in a bound buffer.
Variable parameter(Log& log, const std::string& name, const std::vector<double>& values) {
  Variable v(tensor_of(values), true);
  v.sink()->bind(Tensor::zeros(v.shape(), DType::kFloat64));
  v.sink()->on_grad_ready([&log, name, slot = v.sink().get()] {
    log.push_back({name, doubles(slot->get())});
  });
  return v;
}

class GradientUses : public ::testing::Test {
 protected:
  GradientUses() { ctx.tape = &tape; }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Report& report : log) all.push_back(report.name);
    return all;
  }
  // Expects one report for each parameter, with the final gradient.
  void expect_reported(const std::vector<std::string>& order) {
    EXPECT_EQ(names(), order);
    for (const Report& report : log) {
      EXPECT_EQ(report.gradient, doubles((report.name == "w" ? w : v).grad())) << report.name;
    }
    EXPECT_EQ(w.sink()->uses(), 0);
    EXPECT_EQ(v.sink()->uses(), 0);
  }

  Log log;
  Variable w = parameter(log, "w", {5, 7}), v = parameter(log, "v", {2, 3});
  Variable x{tensor_of({1, 10}), true};
  Tape tape;
  Context ctx;
};

TEST_F(GradientUses, LastUseCompletesGradient) {
  Variable y = mul(ctx, mul(ctx, v, mul(ctx, w, x)), w);
  EXPECT_EQ(w.sink()->uses(), 2);
  EXPECT_EQ(v.sink()->uses(), 1);
  tape.backward(y, tensor_of({1, 1}));
  expect_reported({"v", "w"});
  EXPECT_EQ(doubles(w.grad()), (Doubles{20, 420}));
  EXPECT_EQ(doubles(v.grad()), (Doubles{25, 490}));
}

TEST_F(GradientUses, CountTwiceInOperationWithItself) {
  Variable y = mul(ctx, w, w);
  EXPECT_EQ(w.sink()->uses(), 2);
  tape.backward(y, tensor_of({1, 1}));
  expect_reported({"w"});
  EXPECT_EQ(doubles(w.grad()), (Doubles{10, 14}));
}

TEST_F(GradientUses, CountParametersOnly) {
  Variable y = mul(ctx, w, x);
  EXPECT_EQ(x.sink()->uses(), 0);
  Context untaped;
  mul(untaped, w, x);
  EXPECT_EQ(w.sink()->uses(), 1) << "nothing was recorded";
  tape.backward(y, tensor_of({1, 1}));
  expect_reported({"w"});
}

TEST_F(GradientUses, SpanTwoForwardPasses) {
  for (int pass = 0; pass < 2; ++pass) {  // two training steps
    log.clear();
    Variable first = mul(ctx, v, mul(ctx, w, x));
    Variable second = mul(ctx, v, mul(ctx, w, Variable(tensor_of({3, 4}))));
    EXPECT_EQ(w.sink()->uses(), 2);
    EXPECT_EQ(v.sink()->uses(), 2);
    tape.backward(add(ctx, first, second), tensor_of({1, 1}));
    expect_reported({"v", "w"});
  }
}

TEST_F(GradientUses, SpanTwoTapes) {
  Tape other;
  Context beside;
  beside.tape = &other;
  Variable first = mul(ctx, w, x), second = mul(beside, w, x);
  tape.backward(first, tensor_of({1, 1}));
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(w.sink()->uses(), 1);
  other.backward(second, tensor_of({1, 1}));
  expect_reported({"w"});
}

// --- checkpoints --------------------------------------------------------------------------------

Variable piece_of(Context& c, const Variable& w, const Variable& v, const Variable& in) {
  return mul(c, w, mul(c, v, mul(c, w, in)));
}

TEST_F(GradientUses, IncludeUsesInsideCheckpoint) {
  const auto piece = [this](Context& c, const Variable& in) { return piece_of(c, w, v, in); };
  Variable below = mul(ctx, w, x);
  Variable inside = checkpoint(ctx, below, piece);
  EXPECT_EQ(w.sink()->uses(), 3) << "one below and two inside";
  EXPECT_EQ(v.sink()->uses(), 1);
  Variable y = mul(ctx, v, inside);
  EXPECT_EQ(v.sink()->uses(), 2);
  tape.backward(y, tensor_of({1, 1}));
  // v has a use above the checkpoint; it waits for its use inside.
  expect_reported({"v", "w"});
  Variable plain_w(tensor_of({5, 7}), true), plain_v(tensor_of({2, 3}), true);
  Variable plain = mul(ctx, plain_v, piece_of(ctx, plain_w, plain_v, mul(ctx, plain_w, x)));
  tape.backward(plain, tensor_of({1, 1}));
  EXPECT_EQ(doubles(w.grad()), doubles(plain_w.grad()));
  EXPECT_EQ(doubles(v.grad()), doubles(plain_v.grad()));
}

// The recomputed tape of the second checkpoint has ended all its uses when that checkpoint is done,
// but the uses of the first checkpoint are still to come.
TEST_F(GradientUses, SpanTwoCheckpoints) {
  const auto piece = [this](Context& c, const Variable& in) { return piece_of(c, w, v, in); };
  Variable y = checkpoint(ctx, checkpoint(ctx, x, piece), piece);
  EXPECT_EQ(w.sink()->uses(), 4);
  EXPECT_EQ(v.sink()->uses(), 2);
  tape.backward(y, tensor_of({1, 1}));
  expect_reported({"v", "w"});
}

TEST_F(GradientUses, SpanNestedCheckpoints) {
  const auto inner = [this](Context& c, const Variable& in) { return mul(c, w, in); };
  Variable y = checkpoint(ctx, x, [&](Context& c, const Variable& in) {
    return mul(c, v, checkpoint(c, mul(c, w, in), inner));
  });
  EXPECT_EQ(w.sink()->uses(), 2);
  EXPECT_EQ(v.sink()->uses(), 1);
  tape.backward(y, tensor_of({1, 1}));
  expect_reported({"w", "v"});
  EXPECT_EQ(doubles(w.grad()), (Doubles{20, 420}));  // 2 w v x
  EXPECT_EQ(doubles(v.grad()), (Doubles{25, 490}));
}

// --- operations without a gradient --------------------------------------------------------------

TEST_F(GradientUses, EndOnNodesWithoutGradient) {
  Variable y = mul(ctx, w, x);
  Variable side = mul(ctx, v, y);
  checkpoint(ctx, side, [this](Context& c, const Variable& in) { return mul(c, v, in); });
  EXPECT_EQ(v.sink()->uses(), 2);
  tape.backward(y, tensor_of({1, 1}));
  expect_reported({"v", "w"});
  EXPECT_EQ(doubles(v.grad()), (Doubles{0, 0}));
  EXPECT_EQ(doubles(w.grad()), (Doubles{1, 10}));
}

TEST_F(GradientUses, DropSilentlyWithAbandonedTape) {
  for (bool destroyed : {false, true}) {
    auto given_up = std::make_unique<Tape>();
    Context unfinished;
    unfinished.tape = given_up.get();
    Variable y = mul(unfinished, w, x);
    checkpoint(unfinished, y, [this](Context& c, const Variable& in) { return mul(c, v, in); });
    Variable kept = mul(ctx, w, x);
    EXPECT_EQ(w.sink()->uses(), 2);
    EXPECT_EQ(v.sink()->uses(), 1);
    if (destroyed) {
      given_up.reset();
    } else {
      given_up->clear();
      EXPECT_EQ(given_up->size(), 0u);
    }
    EXPECT_EQ(w.sink()->uses(), 1);
    EXPECT_EQ(v.sink()->uses(), 0);
    EXPECT_TRUE(log.empty());
    // The uses on another tape are unchanged.
    tape.backward(kept, tensor_of({1, 1}));
    EXPECT_EQ(names(), (std::vector<std::string>{"w"}));
    log.clear();
  }
}

// --- a tape that counts uses only ---------------------------------------------------------------

TEST_F(GradientUses, CountingTapeKeepsUsesOnly) {
  auto saved = std::make_shared<int>();
  Tape counting(Tape::Kind::kCountUses);
  ctx.tape = &counting;
  EXPECT_FALSE(ctx.recording());
  Variable y = ctx.record("saves", tensor_of({1, 2}), {&w, &x, &v, &w, nullptr},
                          [saved](const Tensor&) { FAIL() << "nothing was recorded"; });
  EXPECT_EQ(counting.size(), 0u);
  EXPECT_EQ(saved.use_count(), 1);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(w.sink()->uses(), 2);
  EXPECT_EQ(v.sink()->uses(), 1);
  // Uses of the result are counted too, although the result requires no gradient.
  mul(ctx, y, v);
  EXPECT_EQ(v.sink()->uses(), 2);

  const Tape::Uses uses = counting.take_uses();
  EXPECT_EQ(uses, (Tape::Uses{w.sink(), v.sink(), w.sink(), v.sink()}));
  counting.clear();  // changes nothing: the uses were handed over
  EXPECT_EQ(w.sink()->uses(), 2);
  for (const GradSink& used : uses) used->end_use();
  EXPECT_EQ(names(), (std::vector<std::string>{"w", "v"}));
}

TEST_F(GradientUses, DropWithCountingTapeUnlessTaken) {
  {
    Tape counting(Tape::Kind::kCountUses);
    ctx.tape = &counting;
    mul(ctx, w, v);
    EXPECT_EQ(w.sink()->uses(), 1);
  }
  EXPECT_EQ(w.sink()->uses(), 0);
  EXPECT_EQ(v.sink()->uses(), 0);
  EXPECT_TRUE(log.empty());
}

}  // namespace
}  // namespace dtn
