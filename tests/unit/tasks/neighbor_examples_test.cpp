// Examples of nearest neighbours and their picture.
#include "tasks/frozen/neighbor_examples.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "tasks/frozen/neighbor_sheet.h"
#include "tasks/neighbors_meter.h"
#include "tensors.h"
#include "thread_ranks.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kClasses = 5, kWidth = 6;

// Rows [from, to) of random features; the label of row i is i mod 5.
Fields batch_of(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> labels, indices;
  for (std::int64_t i = from; i < to; ++i) {
    labels.push_back(i % kClasses);
    indices.push_back(i);
  }
  return {{"label", Tensor::from(labels, {to - from})},
          {"index", Tensor::from(indices, {to - from})}};
}
Fields outputs_of(std::uint32_t stream, std::int64_t from, std::int64_t to) {
  const Tensor all = as(random_tensor({60, kWidth}, stream), DType::kFloat32);
  return {{"features", all.slice(from, to)}};
}

// Adds the rows of a rank: of 60 references and 40 queries.
void fill(NeighborsMeter& meter, std::int64_t rank, std::int64_t ranks) {
  const auto share = [&](std::int64_t rows, std::int64_t r) { return rows * r / ranks; };
  const std::int64_t a = share(60, rank), b = share(60, rank + 1);
  meter.add_reference(batch_of(a, b), outputs_of(1, a, b));
  const std::int64_t c = share(40, rank), d = share(40, rank + 1);
  meter.add(batch_of(c, d), outputs_of(2, c, d));
}

void expect_same(const SimilarSample& a, const SimilarSample& b) {
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.similarity, b.similarity);
}

TEST(NeighborExamples, CoverClassesEvenlyWithNearestFirst) {
  NeighborsMeter meter;
  EXPECT_TRUE(meter.examples().empty());
  fill(meter, 0, 1);
  Communicator single;
  meter.merge(single);
  const std::vector<NeighborExample> examples = meter.examples();
  ASSERT_EQ(examples.size(), 12u);
  std::map<std::int64_t, int> classes;
  const Tensor bank = outputs_of(1, 0, 60).at("features"),
               asked = outputs_of(2, 0, 40).at("features");
  const NearestNeighbors neighbors(bank, batch_of(0, 60).at("label"));
  for (std::size_t e = 0; e < examples.size(); ++e) {
    const NeighborExample& example = examples[e];
    const std::int64_t row = example.sample.index;
    EXPECT_EQ(example.sample.label, row % kClasses);
    const std::size_t before = e > 0 ? e - 1 : 0;
    EXPECT_LE(examples[before].sample.label, example.sample.label);
    ++classes[*example.sample.label];
    const Neighbors found = neighbors.find(asked.slice(row, row + 1));
    EXPECT_EQ(example.vote, found.ranking.data<std::int64_t>()[0]);
    ASSERT_EQ(example.nearest.size(), 5u);
    for (std::int64_t i = 0; i < 5; ++i) {
      const std::int64_t at = found.indices.data<std::int64_t>()[i];
      expect_same(example.nearest[static_cast<std::size_t>(i)],
                  {at, at % kClasses, found.similarities.data<float>()[i]});
    }
  }
  ASSERT_EQ(classes.size(), 5u);
  for (const auto& [label, count] : classes) EXPECT_GE(count, 2) << label;
}

TEST(NeighborExamples, RanksChangeNothing) {
  NeighborsMeter alone;
  fill(alone, 0, 1);
  Communicator single;
  alone.merge(single);
  const std::vector<NeighborExample> expected = alone.examples();
  ASSERT_EQ(expected.size(), 12u);
  for (const int size : {2, 3}) {
    testing::with_ranks(size, [&](Communicator& ranks) {
      NeighborsMeter meter;
      fill(meter, ranks.rank(), size);
      meter.merge(ranks);
      const std::vector<NeighborExample> examples = meter.examples();
      ASSERT_EQ(examples.size(), expected.size());
      for (std::size_t e = 0; e < examples.size(); ++e) {
        expect_same(examples[e].sample, expected[e].sample);
        EXPECT_EQ(examples[e].vote, expected[e].vote);
        for (std::size_t i = 0; i < 5; ++i) {
          expect_same(examples[e].nearest[i], expected[e].nearest[i]);
        }
      }
    });
  }
}

TEST(NeighborExamples, NeedNoLabels) {
  const std::vector<std::int64_t> indices(30, 7);
  const std::vector<std::int64_t> rows = example_rows({indices, {}});
  EXPECT_EQ(rows.size(), 12u);
  const Neighbors found{Tensor::from(std::vector<std::int64_t>{1, 0}, {1, 2}),
                        Tensor::from(std::vector<float>{0.5F, 0.25F}, {1, 2}),
                        Tensor::from(std::vector<std::int64_t>{3}, {1, 1})};
  const std::vector<std::int64_t> bank_indices{10, 20}, bank_labels{3, 4}, first{0};
  const auto examples = neighbor_examples(found, first, {indices, {}}, {bank_indices, bank_labels});
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_FALSE(examples[0].sample.label);
  ASSERT_EQ(examples[0].nearest.size(), 2u) << "there are only two references";
  expect_same(examples[0].nearest[0], {20, 4, 0.5});
  EXPECT_EQ(examples[0].vote, 3);
  const Neighbors unvoted{found.indices, found.similarities, Tensor::empty({1, 0}, DType::kInt64)};
  const auto unlabelled = neighbor_examples(unvoted, first, {indices, {}}, {bank_indices, {}});
  EXPECT_FALSE(unlabelled[0].vote);
  expect_same(unlabelled[0].nearest[0], {20, std::nullopt, 0.5});
}

TEST(NeighborSheets, ShowRowsAndNamesOfClasses) {
  const auto flat = [](int height, int width, double first) {
    return [=](std::int64_t index) {
      return Tensor::full({1, 1, height, width}, DType::kFloat32,
                          first + 0.125 * static_cast<double>(index));
    };
  };
  const std::vector<NeighborExample> examples{
      {{3, 1, 1}, 0, {{0, 0, 0.75}, {4, 1, 0.5}}},
      {{5, std::nullopt, 1}, std::nullopt, {{1, 2, 0.25}, {2, 7, 0.125}}}};
  const auto name = [](std::int64_t index) { return cat(index, ".png"); };
  const NeighborSheet sheet =
      draw_neighbors(examples, {flat(4, 8, 0), name, {"a", "n01440764"}},
                     {flat(8, 16, 0.5), name, {"a", "b \xFF", "c"}}, {{0}, {1}});
  const auto json = nlohmann::json::parse(sheet.json);
  EXPECT_EQ(json["columns"], 3);
  EXPECT_EQ(json["width"], 8);
  EXPECT_EQ(json["height"], 4);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["label"], 1);
  EXPECT_EQ(row["name"], "3.png");
  EXPECT_EQ(row["neighbors"][1]["name"], "4.png");
  EXPECT_EQ(row["vote_class"], "a");
  EXPECT_EQ(row["neighbors"][0]["class"], "a");
  EXPECT_EQ(row["neighbors"][1]["class"], "b \xEF\xBF\xBD");
  EXPECT_EQ(row["neighbors"][1]["index"], 4);
  EXPECT_EQ(row["neighbors"][0]["similarity"], 0.75);
  EXPECT_TRUE(json["rows"][1]["label"].is_null());
  EXPECT_TRUE(json["rows"][1]["vote"].is_null());
  EXPECT_TRUE(json["rows"][1]["vote_class"].is_null());
  EXPECT_TRUE(json["rows"][1]["neighbors"][1]["class"].is_null()) << "label 7 has no name";
  const Image image = decode_image(std::as_bytes(std::span(sheet.png)), "sheet");
  EXPECT_EQ(image.width, 3 * 8 + 2 * 2);
  EXPECT_EQ(image.height, 2 * 4 + 2);
  const auto gray = [&](int row_number, int column) {
    const int x = column * 10 + 3, y = row_number * 6 + 2;
    return int{image.pixels[static_cast<std::size_t>(3 * (y * image.width + x))]};
  };
  EXPECT_EQ(gray(0, 0), std::lround(255 * 0.375));
  EXPECT_EQ(gray(0, 2), 255) << "reduced to the size of the first";
  EXPECT_EQ(gray(1, 1), std::lround(255 * 0.625));
}

TEST(NeighborSheets, ReduceLargeImages) {
  const ShownImages images{[](std::int64_t) {
                             return Tensor::zeros({1, 3, 100, 192}, DType::kFloat32);
                           },
                           [](std::int64_t) { return "image"; },
                           {}};
  const std::vector<NeighborExample> examples{{{0, 1, 1}, 1, {{0, 1, 0.5}}}};
  const auto json = nlohmann::json::parse(draw_neighbors(examples, images, images, {}).json);
  EXPECT_EQ(json["width"], 96);
  EXPECT_EQ(json["height"], 50);
}

}  // namespace
}  // namespace dtn::test
