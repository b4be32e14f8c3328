// Reports on generated images: stand-in textures and small images.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/robustness/robustness_results.h"

namespace dtn {
namespace {

using Json = nlohmann::json;

RobustnessScore score_of_error(double error, bool stand_in = false) {
  RobustnessScore score;
  score.result.top1 = 100 - error;
  score.result.count = 50;
  score.stand_in = stand_in;
  return score;
}

void add(RobustnessReport& report, const std::string& name, double error, bool stand_in = false) {
  for (std::size_t s = 0; s < kSeverities; ++s) {
    report.scores[score_name(*find_corruption(name), s)] = score_of_error(error, stand_in);
  }
}

TEST(GeneratedCorruptions, MarksStandInTextures) {
  RobustnessReport report;
  for (std::size_t i = 0; i < kBenchmarkCorruptions; ++i) {
    const Corruption& c = corruptions()[i];
    add(report, c.name, 100 * alexnet_error(c));
  }
  EXPECT_EQ(to_text(report).find("stand-in"), std::string::npos);
  EXPECT_FALSE(Json::parse(to_json(report)).contains("frost"));
  add(report, "frost", 20, true);
  const Json json = Json::parse(to_json(report));
  EXPECT_EQ(json["frost"], "frost (stand-in)");
  EXPECT_EQ(json["corruptions"]["frost"]["name"], "frost (stand-in)");
  EXPECT_TRUE(json["corruptions"]["frost"]["severities"]["2"]["stand_in"].get<bool>());
  EXPECT_NEAR(json["mce"].get<double>(), (14 * 100 + 20 / .826572) / 15, 1e-9);
  EXPECT_NEAR(json["without_frost"]["mean_ce"].get<double>(), 100, 1e-9);
  EXPECT_NEAR(json["without_frost"]["mean_error"].get<double>(), (15 * 78.8993067 - 82.6572) / 14,
              1e-5);
  EXPECT_EQ(json["without_frost"]["complete_corruptions"], 14);
  const std::string text = to_text(report);
  for (const char* part :
       {"\nfrost (stand-in)     20.00 ", "\nmCE 94.9",
        "not comparable with published values; the other 14: mean CE 100.00 %"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(GeneratedCorruptions, SmallImages) {
  RobustnessReport report;
  report.small_images = true;
  add(report, "contrast", 40);
  add(report, "saturate", 30);
  EXPECT_NE(to_text(report).find("mean error of 2 corruptions 35.00 % (no mCE"), std::string::npos);
  report.scores["clean"] = score_of_error(25);
  report.scores["gaussian_noise/1"] = score_of_error(60);  // not all severities: in no mean
  const Json json = Json::parse(to_json(report));
  for (const char* none : {"mce", "mean_ce"}) EXPECT_TRUE(json[none].is_null()) << none;
  EXPECT_EQ(json["mean_error"], 35);
  EXPECT_EQ(json["relative_mean_error"], 10);
  EXPECT_EQ(json["complete_corruptions"], 2);
  EXPECT_EQ(json["corruptions"].size(), 2u);
  EXPECT_FALSE(json["corruptions"]["contrast"].contains("ce"));
  EXPECT_EQ(json["corruptions"]["contrast"]["relative_error"], 15);
  EXPECT_EQ(json["extra"]["saturate"]["relative_error"], 5);
  EXPECT_TRUE(json["corruptions"]["gaussian_noise"]["relative_error"].is_null());
  const std::string text = to_text(report);
  for (const char* part :
       {"mean  over clean\n",
        "contrast             40.00   40.00   40.00   40.00   40.00    40.00       15.00\n",
        "mean error of 2 corruptions 35.00 %, 10.00 above the error on clean images",
        "no mCE: it is defined by AlexNet"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("mCE 3"), std::string::npos);
  EXPECT_EQ(text.find("outside the benchmark"), std::string::npos);
  report.scores.clear();
  EXPECT_NE(to_text(report).find("no mean error"), std::string::npos);
}

}  // namespace
}  // namespace dtn
