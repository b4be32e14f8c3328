// The loader and the feeder carry all fields of a source.
#include "data/feed/field_buffers.h"
#include "data_fixtures.h"
#include "two_views.h"

namespace dtn {
namespace {

using namespace dtn::test;

TEST(CustomFields, TrainOnCpu) { expect_views_in_training(kCpu); }
TEST(CustomFields, EvaluateOnCpu) { expect_views_in_evaluation(kCpu); }

// Validates the tests above: the lengths differ, and include 0 and the maximum.
TEST(CustomFields, SupportVaryingLengths) {
  std::set<std::size_t> lengths;
  for (std::int64_t i = 0; i < 50; ++i) lengths.insert(view_of(i, {5, 0, 0}).words.size() / 2);
  EXPECT_EQ(lengths, (std::set<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST(CustomFields, BatchHoldsOnlyFieldsOfSource) {
  const auto views = std::make_shared<TwoViews>(8, false, std::set<std::int64_t>{});
  Loader loader(views, LoaderOptions{});
  loader.start(0);
  Batch batch;
  batch.fields["image"] = Tensor::zeros({1}, DType::kFloat32);  // left by another loader
  ASSERT_TRUE(loader.next(batch));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : batch.fields) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"far", "near", "words", "words.lengths", "id"}));
}

TEST(FieldRow, WritesOnlyItsRow) {
  Fields fields{{"a", Tensor::zeros({3, 2}, DType::kFloat32)},
                {"b", Tensor::full({3, 4, 2}, DType::kInt64, 9)},
                {"b.lengths", Tensor::full({3}, DType::kInt64, 9)}};
  FieldRow row(fields, 1);
  std::ranges::fill(row.at<float>("a"), 7.0f);
  EXPECT_TRUE(
      std::ranges::equal(fields.at("a").values<float>(), std::vector<float>{0, 0, 7, 7, 0, 0}));
  std::ranges::fill(row.ragged<std::int64_t>("b", 3), 5);
  EXPECT_TRUE(std::ranges::equal(fields.at("b").slice(1, 2).values<std::int64_t>(),
                                 std::vector<std::int64_t>{5, 5, 5, 5, 5, 5, 0, 0}));
  EXPECT_TRUE(std::ranges::equal(fields.at("b.lengths").values<std::int64_t>(),
                                 std::vector<std::int64_t>{9, 3, 9}));
  EXPECT_EQ(fields.at("b").data<std::int64_t>()[7], 9);
  EXPECT_EQ(fields.at("b").data<std::int64_t>()[16], 9);
  expect_error<Error>([&] { row.at<std::int64_t>("b"); }, {"'b' is ragged"});
  expect_error<Error>([&] { row.ragged<std::int64_t>("b", 5); }, {"'b'", "4 rows, not 5"});
  expect_error<Error>([&] { row.ragged<std::int64_t>("b", -1); }, {"4 rows, not -1"});
  expect_error<Error>([&] { row.ragged<float>("a", 1); }, {"no field 'a.lengths'"});
  expect_error<Error>([&] { row.at<std::int64_t>("a"); }, {"float32"});
  expect_error<Error>([&] { row.at<float>("c"); }, {"no field 'c'", "a, b, b.lengths"});
}

TEST(FieldSpecs, RejectInvalidSpecs) {
  EXPECT_EQ(with_lengths({kWords, kId}),
            (std::vector<FieldSpec>{kWords, {"words.lengths", {}, DType::kInt64}, kId}));
  expect_error<Error>([&] { with_lengths({kId, kFar, kId}); }, {"'id' appears 2 times"});
  expect_error<Error>(
      [&] {
        with_lengths({kWords, {"words.lengths", {}, DType::kInt64}});
      },
      {"'words.lengths' appears 2 times"});
  expect_error<Error>([&] { with_lengths({{"", {}, DType::kInt64}}); }, {"a field has no name"});
  expect_error<Error>(
      [&] {
        with_lengths({{"x", {}, DType::kInt64, true}});
      },
      {"'x' is ragged, so it cannot have scalar rows"});
  expect_error<Error>(
      [&] {
        allocate_rows({"x", {1, 1, 1, 1, 1, 1}, DType::kInt64}, 2, kCpu);
      },
      {"field 'x'"});
}

// A source with a device field that is no host field and has no finisher.
class Forgetful final : public SampleSource {
 public:
  std::int64_t size() const override { return 1; }
  const std::string& description() const override { return description_; }
  std::string sample_name(std::int64_t) const override { return "one"; }
  std::vector<FieldSpec> host_fields() const override { return {kId}; }
  std::vector<FieldSpec> device_fields() const override { return {kId, kNear}; }
  void make(std::int64_t, const SampleKey&, FieldRow& row, Workspace&) const override {
    row.at<std::int64_t>("id")[0] = 0;
  }

 private:
  std::string description_ = "a forgetful source";
};

TEST(CustomFields, ErrorNamesFieldMissingInSource) {
  Loader loader(std::make_shared<Forgetful>(), LoaderOptions{});
  expect_error<Error>([&] { BatchFeeder(loader, kCpu); }, {"a forgetful source", "'near'"});
}

}  // namespace
}  // namespace dtn
