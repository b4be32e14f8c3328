// Numbers of samples of the classes, and messages about them.
#include "data/classes/class_counts.h"

#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Counts = std::vector<std::int64_t>;

TEST(ClassCounts, CountLabels) {
  EXPECT_EQ(class_counts(Counts{2, 0, 2, 2}), (Counts{1, 0, 3}));
  EXPECT_EQ(class_counts(Counts{2, 0, 2, 2}, 5), (Counts{1, 0, 3, 0, 0}));
  EXPECT_EQ(class_counts(Counts{2}, 1), (Counts{0, 0, 1}));
  EXPECT_EQ(class_counts(Counts{}, 2), (Counts{0, 0}));
}

TEST(ClassCounts, SpreadIsOfClassesWithSamples) {
  const ClassSpread spread = class_spread(Counts{0, 30, 3, 31, 3, 31, 0});
  EXPECT_EQ(spread.classes, 5);
  EXPECT_EQ(spread.smallest, 2);
  EXPECT_EQ(spread.fewest, 3);
  EXPECT_EQ(spread.largest, 3);
  EXPECT_EQ(spread.most, 31);
  EXPECT_TRUE(spread.is_uneven());
  EXPECT_TRUE(class_spread(Counts{1, 10}).is_uneven());
  EXPECT_FALSE(class_spread(Counts{2, 19}).is_uneven());
  EXPECT_FALSE(class_spread(Counts{0, 19}).is_uneven()) << "a single class";
  EXPECT_FALSE(class_spread(Counts{}).is_uneven());
}

TEST(ClassCounts, MessagesNameClasses) {
  EXPECT_EQ(balanced_text(class_spread(Counts{0, 12, 3402, 50}), "images"),
            "balanced over 3 classes of 12 to 3402 images");
  EXPECT_EQ(balanced_text(class_spread(Counts{7, 7}), "sequences"),
            "balanced over 2 classes of 7 sequences");
  const ClassSpread spread = class_spread(Counts{1, 40});
  EXPECT_EQ(uneven_text(spread, {"ant", "bee"}, "images", false),
            "very uneven: 'ant' has 1 image, 'bee' has 40; data.sampling: balanced draws all "
            "classes equally often");
  const std::string text = uneven_text(spread, {}, "images");
  expect_contains(text, "very uneven: class 0 has 1 image, class 1 has 40; ");
  expect_contains(text, ", train.class_weights: balanced weighs rare ones more in the loss");
  EXPECT_EQ(uneven_text(class_spread(Counts{5, 40}), {}, "images"), "");
}

TEST(ClassCounts, LabelsOfDataset) {
  ModelConfig model;
  model.image_size = 6;
  model.num_classes = 3;
  DataConfig data;
  data.dataset = "synthetic";
  data.size = 5;
  EXPECT_EQ(labels_of(*open_dataset(data, model, Split::kTrain, 1)), (Counts{0, 1, 2, 0, 1}));
}

}  // namespace
}  // namespace dtn
