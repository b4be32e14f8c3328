// Balanced draws from a data set, and reading only the drawn samples.
#include "data/classes/draw_over_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data/feed/chosen_samples.h"
#include "data/feed/loader.h"

namespace dtn {
namespace {

using Numbers = std::vector<std::int64_t>;

// Labels of a sorted folder: `each` samples of class 0, then of class 1, and so on.
Numbers sorted_labels(std::int64_t classes, std::int64_t each) {
  Numbers labels;
  for (std::int64_t c = 0; c < classes; ++c) labels.insert(labels.end(), each, c);
  return labels;
}

std::map<std::int64_t, std::int64_t> counts(const Numbers& drawn, const Numbers& labels) {
  std::map<std::int64_t, std::int64_t> of_class;
  for (const std::int64_t i : drawn) ++of_class[labels.at(static_cast<std::size_t>(i))];
  return of_class;
}

TEST(DrawOverClasses, TakesAsManyOfEachClass) {
  const Numbers labels = sorted_labels(10, 50);
  const Numbers drawn = draw_over_classes(labels, 64, 0);
  EXPECT_EQ(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 64u);
  const auto of_class = counts(drawn, labels);
  EXPECT_EQ(of_class.size(), 10u);
  for (const auto& [label, n] : of_class) EXPECT_TRUE(n == 6 || n == 7) << label << ": " << n;
}

TEST(DrawOverClasses, TakesDifferentClassesIfThereAreMore) {
  const Numbers labels = sorted_labels(1000, 5);
  EXPECT_EQ(counts(draw_over_classes(labels, 64, 3), labels).size(), 64u);
}

TEST(DrawOverClasses, DependsOnSeedAlone) {
  const Numbers labels = sorted_labels(10, 50);
  const Numbers drawn = draw_over_classes(labels, 64, 5);
  EXPECT_EQ(draw_over_classes(labels, 64, 5), drawn);
  EXPECT_NE(draw_over_classes(labels, 64, 6), drawn);
  const Numbers fewer = draw_over_classes(labels, 7, 5);
  EXPECT_EQ(fewer, Numbers(drawn.begin(), drawn.begin() + 7)) << "a smaller draw is a beginning";
}

TEST(DrawOverClasses, FillsUpWhenClassesAreUsedUp) {
  Numbers labels = sorted_labels(2, 20);
  labels.push_back(2);  // one sample
  const auto of_class = counts(draw_over_classes(labels, 31, 1), labels);
  EXPECT_EQ(of_class, (std::map<std::int64_t, std::int64_t>{{0, 15}, {1, 15}, {2, 1}}));
  Numbers all = draw_over_classes(labels, 100, 1);
  std::ranges::sort(all);
  Numbers wanted(labels.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(all, wanted);
}

// Without classes it is a plain random draw: not the beginning of the data.
TEST(DrawOverClasses, OneClassIsDrawnAtRandom) {
  const Numbers drawn = draw_over_classes(Numbers(10000, 0), 64, 0);
  EXPECT_EQ(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 64u);
  EXPECT_GT(std::ranges::count_if(drawn, [](std::int64_t i) { return i >= 5000; }), 10);
  EXPECT_TRUE(draw_over_classes({}, 64, 0).empty());
}

// A source that knows which of its samples were read.
class Watched final : public SampleSource {
 public:
  std::int64_t size() const override { return 1000; }
  const std::string& description() const override { return description_; }
  std::vector<FieldSpec> host_fields() const override { return {{"value", {}, DType::kInt64}}; }
  void make(std::int64_t index, const SampleKey&, FieldRow& row, Workspace&) const override {
    row.at<std::int64_t>("value")[0] = index;
    read_.push_back(index);
  }
  const Numbers& read() const { return read_; }

 private:
  std::string description_ = "watched";
  mutable Numbers read_;  // the loader has no other threads
};

TEST(ChosenSamples, ReadNoOthers) {
  const auto whole = std::make_shared<Watched>();
  const Numbers places = {700, 3, 999, 20, 4};
  const auto chosen = std::make_shared<ChosenSamples>(whole, places);
  EXPECT_EQ(chosen->description(), "5 samples from watched");
  EXPECT_EQ(chosen->sample_name(2), whole->sample_name(999));
  LoaderOptions options;
  options.batch_size = 2;
  Loader loader(chosen, options);
  Numbers values;
  Batch batch;
  for (loader.start(0); loader.next(batch);) {
    const auto rows = batch.fields.at("value").values<std::int64_t>();
    values.insert(values.end(), rows.begin(), rows.begin() + batch.n);
  }
  EXPECT_EQ(values, places);
  EXPECT_EQ(whole->read(), places);
}

}  // namespace
}  // namespace dtn
