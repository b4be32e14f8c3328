// "Did you mean" suggestions in error messages.
#include <gtest/gtest.h>

#include "config/document.h"

namespace dtn::config {
namespace {

TEST(Guess, SuggestsNearWordsOnly) {
  const std::vector<std::string> words = {"cosine", "constant", "wsd"};
  EXPECT_EQ(guess("cosin", words), "cosine");
  EXPECT_EQ(guess("wds", words), "wsd");  // swapped
  EXPECT_EQ(guess("linear", words), "");
  EXPECT_EQ(guess("", words), "");
  EXPECT_EQ(did_you_mean("constent", words), "; did you mean 'constant'?");
  EXPECT_EQ(did_you_mean("qqq", words, "."), ".");
}

}  // namespace
}  // namespace dtn::config
