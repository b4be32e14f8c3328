#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "temp_folder.h"
#include "texts.h"
#include "unit/config/fake_norms.h"

namespace dtn::testing {

using test::expect_contains;
using test::TempFolder;

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

}  // namespace dtn::testing
