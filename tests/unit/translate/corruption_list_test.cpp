// The list data.corruptions: its cells, and what its errors name.
#include "tasks/translate/corruption_list.h"

#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

ExperimentConfig config_with(std::vector<std::string> corruptions, const ImageSize& size = 32) {
  ExperimentConfig config = pair_config(size);
  config.data.corruptions = std::move(corruptions);
  return config;
}

std::string problem_of(const ExperimentConfig& config) {
  const auto problem = corruption_list_problem(config);
  return problem ? problem->message : "";
}

TEST(CorruptionList, CountsEachSeverityOfARange) {
  const auto cells = corruption_list(config_with({"saturate/4", "fog/1-3", "saturate/2"}).data);
  std::vector<std::string> names;
  for (const CorruptionCell& cell : cells) names.push_back(cell.name());
  EXPECT_EQ(names,
            (std::vector<std::string>{"saturate/4", "fog/1", "fog/2", "fog/3", "saturate/2"}));
  EXPECT_TRUE(corruption_list({}).empty());
}

TEST(CorruptionList, ErrorsNameKeyEntryAndChoices) {
  const std::string unknown = problem_of(config_with({"brightness/2", "fogg/3"}));
  for (const char* part : {"data.corruptions", "`fogg/3`", "no corruption 'fogg'",
                           "did you mean 'fog'?", "gaussian_noise", "saturate"}) {
    expect_contains(unknown, part);
  }
  EXPECT_EQ(unknown.find("all,"), std::string::npos) << unknown;
  for (const char* entry : {"fog/0", "fog/6", "fog/3-2", "fog/", "fog/x", "fog/1-6"}) {
    const std::string text = problem_of(config_with({entry}));
    for (const char* part : {"data.corruptions", entry, "1 to 5"}) expect_contains(text, part);
  }
  expect_contains(problem_of(config_with({"fog"})), "`fog` has no severity");
  expect_contains(problem_of(config_with({"fog/1-5", "fog/3"})), "fog/3 is there twice");
}

TEST(CorruptionList, RefusesCorruptionsOfOneSizeAtOthers) {
  for (const Corruption& c : corruptions()) {
    const std::string entry = cat(c.name, "/2");
    EXPECT_EQ(problem_of(config_with({entry}, 224)), "") << entry;
    const std::string at_32 = problem_of(config_with({entry}, 32));
    const bool works =
        c.any_size || std::string(c.name) == "fog" || std::string(c.name) == "gaussian_blur";
    EXPECT_EQ(at_32.empty(), works) << at_32;
    if (works) continue;
    for (const std::string& part : {entry, std::string("model.image_size is 32 x 32"),
                                    std::string("choose from"), std::string("fog")}) {
      expect_contains(at_32, part);
    }
  }
  EXPECT_NE(problem_of(config_with({"snow/1"}, ImageSize(224, 32))), "");
}

}  // namespace
}  // namespace dtn::test
