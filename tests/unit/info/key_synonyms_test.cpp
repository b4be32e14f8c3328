// Key names of other programs lead to the key with the same meaning here.

#include <gtest/gtest.h>

#include <set>

#include "config/document.h"
#include "config/key_docs.h"
#include "dtn/tasks/registries.h"

namespace dtn::config {
namespace {

std::set<std::string> known_paths() {
  std::set<std::string> paths;
  for (const KeyDoc& doc : key_docs(standard_registries().schemas())) paths.insert(doc.path);
  return paths;
}

TEST(KeySynonyms, LeadToExistingKeysAndAreNoKeys) {
  const std::set<std::string> known = known_paths();
  std::set<std::string> words, leaves;
  for (const std::string& path : known) leaves.insert(leaf_of(path));
  for (const KeySynonym& s : key_synonyms()) {
    EXPECT_TRUE(known.contains(s.path)) << s.word << ": no key " << s.path;
    EXPECT_FALSE(leaves.contains(s.word)) << s.word << " is a key itself";
    EXPECT_TRUE(words.insert(s.word).second) << s.word << " stands twice";
  }
}

TEST(KeySynonyms, MatchAnySpelling) {
  const std::set<std::string> known = known_paths();
  const std::vector<std::string> rate = {"optim.lr"}, epochs = {"schedule.epochs"};
  for (const char* word : {"learning_rate", "learning-rate", "Learning_Rate", "lr"}) {
    EXPECT_EQ(paths_meant_by(word, known), rate) << word;
  }
  EXPECT_EQ(paths_meant_by("epochs", known), epochs);
  EXPECT_TRUE(paths_meant_by("no_such_thing", known).empty());
}

}  // namespace
}  // namespace dtn::config
