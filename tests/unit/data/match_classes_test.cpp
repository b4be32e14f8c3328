#include "data/classes/match_classes.h"

#include "data/classes/class_order.h"
#include "data/source/image_names.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Labels = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

ClassList unnamed(const std::string& owner, std::int64_t count) { return {owner, {}, count}; }

ClassMatch match(const ClassList& data, const ClassList& model) {
  return match_classes(data, model, "do this");
}

TEST(MatchClasses, MatchesByName) {
  const ClassList model = named_classes("model", {"cat", "dog", "fish"});
  const ClassMatch same = match(named_classes("data", {"cat", "dog", "fish"}), model);
  EXPECT_TRUE(same.is_identity());
  EXPECT_TRUE(same.note.empty());
  EXPECT_EQ(match(named_classes("data", {"dog", "fish"}), model).labels, (Labels{1, 2}));
  EXPECT_EQ(match(named_classes("data", {"fish", "cat"}), model).labels, (Labels{2, 0}));
  EXPECT_EQ(match(named_classes("data", {"fish", "cat"}), model).names, model.names);
  expect_error<DataError>(
      [&] {
        match(named_classes("data", {"dog", "zebra"}), model);
      },
      {"data", "'zebra'", "not among the 3", "'cat'", "do this"});
}

// A checkpoint stores the names as UTF-8.
TEST(MatchClasses, MatchesNamesWithInvalidUtf8) {
  const ClassMatch m =
      match(named_classes("data", {"\xff", "b"}), named_classes("model", {"b", "\xef\xbf\xbd"}));
  EXPECT_EQ(m.labels, (Labels{1, 0}));
}

TEST(MatchClasses, MatchesByPositionIfOneSideHasNoNames) {
  for (const auto& [data, model] :
       {std::pair(named_classes("data", {"a", "b"}), unnamed("model", 2)),
        std::pair(unnamed("data", 2), named_classes("model", {"a", "b"}))}) {
    const ClassMatch m = match(data, model);
    EXPECT_EQ(m.labels, (Labels{0, 1}));
    EXPECT_EQ(m.names, (Names{"a", "b"}));
    EXPECT_NE(m.note.find("does not name its classes"), std::string::npos) << m.note;
  }
  for (const std::int64_t count : {1, 3}) {
    expect_error<DataError>(
        [&] {
          match(named_classes("data", {"a", "b"}), unnamed("model", count));
        },
        {"2 classes", "'a'", "only one of them names", "do this"});
  }
}

// Numeric labels identify their classes, so the data may have fewer classes.
TEST(MatchClasses, UnnamedDataMayHaveFewerClassesThanModel) {
  EXPECT_TRUE(match(unnamed("data", 2), unnamed("model", 2)).note.empty());
  EXPECT_EQ(match(unnamed("data", 2), unnamed("model", 3)).labels, (Labels{0, 1}));
  EXPECT_EQ(match(unnamed("data", 2), named_classes("model", {"a", "b", "c"})).labels,
            (Labels{0, 1}));
  for (const ClassList& model : {unnamed("model", 2), named_classes("model", {"a", "b"})}) {
    expect_error<DataError>([&] { match(unnamed("data", 3), model); },
                            {"data", "3 classes", "2 classes", "do this"});
  }
}

TEST(MatchClasses, NumericFolderNamesAreImageNetLabels) {
  const Names& ids = imagenet_class_names();
  const ClassList model = named_classes("model", {ids[5], ids[8], ids[9]});
  const ClassMatch m = match(named_classes("data", {"0", "2"}), model);
  EXPECT_EQ(m.labels, (Labels{0, 2}));
  EXPECT_NE(m.note.find(cat("'0' is '", ids[5], "'")), std::string::npos) << m.note;
  expect_error<DataError>(
      [&] {
        match(named_classes("data", {"0", "3"}), model);
      },
      {"'3'", "3 labels"});
  expect_error<DataError>([&] { match(named_classes("data", {"0", "01"}), model); }, {"'0'"});
  // Other names have no order that a number could refer to.
  expect_error<DataError>(
      [&] {
        match(named_classes("data", {"0", "1"}), named_classes("model", {"cat", "dog"}));
      },
      {"'0'", "not among the 2"});
  EXPECT_EQ(match(named_classes("data", {"10", "2"}), named_classes("model", {"2", "10"})).labels,
            (Labels{1, 0}));
}

TEST(MatchClasses, MapsWordNetIdsToImageNetLabels) {
  const Names& ids = imagenet_class_names();
  const ClassList some = named_classes("data", {ids[7], ids[999], ids[3]});
  EXPECT_EQ(match(some, unnamed("timm's", 1000)).labels, (Labels{7, 999, 3}));
  EXPECT_TRUE(match(some, unnamed("timm's", 1000)).note.empty());
  expect_error<DataError>([&] { match(some, unnamed("model", 10)); }, {"3 classes", "10 classes"});
  expect_error<DataError>(
      [&] {
        match(named_classes("data", {ids[7], "zebra"}), unnamed("timm's", 1000));
      },
      {"2 classes"});
}

TEST(HeadRows, MatchNames) {
  std::string note;
  const ClassList data = named_classes("data", {"cat", "dog"});
  const auto rows = [&](std::int64_t outputs, const ClassList& head) {
    return head_rows({"data", data.names, outputs}, outputs, head, "reset", note);
  };
  EXPECT_EQ(rows(2, named_classes("file", {"fish", "dog", "cat"})), (Labels{2, 1}));
  EXPECT_EQ(rows(2, unnamed("file", 2)), (Labels{0, 1}));
  EXPECT_NE(note.find("does not name"), std::string::npos);
  // Outputs without a class get the remaining rows, in order.
  EXPECT_EQ(rows(4, {"file", {"dog", "fish", "cat"}, 4}), (Labels{2, 0, 1, 3}));
  expect_error<DataError>(
      [&] {
        rows(4, named_classes("file", {"dog", "cat"}));
      },
      {"file", "4", "reset"});
  expect_error<DataError>(
      [&] {
        rows(2, named_classes("file", {"dog", "cow"}));
      },
      {"'cat'", "reset"});
}

TEST(ClassOrder, NaturalOrderMatchesTimm) {
  Names names = {"a10", "b1", "A2", "a1", "img12b", "img3", "10", "9", "007", "7", "", "a"};
  sort_class_names(names, ClassOrder::kNatural);
  EXPECT_EQ(names,
            (Names{"", "007", "7", "9", "10", "a", "a1", "A2", "a10", "b1", "img3", "img12b"}));
  // A text is compared as a whole: "type" is the beginning of "type-a", and comes first.
  Names types = {"Type-A", "Type2", "Type 3", "Type1"};
  sort_class_names(types, ClassOrder::kNatural);
  EXPECT_EQ(types, (Names{"Type1", "Type2", "Type 3", "Type-A"}));
  sort_class_names(names, ClassOrder::kBytes);
  EXPECT_EQ(names[1], "007");
  EXPECT_EQ(names[2], "10");
}

TEST(ClassOrder, ParsesNumericNames) {
  EXPECT_EQ(number_of_class("0"), 0);
  EXPECT_EQ(number_of_class("999999"), 999999);
  for (const char* name : {"", "-1", "+1", "01", "1 ", "1a", "1000000", "99999999999999999999"}) {
    EXPECT_EQ(number_of_class(name), -1) << name;
  }
}

TEST(SkippedFiles, CountsByKind) {
  LeftOut some, more;
  EXPECT_EQ(some.warning("here"), "");
  for (const char* name : {"a/x.AVIF", "a.b/noext", "y.avif", ".", "z.", "q.much-too-odd"}) {
    some.add_file(name);
  }
  more.add("label without an image", "labels without an image", 3);
  more.add("nothing", "nothing", 0);
  some.add(more);
  EXPECT_EQ(some.count(), 9);
  EXPECT_EQ(some.kinds(),
            "3 labels without an image, 3 without an extension, 2 .avif, 1 with other extensions");
  EXPECT_NE(some.warning("here").find("here: left out 3 labels"), std::string::npos);
  for (int i = 0; i < 20; ++i) some.add_file("x.a" + std::to_string(i));
  EXPECT_NE(some.kinds().find(", 16 others"), std::string::npos) << some.kinds();
}

}  // namespace
}  // namespace dtn
