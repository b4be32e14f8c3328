// The keys that registry entries read exist, and src/config names no row.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "config/choices.h"
#include "config/keys.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

std::vector<config::Choice> choices() {
  return config::choices_of(standard_registries().schemas());
}

TEST(RegistryKeys, AreKeysOfAConfig) {
  std::set<std::string> known;
  for (const config::Key& key : config::keys()) known.insert(key.path);
  for (const config::Choice& choice : choices()) {
    EXPECT_TRUE(known.contains(choice.key)) << choice.key;
    if (choice.what == "normalizer") continue;  // its keys are the options of the rows
    for (const std::string& path : choice.listed()) {
      EXPECT_TRUE(known.contains(path)) << choice.what << ": " << path;
    }
  }
}

// Names of rows with another purpose: schedule.per, examples in the documentation, and the linear
// classifier of an evaluation. Two conditional normalizers read another field than the others, and
// a model config alone must tell which.
const std::set<std::pair<std::string, std::string>> kOtherMeanings = {
    {"keys_train.cpp", "step"},         {"model_cache.cpp", "dtn"},  // the folder of the cache
    {"keys_train.cpp", "deit_small"},   {"keys_model.cpp", "deit_small"},
    {"feature_evaluation.h", "linear"}, {"sweep_features.cpp", "linear"},
    {"keys_train.cpp", "none"},         {"keys_model.cpp", "spade"},
    {"condition_field.cpp", "cin"},     {"condition_field.cpp", "spade"}};

// Returns the text without the names of enumerators, which are values of other keys.
std::string without_enumerators(const std::string& text) {
  return std::regex_replace(text, std::regex("choice\\(\\s*KEY\\([^)]*\\), \\{[^}]*\\}"), "");
}

std::set<std::string> names_of_rows() {
  std::set<std::string> names;
  for (const config::Choice& choice : choices()) {
    for (const config::Choice::Entry& entry : choice.entries) names.insert(entry.name);
  }
  for (const PresetSchema& preset : preset_registry()) names.insert(preset.name());
  return names;
}

// A new row needs no change of src/config, and no row is treated as a special case there.
TEST(RegistryKeys, ConfigNamesNoRow) {
  const std::set<std::string> names = names_of_rows();
  ASSERT_GT(names.size(), 110u);
  int files = 0;
  for (const fs::directory_entry& file :
       fs::recursive_directory_iterator(DTN_TESTS_FOLDER "/../src/config")) {
    if (!file.is_regular_file()) continue;
    const std::string name = file.path().filename().string();
    ++files;
    std::ifstream in(file.path());
    std::ostringstream content;
    content << in.rdbuf();
    const std::string text = without_enumerators(content.str());
    const std::regex quoted("\"([a-z0-9_]+)\"");
    for (std::sregex_iterator it(text.begin(), text.end(), quoted), end; it != end; ++it) {
      const std::string word = (*it)[1];
      EXPECT_TRUE(!names.contains(word) || kOtherMeanings.contains({name, word}))
          << "src/config/" << name << " names \"" << word
          << "\"; move what depends on it to its registry entry";
    }
  }
  EXPECT_GT(files, 20);
}

}  // namespace
}  // namespace dtn
