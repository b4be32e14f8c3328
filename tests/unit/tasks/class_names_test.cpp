#include "tasks/class_names.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using Names = std::vector<std::string>;

TEST(ClassNames, RoundTripThroughMetadata) {
  const Names names = {"a, b", "\"quoted\"", "\xc3\xa4"};
  const StringMap metadata = {{kClassNamesKey, as_json(names)}};
  EXPECT_EQ(class_words(metadata, 3), names);
  EXPECT_EQ(class_words(metadata, 5), names);
  EXPECT_EQ(class_words(metadata, 2), Names());
}

TEST(ClassNames, ReplaceInvalidUtf8) { EXPECT_EQ(as_json({"\xff"}), "[\"\xef\xbf\xbd\"]"); }

TEST(ClassNames, TranslateWordNetIds) {
  const StringMap metadata = {{kClassNamesKey, as_json({"n01440764", "n01440765"})}};
  EXPECT_EQ(class_words(metadata, 2), (Names{"tench", "n01440765"}));
}

TEST(ClassNames, DefaultToImageNetForThousandClasses) {
  EXPECT_EQ(class_words({}, 1000), imagenet_class_words());
  EXPECT_EQ(class_words({}, 999), Names());
}

TEST(ClassNames, RejectDamagedMetadata) {
  for (const char* text : {"", "[1]", "{\"a\": \"b\"}", "[\"a\"", "7"}) {
    EXPECT_THROW(class_words({{kClassNamesKey, text}}, 3), DataError) << text;
  }
}

}  // namespace
}  // namespace dtn
