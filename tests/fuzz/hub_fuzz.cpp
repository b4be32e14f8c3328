// libFuzzer target: any text as the config.json of a model's folder gives a config or a
// ConfigError. Writing a config and reading it again does not change it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "config/hub.h"
#include "config/layers.h"
#include "dtn/config/load.h"
#include "unit/config/fake_norms.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dtn::ConfigSchemas schemas = dtn::testing::fake_schemas();
  const std::string text(reinterpret_cast<const char*>(data), size);
  dtn::ExperimentConfig config;
  try {
    const dtn::config::Node root = dtn::config::parse_hub_config(text, "config.json", schemas);
    dtn::config::check_layer(root, schemas);
    config = dtn::config::resolve(root, schemas, dtn::Resample::kPillow13);
  } catch (const dtn::ConfigError&) {
    return 0;
  }
  const std::string written = dtn::to_yaml(config);
  if (!(dtn::parse_experiment(written, "written.yaml", {}, schemas) == config)) {
    std::fprintf(stderr, "does not survive a round trip:\n%s\n", written.c_str());
    std::abort();
  }
  return 0;
}
