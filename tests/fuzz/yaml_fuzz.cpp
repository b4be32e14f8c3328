// libFuzzer target: any text gives a config or a ConfigError, and a config survives being written
// and read again. A NUL byte splits the input into the text and --set overrides.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "unit/config/fake_norms.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<dtn::NormSchema> norms = dtn::testing::fake_norms();
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == 0 && parts.size() < 9) {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(data[i]);
    }
  }
  const std::string text = parts.front();
  parts.erase(parts.begin());
  dtn::ExperimentConfig config;
  try {
    config = dtn::parse_experiment(text, "fuzz.yaml", parts, norms);
  } catch (const dtn::ConfigError&) {
    return 0;
  }
  const std::string written = dtn::to_yaml(config);
  if (!(dtn::parse_experiment(written, "written.yaml", {}, norms) == config)) {
    std::fprintf(stderr, "does not survive a round trip:\n%s\n", written.c_str());
    std::abort();
  }
  return 0;
}
