// Every key has an explanation, and docs/config.md matches the tables of keys.
#include "config/key_docs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "config/keys.h"
#include "dtn/config/load.h"
#include "dtn/tasks/registries.h"

namespace dtn::testing {
namespace {

using config::KeyDoc;

std::vector<KeyDoc> all_docs() { return config::key_docs(standard_registries().schemas()); }

TEST(KeyDocs, DescribeEveryKey) {
  constexpr std::size_t kShortest = 20;
  const std::vector<KeyDoc> docs = all_docs();
  ASSERT_GT(docs.size(), config::keys().size());  // options of normalizers too
  for (const KeyDoc& doc : docs) {
    SCOPED_TRACE(doc.path);
    EXPECT_GE(doc.meaning.size(), kShortest) << "says too little: " << doc.meaning;
    EXPECT_FALSE(doc.meaning.ends_with(".") || doc.meaning.starts_with("default"));
    EXPECT_NE(doc.allowed, "") << "its row has no type";
    EXPECT_NE(doc.default_value, "");
    EXPECT_FALSE(doc.example.empty() || doc.example == "null" || doc.example == "\"\"")
        << "an optional key needs an example in its row";
  }
}

TEST(KeyDocs, ExamplesAreValid) {
  const ConfigSchemas schemas = standard_registries().schemas();
  for (const config::Key& key : config::keys()) {
    for (const KeyDoc& doc : all_docs()) {
      if (doc.path != key.path) continue;
      SCOPED_TRACE(key.path + ": " + doc.example);
      const config::Where where{std::make_shared<const std::string>("example"), 1, 1, 0};
      ExperimentConfig config;
      const config::Node node = config::parse_yaml(doc.example, where);
      EXPECT_NO_THROW(key.read({node, key.path, key.doc}, config));
    }
  }
  for (const KeyDoc& doc : all_docs()) {
    if (!doc.is_norm_option) continue;
    for (const std::string& norm : doc.read_by) {
      SCOPED_TRACE(doc.path + ": " + doc.example + " of " + norm);
      std::vector<std::string> set = {"model.norm.type=" + norm, doc.path + "=" + doc.example};
      const auto schema = std::ranges::find(schemas.norms, norm, &NormSchema::type);
      const bool is_for_unet = !schema->needs.empty();
      if (is_for_unet) set.insert(set.end(), {"task=translate", "data.dataset=tensors"});
      if (schema->reads_condition && is_for_unet) set.push_back("model.condition.size=8");
      if (norm == "cbn") set.push_back("model.condition.from=vector");
      EXPECT_NO_THROW(
          parse_experiment(is_for_unet ? "model: {preset: unet_tiny}" : "model: {preset: vit_t}",
                           "example", set, schemas));
    }
  }
}

TEST(KeyDocs, DefaultsDependingOnOtherKeysAreDescribed) {
  const auto default_of = [&](const std::string& path) {
    for (const KeyDoc& doc : all_docs()) {
      if (doc.path == path) return doc.default_value;
    }
    return std::string();
  };
  EXPECT_EQ(default_of("model.embed_dim"), "the preset's");
  EXPECT_EQ(default_of("model.channels"), "the preset's");
  EXPECT_EQ(default_of("train.batch_size"), "128");
  EXPECT_EQ(default_of("model.num_classes"), "the preset's");
  EXPECT_EQ(default_of("optim.eps"), "1.0e-08 (lamb 1.0e-06)");
  EXPECT_EQ(default_of("augment.erase"), "0 (deit 0.25)");
  EXPECT_EQ(default_of("schedule.epochs"), "300");
  EXPECT_EQ(default_of("data.resample"),
            "pillow13 (run or checkpoint that lacks the key: pillow12)");
  EXPECT_EQ(default_of("model.norm.lambda"), "learnable");
}

TEST(KeyDocs, ConfigReferenceIsUpToDate) {
  std::ifstream file(DTN_TESTS_FOLDER "/../docs/config.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == config::to_markdown(all_docs()))
      << "docs/config.md is out of date: dtn-info --keys --markdown > docs/config.md";
}

TEST(KeyDocs, LinesFitRequestedWidth) {
  for (const std::size_t columns : {40, 100}) {
    std::istringstream text(config::to_text(all_docs(), columns));
    for (std::string line; std::getline(text, line);) {
      // A single long word may exceed the width, and text to be copied is not wrapped.
      if (!line.starts_with("    ") || line.find(' ', 4) == std::string::npos) continue;
      EXPECT_LE(line.size(), columns) << line;
    }
  }
}

// The config with comments parses to the same config, and every key has a comment.
TEST(CommentedYaml, RoundTrips) {
  const ConfigSchemas schemas = standard_registries().schemas();
  for (const char* norm : {"ln", "dtn", "gn", "power"}) {
    const ExperimentConfig config =
        parse_experiment("model: {preset: vit_t}", "test",
                         std::vector{std::string("model.norm.type=") + norm}, schemas);
    const std::string text = to_commented_yaml(config, schemas);
    EXPECT_TRUE(parse_experiment(text, "commented", {}, schemas) == config);
    std::istringstream lines(text);
    std::string plain, before;
    for (std::string line; std::getline(lines, line); before = line) {
      const bool comment = line.find_first_not_of(' ') == line.find('#');
      EXPECT_LE(line.size(), 100u) << line;
      if (!comment) plain += line + "\n";
      if (comment || line.ends_with(":")) continue;  // the first line of a section has none
      EXPECT_EQ(before.find_first_not_of(' '), before.find('#')) << line << " is not explained";
    }
    EXPECT_EQ(plain, to_yaml(config));
  }
}

}  // namespace
}  // namespace dtn::testing
