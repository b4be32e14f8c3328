// Small models and images as files, for tests of dtn-analyze.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/analyze/analysis.h"
#include "dtn/config/load.h"
#include "dtn/models/classifier.h"
#include "dtn/models/weights.h"
#include "temp_folder.h"

namespace dtn::test {

// Uniform in [-1, 1), exact in float32; equal to values() of the golden scripts.
inline std::vector<double> script_values(std::uint32_t seed, std::int64_t count) {
  std::vector<double> out;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i) {
    std::uint32_t h = i * 2654435761u + seed * 40503u;
    h ^= h >> 13;
    h *= 0x5BD1E995u;
    h ^= h >> 15;
    out.push_back((h >> 16) / 32768.0 - 1);
  }
  return out;
}

// Fills every tensor of the model with values that follow from its position among the sorted names.
// Gains and variances are around 1.
inline void fill_by_place(ParameterStore& store) {
  NamedTensors tensors;
  for (const Parameter& p : store.parameters()) tensors.emplace_back(p.name, p.variable.value());
  for (const Buffer& b : store.buffers()) tensors.emplace_back(b.name, b.value);
  std::ranges::sort(tensors, {}, [](const auto& t) { return t.first; });
  std::uint32_t place = 100;
  for (auto& [name, tensor] : tensors) {
    const bool one = name.ends_with("running_var") || name.ends_with("norm.weight") ||
                     name.ends_with("norm1.weight") || name.ends_with("norm2.weight");
    const auto values = script_values(place++, tensor.numel());
    for (std::size_t i = 0; i < values.size(); ++i) {
      tensor.data<float>()[i] = static_cast<float>(values[i] / 4 + one);
    }
  }
}

// Fixture with a folder for the files of a test.
class AnalysisFiles : public testing::Test {
 protected:
  // Writes a file of weights of a model, which `fill` sets.
  template <class Fill>
  AnalysisSubject subject(const std::string& name, const ModelConfig& model, Fill&& fill) const {
    AnalysisSubject subject;
    subject.name = subject.source = name;
    subject.config.model = model;
    subject.config.data.dataset = "tensors";
    subject.weights = folder_.path() / (name + ".safetensors");
    Classifier classifier(model, 1);
    fill(classifier.parameters());
    write_safetensors(*subject.weights,
                      named_weights(classifier.parameters(), classifier.parameters().values()),
                      {{"config", to_yaml(subject.config)}});
    return subject;
  }
  AnalysisSubject subject(const std::string& name, const ModelConfig& model) const {
    return subject(name, model, fill_by_place);
  }

  // Writes images of script_values(seed), and labels 0, 1, ... unless `classes` is 0.
  std::string inputs(const ModelConfig& model, std::int64_t count, int classes,
                     std::uint32_t seed = 7) const {
    const Shape shape{count, model.channels, model.image_size.height, model.image_size.width};
    Tensor images = Tensor::empty(shape, DType::kFloat32);
    std::ranges::transform(script_values(seed, images.numel()), images.data<float>(),
                           [](double v) { return static_cast<float>(v); });
    NamedTensors tensors{{"images", images}};
    if (classes > 0) {
      Tensor labels = Tensor::empty({count}, DType::kInt64);
      for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = i % classes;
      tensors.emplace_back("labels", labels);
    }
    const auto file = folder_.path() / "inputs.safetensors";
    write_safetensors(file, tensors);
    return file.string();
  }

  const TempFolder folder_;
};

}  // namespace dtn::test
