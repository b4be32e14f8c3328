#include "apps/get/model_notes.h"

#include <gtest/gtest.h>

namespace dtn::app {
namespace {

using Lines = std::vector<std::string>;

TEST(ModelNotes, NameLicenceAndOrigin) {
  EXPECT_EQ(model_notes(R"({"pretrained_cfg": {"license": "apache-2.0", "origin_url": "https://o",
                            "paper_name": "A paper"}})"),
            (Lines{"license: apache-2.0", "origin: https://o", "paper: A paper"}));
  EXPECT_EQ(model_notes(R"({"license": "mit"})"), Lines{"license: mit"});
  EXPECT_EQ(model_notes(R"({"license": "mit", "pretrained_cfg": {"license": "x"}})"),
            Lines{"license: x"});
}

TEST(ModelNotes, AreEmptyForOtherTexts) {
  for (const char* text : {"", "[1]", "{", R"({"license": 3})", R"({"pretrained_cfg": 3})"}) {
    EXPECT_EQ(model_notes(text), Lines{}) << text;
  }
}

TEST(ModelNotes, HaveNoControlCharacters) {
  EXPECT_EQ(model_notes("{\"license\": \"a\\u001b[31m\"}")[0].find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace dtn::app
