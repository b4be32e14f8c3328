// A folder with a sweep of small runs, and helpers that write the files of finished runs.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/sweep/sweep_plan.h"
#include "config/sweeps/sweep_config.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "temp_folder.h"

namespace dtn::test {

// A sweep of vision transformers on 80 synthetic images: 5 steps an epoch.
class SweepFolder : public ::testing::Test {
 protected:
  std::string write(const std::filesystem::path& file, const std::string& text) const {
    return temporary_.write(file, text);
  }
  std::string read(const std::filesystem::path& file) const { return temporary_.read(file); }

  // Two variants, with two seeds and one seed.
  SweepConfig load(const std::string& more = "", const std::vector<std::string>& set = {}) const {
    write("base.yaml",
          "model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 2,\n"
          "        num_heads: 4, num_classes: 10}\n"
          "data: {dataset: synthetic, size: 80}\nschedule: {epochs: 6}\n"
          "train: {batch_size: 16}\n");
    return load_sweep(write("s.yaml",
                            "title: Two norms\nbase: base.yaml\nseeds: [0, 1]\nbaseline: ln\n"
                            "milestones: [50, 80]\nvariants:\n"
                            "  - {name: ln, label: LayerNorm, paper: 80.6}\n"
                            "  - {name: dtn, set: {model.norm: dtn}, paper: 81.7, seeds: [4]}\n" +
                                more),
                      set, standard_registries().schemas());
  }
  std::filesystem::path out() const { return folder_ / "out"; }

  // Writes the files of a finished run, evaluated after epochs 1, 2, ...
  void finish(const SweepRun& run, const std::vector<double>& top1) const {
    std::filesystem::create_directories(run.folder);
    std::ofstream(run.folder / "config.yaml") << to_yaml(run.config);
    std::ofstream metrics(run.folder / "metrics.jsonl");
    for (std::size_t i = 0; i < top1.size(); ++i) {
      metrics << "{\"step\":" << 5 * (i + 1) << ",\"epoch\":" << i + 1 << ",\"loss\":2.5}\n"
              << "{\"step\":" << 5 * (i + 1) << ",\"epoch\":" << i + 1
              << ",\"split\":\"val\",\"top1\":" << top1[i]
              << ",\"top5\":99,\"loss\":" << 2 - top1[i] / 100 << ",\"count\":80}\n";
    }
    metrics << "{\"step\":";  // truncated
    std::ofstream(run.folder / "summary.json")
        << "{\"top1\":" << top1.back() << ",\"steps\":" << 5 * top1.size()
        << ",\"wall_seconds\":2,\"images_per_second\":123.4}\n";
  }

  TempFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

// Returns the message of the error that run() throws.
inline std::string error_of(const auto& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace dtn::test
