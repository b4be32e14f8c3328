// The average of the parameters of a teacher, with a decay that changes from step to step.
#include <limits>

#include "take_step.h"
#include "tensors.h"

namespace dtn {
namespace {

using test::element;

void build(ParameterStore& store, std::uint32_t stream) {
  store.add("weight", {70, 31}, InitKind::kZeros, Decay::kYes);
  store.add("bias", {5}, InitKind::kZeros, Decay::kNo);
  Buffer* mean = store.add_buffer("mean", {4}, InitKind::kZeros);
  store.allocate();
  store.enable_bfloat16();
  for (Parameter& p : store.parameters()) {
    test::assign(p.variable.value(), test::random_tensor(p.shape, stream++));
  }
  test::assign(mean->value, test::random_tensor(mean->shape, stream));
  store.refresh_bfloat16();
}

TEST(AverageParametersInto, ReadsDecayAndLeavesBuffers) {
  ParameterStore teacher, student;
  build(teacher, 1);
  build(student, 11);
  const Tensor buffer = teacher.buffers().front().value.clone();
  const UpdateState state = test::update_state(1);
  test::Doubles want = test::doubles(teacher.values().slice(0, teacher.flat_size()));
  const test::Doubles from = test::doubles(student.values());
  double decay = 0;
  for (double next : {0.75, 0.996, 0.0}) {
    decay = next;
    average_parameters_into(teacher, student, &decay, &state);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = next * want[i] + (1 - next) * from[i];
    const Tensor parameters = teacher.values().slice(0, teacher.flat_size());
    EXPECT_LE(test::max_abs_difference(test::doubles(parameters), want),
              6 * test::unit_roundoff(DType::kFloat32));
    EXPECT_TRUE(test::same_bits(teacher.bfloat16_values(), test::as(parameters, DType::kBFloat16)));
  }
  EXPECT_TRUE(test::same_bits(teacher.buffers().front().value, buffer));
}

// A product would turn -0 into 0, and a NaN of the student would spread.
TEST(AverageParametersInto, KeepsEveryBitWithDecayOneOrASkippedUpdate) {
  ParameterStore teacher, student;
  build(teacher, 1);
  build(student, 11);
  teacher.values().data<float>()[3] = -0.0f;
  student.values().data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor before = teacher.values().clone();
  UpdateState state = test::update_state(1);
  double decay = 1;
  average_parameters_into(teacher, student, &decay, &state);
  EXPECT_TRUE(test::same_bits(teacher.values(), before));
  decay = 0.5;
  state.finite = 0;
  average_parameters_into(teacher, student, &decay, &state);
  EXPECT_TRUE(test::same_bits(teacher.values(), before));
  state.finite = 1;
  average_parameters_into(teacher, student, &decay, &state);
  EXPECT_FALSE(test::same_bits(teacher.values(), before));
}

// A teacher may start with other values than the student, such as those of a public file.
TEST(AverageParametersInto, AveragesFrozenValues) {
  ParameterStore teacher, student;
  build(teacher, 1);
  build(student, 11);
  student.freeze([](const Parameter& p) { return p.name == "weight"; }, false);
  const double decay = 0.75, weight = element(teacher.find("weight")->variable.value(), 9);
  const double wanted = element(student.find("weight")->variable.value(), 9);
  average_parameters_into(teacher, student, &decay);
  EXPECT_NEAR(element(teacher.find("weight")->variable.value(), 9), 0.75 * weight + 0.25 * wanted,
              1e-6);
}

// Rounded products would move values that are already equal.
TEST(AverageParametersInto, KeepsEqualValues) {
  ParameterStore teacher, student;
  build(teacher, 1);
  build(student, 1);
  const Tensor before = teacher.values().clone();
  for (const double decay : {0.996, 0.9, 0.3}) average_parameters_into(teacher, student, &decay);
  EXPECT_TRUE(test::same_bits(teacher.values(), before));
}

TEST(AverageParametersInto, RejectsStoresOfOtherSize) {
  ParameterStore teacher, student;
  build(teacher, 1);
  student.add("weight", {3}, InitKind::kZeros, Decay::kYes);
  student.allocate();
  const double decay = 0.5;
  EXPECT_THROW(average_parameters_into(teacher, student, &decay), Error);
}

}  // namespace
}  // namespace dtn
