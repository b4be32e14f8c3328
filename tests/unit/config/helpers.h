#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "texts.h"
#include "unit/config/fake_norms.h"

namespace dtn::testing {

using test::expect_contains;

inline ExperimentConfig parse(const std::string& text, const std::vector<std::string>& set = {}) {
  return parse_experiment(text, "t.yaml", set, fake_schemas());
}

inline std::string find_config(const std::string& name) {
  return dtn::find_config(name, fake_schemas());
}

// Returns the message of the ConfigError that `run` throws; without one, fails and returns "".
template <class Run>
std::string error_of(const Run& run) {
  try {
    run();
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "no ConfigError was thrown";
  return "";
}

inline std::string parse_error(const std::string& text, const std::vector<std::string>& set = {}) {
  return error_of([&] { parse(text, set); });
}

// A temporary folder, removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dtn_config_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder");
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dtn::testing
