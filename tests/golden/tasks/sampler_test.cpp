// Compares samples of a small diffusion transformer with loops in PyTorch's float64. The expected
// values are in tests/golden/data/samplers.txt, which make_sampler_goldens.py writes.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dtn/config/load.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/diffusion.h"
#include "dtn/tasks/registries.h"
#include "golden/models/network_cases.h"
#include "tasks/diffusion/denoiser.h"
#include "tasks/diffusion/noise_file.h"
#include "temp_folder.h"

namespace dtn {
namespace {

using test::Doubles;

// Numbers of the script.
constexpr std::int64_t kImages = 2, kSteps = 20;
constexpr double kNoise = 1.75;

struct SampleCase {
  std::string name;
  SamplerOptions options;
  bool learned_variance;
  Doubles samples;
};

struct Network {
  std::string model;  // keys of the config
  golden::Case tensors;
};

struct Goldens {
  std::vector<Network> networks;  // with a learned variance, and without
  std::vector<SampleCase> cases;
};

SampleCase read_case(std::istream& words) {
  SampleCase c;
  std::string sampler, colon;
  words >> c.name >> sampler >> c.options.guidance >> c.options.eta >> c.options.clip >>
      c.learned_variance >> colon;
  c.options.kind = sampler == "ddpm" ? SamplerKind::kDdpm : SamplerKind::kDdim;
  c.options.steps = kSteps;
  for (double v; words >> v;) c.samples.push_back(v);
  return c;
}

Goldens read_goldens() {
  Goldens all;
  std::ifstream in(DTN_TESTS_FOLDER "/golden/data/samplers.txt");
  for (std::string line, word; std::getline(in, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "model") {
      all.networks.emplace_back().model = line.substr(word.size());
    } else if (word == "tensor") {
      golden::read_tensor(words, all.networks.back().tensors);
    } else {
      all.cases.push_back(read_case(words));
    }
  }
  return all;
}

ExperimentConfig config_of(const Network& network) {
  return parse_experiment(
      "task: diffusion\ndata: {dataset: tensors}\ndiffusion: {beta_end: 0.004}\nmodel: {" +
          network.model + "}",
      "golden", {}, standard_registries().schemas());
}

// The task with the weights of the network.
std::unique_ptr<Diffusion> make_task(const Network& network, const ExperimentConfig& config) {
  auto task = std::make_unique<Diffusion>(TaskSetup{config, kCpu, standard_registries()});
  ParameterStore& store = *task->stores().front().value;
  std::size_t found = 0;
  for (const auto& [name, value] : network.tensors.weights) {
    for (const Parameter& p : store.parameters()) {
      if (p.name != name) continue;
      ParameterStore::view(store.values(), p).copy_from(value);
      ++found;
    }
  }
  EXPECT_EQ(found, network.tensors.weights.size());
  return task;
}

// Writes the noise of the script to a file.
void write_noise(const std::filesystem::path& file, const Shape& images) {
  const auto noise = [&](std::uint32_t seed) {
    return test::from_doubles(golden::values(seed, images.numel(), kNoise, 0), images,
                              DType::kFloat32);
  };
  Tensor z = Tensor::empty({kSteps, images[0], images[1], images[2], images[3]}, DType::kFloat32);
  for (std::int64_t k = 0; k < kSteps; ++k) {
    z.slice(k, k + 1).copy_from(noise(static_cast<std::uint32_t>(2000 + k)));
  }
  write_safetensors(file, {{"x", noise(1000)}, {"z", z}});
}

TEST(GoldenSampler, SamplesMatchPyTorch) {
  const Goldens goldens = read_goldens();
  ASSERT_EQ(goldens.networks.size(), 2u);
  ASSERT_EQ(goldens.cases.size(), 7u);
  const test::TempFolder folder;
  for (const SampleCase& c : goldens.cases) {
    const Network& network = goldens.networks[c.learned_variance ? 0 : 1];
    const ExperimentConfig config = config_of(network);
    const auto task = make_task(network, config);
    const ModelConfig& m = config.model;
    SamplerOptions options = c.options;
    options.no_label = m.num_classes;
    const Sampler sampler(config.diffusion, options);
    const Shape images{kImages, m.channels, m.image_size.height, m.image_size.width};
    write_noise(folder.path() / "noise.safetensors", images);
    for (std::int64_t batch : {1, 2}) {
      const SampleRequest request{
          .labels = {3, 0},
          .image = {images[1], images[2], images[3]},
          .batch = batch,
          .noise = read_noise_file(folder.path() / "noise.safetensors", images, sampler)};
      const Tensor samples =
          sample_images(sampler, denoiser_of(task->model(), DType::kFloat32), kCpu, request);
      ASSERT_EQ(samples.shape(), images);
      EXPECT_LT(test::max_abs_difference(test::doubles(samples), c.samples), 3e-4) << c.name;
    }
  }
}

}  // namespace
}  // namespace dtn
