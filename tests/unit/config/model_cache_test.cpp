#include "config/model_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "dtn/core/check.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

namespace fs = std::filesystem;

// Sets variables for its lifetime; null removes one.
class CacheVariables {
 public:
  CacheVariables(const char* dtn, const char* xdg, const char* home) {
    set("DTN_CACHE", dtn);
    set("XDG_CACHE_HOME", xdg);
    set("HOME", home);
  }
  ~CacheVariables() {
    set("DTN_CACHE", nullptr);
    set("XDG_CACHE_HOME", nullptr);
    set("HOME", home_.empty() ? nullptr : home_.c_str());
  }
  CacheVariables(const CacheVariables&) = delete;
  CacheVariables& operator=(const CacheVariables&) = delete;

 private:
  static void set(const char* name, const char* value) {
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  std::string home_ = std::getenv("HOME") ? std::getenv("HOME") : "";
};

TEST(ModelCache, KnowsTheFolderOfAPublicModel) {
  const ConfigSchemas schemas = fake_schemas();
  const HubModel full{.owner = "timm", .repo = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"};
  EXPECT_EQ(find_hub_model("vit_tiny_patch16_224.augreg_in21k_ft_in1k", schemas), full);
  EXPECT_EQ(find_hub_model("vit_tiny_patch16_224", schemas), full);  // timm's default tag
  EXPECT_EQ(find_hub_model("vit_tiny_patch16_225", schemas), std::nullopt);
  EXPECT_EQ(find_hub_model("vit_t", schemas), std::nullopt);  // a preset without public weights
  EXPECT_EQ(full.name(), "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k");
}

TEST(ModelCache, ParsesNamesOfTheHub) {
  const HubModel at_tag{"some-body", "My_Model.v1", "refs/pr/1"};
  EXPECT_EQ(parse_hub_model("some-body/My_Model.v1@refs/pr/1"), at_tag);
  EXPECT_EQ(at_tag.name(), "some-body/My_Model.v1@refs/pr/1");
  EXPECT_EQ(parse_hub_model("a/b")->revision, "main");
  for (const char* wrong :
       {"",      "a",      "/a",       "a/",      "a/b/c",  "../b",     "a/..",
        "a/.b",  "a/b@",   "a/b@../c", "a/b@/c",  "a/b@c/", "a/b@c//d", "a b/c",
        "a/b\n", "a/b%2f", "-a/b",     "a/b@c@d", "a@b/c",  "a/b?c",    "a/b#c"}) {
    EXPECT_EQ(parse_hub_model(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(parse_hub_model("a/" + std::string(97, 'b')), std::nullopt);
}

TEST(ModelCache, IsWhereTheVariablesSay) {
  {
    const CacheVariables variables("/cache", "/xdg", "/home/me");
    EXPECT_EQ(model_cache(), "/cache");
    EXPECT_EQ(cache_folder({.owner = "timm", .repo = "vit.a"}), "/cache/models/timm/vit.a");
    EXPECT_EQ(cache_folder({"timm", "vit.a", "refs/pr/1"}), "/cache/models/timm/vit.a@refs+pr+1");
  }
  {
    const CacheVariables variables("", "/xdg", "/home/me");
    EXPECT_EQ(model_cache(), "/xdg/dtn");
  }
  {
    const CacheVariables variables(nullptr, "relative", "/home/me");
    EXPECT_EQ(model_cache(), "/home/me/.cache/dtn");
  }
  const CacheVariables variables(nullptr, nullptr, nullptr);
  EXPECT_THROW(model_cache(), ConfigError);
  EXPECT_EQ(locate_weights("runs/a", fake_schemas()), "runs/a");
}

TEST(ModelCache, LocatesWeights) {
  const ConfigSchemas schemas = fake_schemas();
  const TempFolder folder;
  const CacheVariables variables(folder.path().c_str(), nullptr, "/home/me");
  const std::string name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k";
  try {
    locate_weights(name, schemas);
    FAIL() << "a model that is not in the cache is located";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("fetch it: dtn-get " + name), std::string::npos)
        << e.what();
  }
  const fs::path model = folder.path() / "models/timm" / name;
  fs::create_directories(model);
  std::ofstream(model / "config.json") << "{}";
  std::ofstream(model / "model.safetensors.part") << "half";
  EXPECT_THROW(locate_weights(name, schemas), ConfigError);
  std::ofstream(model / "model.safetensors") << "whole";
  EXPECT_EQ(locate_weights(name, schemas), model);
  EXPECT_EQ(locate_weights("vit_tiny_patch16_224", schemas), model);
  EXPECT_EQ(locate_weights("timm/" + name, schemas), model);
  EXPECT_EQ(locate_weights("timm/other", schemas), "timm/other");
  EXPECT_EQ(locate_weights("", schemas), "");
  EXPECT_EQ(locate_weights(folder.path().string(), schemas), folder.path());
}

}  // namespace
}  // namespace dtn::testing
