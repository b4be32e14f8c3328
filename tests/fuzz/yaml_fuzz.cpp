// libFuzzer target: any text gives a config or a ConfigError. Writing a config and reading it again
// does not change it. A NUL byte splits the input into the text and --set overrides. A text with
// variants is also read as a sweep.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "config/sweeps/sweep_config.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "unit/config/fake_norms.h"

// Reads a sweep from a file in memory.
static void read_sweep(const std::string& text, const std::vector<std::string>& overrides,
                       const dtn::ConfigSchemas& schemas) {
  static const int file = memfd_create("sweep.yaml", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  const auto size = static_cast<ssize_t>(text.size());
  if (ftruncate(file, 0) != 0 || pwrite(file, text.data(), text.size(), 0) != size) std::abort();
  try {
    for (const dtn::SweepVariant& v : dtn::load_sweep(path, overrides, schemas).variants) {
      if (v.seeds.empty() || v.name.find('/') != std::string::npos) std::abort();
    }
  } catch (const dtn::ConfigError&) {
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dtn::ConfigSchemas schemas = dtn::testing::fake_schemas();
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
  if (text.find("variants") != std::string::npos) read_sweep(text, parts, schemas);
  dtn::ExperimentConfig config;
  try {
    config = dtn::parse_experiment(text, "fuzz.yaml", parts, schemas);
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
