// Runs of the small diffusion transformer in tests/golden/diffusion.
#pragma once

#include "self_supervised_runs.h"

namespace dtn::test {

inline std::string diffusion_file(const std::string& name) {
  return cat(DTN_TESTS_FOLDER "/golden/diffusion/", name);
}

// The config of the golden run, with its data and initial weights.
inline ExperimentConfig diffusion_config(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"data.train=" + diffusion_file("dit_data.safetensors"),
                               "model.init_weights=" + diffusion_file("dit_init.safetensors")};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_experiment(diffusion_file("dit.yaml"), all, standard_registries().schemas());
}

}  // namespace dtn::test
