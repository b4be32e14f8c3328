// One list of the state of a run, for saving, restoring and sharing.
#include "train/state_dict.h"

#include <cmath>
#include <limits>

#include "small_run.h"

namespace dtn {
namespace {

using namespace dtn::test;

Tensor tensor_of(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// State of every kind.
struct Things {
  Tensor first = tensor_of({1, 2, 3}), second = Tensor::full({2, 2}, DType::kInt64, 4);
  std::int64_t count = 7;
  double figure = 0.1;

  StateDict bound() {
    StateDict state;
    state.bind("first", first);
    state.bind(NamedTensors{{"second", second}});
    state.bind("count", count);
    state.bind("figure", figure, "old_figure");
    return state;
  }
};

// Returns the message of E; empty if E is not thrown.
template <class E>
std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

TEST(StateDict, RefersToLiveValues) {
  Things things;
  const StateDict state = things.bound();
  things.first.data<float>()[1] = 20;
  things.count = 8;
  const NamedTensors tensors = state.tensors();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].first, "first");
  EXPECT_EQ(doubles(tensors[0].second), (Doubles{1, 20, 3}));
  EXPECT_EQ(tensors[1].first, "second");
  EXPECT_EQ(state.numbers().at("count"), "8");
}

TEST(StateDict, RoundTrips) {
  Things from, to;
  from.first = tensor_of({-1, 0.5f, 1e-30f});
  from.second = Tensor::full({2, 2}, DType::kInt64, -9);
  from.count = std::numeric_limits<std::int64_t>::min();
  const float* memory = to.first.data<float>();
  for (double figure : {0.1, 1.0 / 3, -0.0, 5e-324, 1.7976931348623157e308, 71.25}) {
    from.figure = figure;
    const StateDict state = from.bound();
    to.bound().load(state.tensors(), state.numbers(), "file");
    EXPECT_TRUE(same_bits(to.first, from.first));
    EXPECT_TRUE(same_bits(to.second, from.second));
    EXPECT_EQ(to.count, from.count);
    EXPECT_EQ(std::memcmp(&to.figure, &figure, sizeof figure), 0) << figure;
  }
  EXPECT_EQ(to.first.data<float>(), memory) << "whoever holds the tensor sees it";
}

TEST(StateDict, ReadsOldNamesOfNumbers) {
  Things things;
  const NamedTensors tensors = things.bound().tensors();
  things.bound().load(tensors, {{"count", "3"}, {"old_figure", "2.5"}}, "file");
  EXPECT_EQ(things.figure, 2.5);
  things.bound().load(tensors, {{"count", "3"}, {"old_figure", "2.5"}, {"figure", "3.5"}}, "file");
  EXPECT_EQ(things.figure, 3.5);
  EXPECT_EQ(things.bound().numbers().count("old_figure"), 0u) << "it is not written any more";
}

TEST(StateDict, RejectsTensorsOfAnotherConfiguration) {
  const StringMap numbers = Things().bound().numbers();
  const auto refused = [&](const NamedTensors& tensors) {
    Things things;
    return refusal<ConfigError>([&] { things.bound().load(tensors, numbers, "state.file"); });
  };
  const Tensor first = tensor_of({1, 2, 3}), second = Tensor::full({2, 2}, DType::kInt64, 4);
  EXPECT_EQ(refused({{"first", first}, {"second", second}}), "");
  EXPECT_EQ(refused({{"second", second}, {"first", first}}), "") << "in any order";
  const std::vector<std::pair<std::string, NamedTensors>> wrong = {
      {"too few", {{"first", first}}},
      {"too many", {{"first", first}, {"second", second}, {"third", first}}},
      {"another name", {{"first", first}, {"third", second}}},
      {"another shape", {{"first", tensor_of({1, 2})}, {"second", second}}},
      {"another type", {{"first", as(first, DType::kFloat64)}, {"second", second}}}};
  for (const auto& [what, tensors] : wrong) {
    const std::string why = refused(tensors);
    EXPECT_NE(why.find("state.file"), std::string::npos) << what << ": " << why;
    EXPECT_NE(why.find("another config"), std::string::npos) << what << ": " << why;
  }
}

TEST(StateDict, RejectsInvalidNumbers) {
  Things things;
  const NamedTensors tensors = things.bound().tensors();
  const auto refused = [&](const StringMap& numbers) {
    return refusal<DataError>([&] { things.bound().load(tensors, numbers, "file"); });
  };
  EXPECT_EQ(refused({{"count", "3"}, {"figure", "1e3"}}), "");
  EXPECT_EQ(refused({{"count", "3"}}), "checkpoint: the state has no 'figure'");
  for (const char* text : {"", "x", "3.5", "3 ", "99999999999999999999"}) {
    EXPECT_EQ(refused({{"count", text}, {"figure", "1"}}),
              cat("checkpoint: the state has an invalid number: count = '", text, "'"));
  }
  EXPECT_EQ(refused({{"count", "3"}, {"figure", "1,5"}}),
            "checkpoint: the state has an invalid number: figure = '1,5'");
}

TEST(StateDict, BroadcastsStateOfFirstRank) {
  const auto ranks = on_ranks(3, [](Communicator& communicator) {
    Things things;
    if (communicator.is_root()) {
      things = {tensor_of({5, 6, 7}), Tensor::full({2, 2}, DType::kInt64, -1),
                std::numeric_limits<std::int64_t>::max(), 1.0 / 3};
    }
    things.bound().broadcast(communicator);
    return things;
  });
  for (const Things& things : ranks) {
    EXPECT_EQ(doubles(things.first), (Doubles{5, 6, 7}));
    EXPECT_EQ(things.second.data<std::int64_t>()[3], -1);
    EXPECT_EQ(things.count, std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(things.figure, 1.0 / 3);
  }
}

}  // namespace
}  // namespace dtn
