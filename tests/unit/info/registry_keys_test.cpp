// The keys that registry rows read exist.
#include <gtest/gtest.h>

#include <set>

#include "config/choices.h"
#include "config/keys.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

std::vector<config::Choice> choices() {
  return config::choices_of(standard_registries().schemas());
}

TEST(RegistryKeys, AreKeysOfAConfig) {
  std::set<std::string> known;
  for (const config::Key& key : config::keys()) known.insert(key.path);
  for (const config::Choice& choice : choices()) {
    EXPECT_TRUE(known.contains(choice.key)) << choice.key;
    if (choice.key == "model.norm.type") continue;  // its keys are the options of the rows
    for (const std::string& path : choice.listed()) {
      EXPECT_TRUE(known.contains(path)) << choice.what << ": " << path;
    }
  }
}

}  // namespace
}  // namespace dtn
