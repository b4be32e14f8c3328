// Values of token lists, and their spelling.
#include <map>

#include "listops_trees.h"

namespace dtn::listops {
namespace {

TEST(ListopsExpression, EvaluatesOperators) {
  for (const auto& [words, value] : std::map<std::string, int>{
           {"7", 7},
           {"[MAX 4 3 ]", 4},
           {"[MIN 4 3 ]", 3},
           {"[MED 4 3 ]", 3},
           {"[MED 0 9 ]", 4},
           {"[MED 9 8 ]", 8},
           {"[MED 1 1 ]", 1},
           {"[MED 5 0 9 ]", 5},
           {"[MED 1 2 8 9 ]", 5},
           {"[MED 1 2 9 2 ]", 2},
           {"[MED 0 0 1 9 9 3 ]", 2},
           {"[MED 0 ]", 0},
           {"[SM 9 9 ]", 8},
           {"[SM 9 9 9 9 9 9 9 9 9 9 ]", 0},
           {"[SM 0 3 4 ]", 7},
           {"[MAX 2 9 [MIN 4 7 ] 0 ]", 9},
           {"[MIN 5 [SM 7 [MED 8 1 5 ] [MAX 0 6 ] ] ]", 5},
           {"[SM [SM [SM 5 6 ] 5 ] [MAX 3 8 ] ]", 4},
       }) {
    EXPECT_EQ(fault_of(tokens_of(words)), nullptr) << words;
    EXPECT_EQ(value_of(tokens_of(words)), value) << words;
    EXPECT_EQ(PairReader(spelled(tokens_of(words))).value(), value) << words;
  }
}

TEST(ListopsExpression, WritesNestedPairs) {
  EXPECT_EQ(spelled(tokens_of("[MAX 4 3 ]")), "( ( ( [MAX 4 ) 3 ) ] )");
  EXPECT_EQ(spelled(tokens_of("6")), "6");
  EXPECT_EQ(spelled(tokens_of("[SM [MIN 1 2 ] 0 ]")), "( ( ( [SM ( ( ( [MIN 1 ) 2 ) ] ) ) 0 ) ] )");
  EXPECT_EQ(spelled(tokens_of("[MED 0 [MIN 1 2 3 ] ]")),
            "( ( ( [MED 0 ) ( ( ( ( [MIN 1 ) 2 ) 3 ) ] ) ) ] )");
  std::string text = "before";
  Speller speller;
  speller.append(tokens_of("[MAX 4 3 ]"), text);
  speller.append(tokens_of("1"), text);
  EXPECT_EQ(text, "before( ( ( [MAX 4 ) 3 ) ] )1");
}

TEST(ListopsExpression, RejectsInvalidExpressions) {
  for (const auto& [words, fault] : std::map<std::string, std::string>{
           {"", "empty"},
           {"]", "without an operator"},
           {"3 ]", "continues after the end"},
           {"3 4", "continues after the end"},
           {"[MAX", "without its ]"},
           {"[MAX 4 3", "without its ]"},
           {"[MAX [MIN 4 3 ]", "without its ]"},
           {"[MAX ]", "without arguments"},
           {"[MAX 1 [SM ] ]", "without arguments"},
           {"[MAX 4 3 ] ]", "continues after the end"},
           {"[MAX 4 3 ] 5", "continues after the end"},
       }) {
    const char* found = fault_of(tokens_of(words));
    ASSERT_NE(found, nullptr) << words;
    EXPECT_NE(std::string(found).find(fault), std::string::npos) << words << ": " << found;
  }
  for (Token token : {0, 16, 255}) EXPECT_NE(fault_of(Tokens{token}), nullptr);
}

}  // namespace
}  // namespace dtn::listops
