// Figures of a collection: what they wait for, and when they are made again.
#include "apps/sweep/collection_figures.h"

#include <gtest/gtest.h>

#include <fstream>

#include "apps/sweep/known_runs.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;
using test::expect_contains;

class CollectionFigures : public ::testing::Test {
 protected:
  CollectionFigures() {
    write("base.yaml",
          "model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 2,\n"
          "        num_heads: 4, num_classes: 10}\n"
          "data: {dataset: synthetic, size: 80}\nschedule: {epochs: 6}\n");
    write("one.yaml",
          "base: base.yaml\nvariants:\n  - {name: ln, label: 'ViT, LN', set: {model.norm: ln}}\n"
          "  - {name: dtn, set: {model.norm: dtn}}\n");
    write("two.yaml",
          "base: base.yaml\nvariants:\n  - {name: same, set: {model.norm: dtn}}\n"
          "  - {name: bn, set: {model.norm: bn}}\n");
    options_.output = folder_ / "out";
  }

  std::string write(const fs::path& file, const std::string& text) const {
    return temporary_.write(file, text);
  }
  std::string read(const fs::path& file) const { return temporary_.read(file); }

  // Plans the runs of both sweeps; `two` shares a run with `one`.
  CollectionRuns plan() const {
    CollectionRuns all;
    SharedRuns shared;
    for (const char* name : {"one", "two"}) {
      const SweepConfig sweep =
          load_sweep(folder_ / (std::string(name) + ".yaml"), {}, standard_registries().schemas());
      all[name] = plan_runs(sweep, options_.output / name, {});
      shared.adopt(all[name]);
      shared.add(name, all[name]);
    }
    return all;
  }
  SweepFigure figure(const std::string& entry) const {
    const std::string text = "sweeps: [one.yaml, two.yaml, {title: T, figure: f, " + entry + "}]\n";
    return *load_sweep_collection(write("all.yaml", text), {}, standard_registries().schemas())
                .tables[2]
                .figure;
  }
  FigureStatus status(const SweepFigure& f) const { return figure_status(f, options_, plan()); }

  // Writes what a figure needs of a finished run, without weights.
  void finish(const fs::path& run, double top1) const {
    write("out" / run / "summary.json", cat("{\"top1\":", top1, ",\"steps\":30}\n"));
  }
  void add_weights(const fs::path& run) const {
    const fs::path checkpoints = folder_ / "out" / run / "checkpoints";
    fs::create_directories(checkpoints / "step-00000030");
    fs::create_directory_symlink("step-00000030", checkpoints / "last");
  }
  // Takes the place of dtn-analyze: notes its arguments and ends with `code`.
  void analyze_with(int code) {
    const std::string script = write(
        "analyze.sh", cat("echo \"$@\" > ", (folder_ / "arguments.txt").string(), "\nmkdir -p ",
                          (folder_ / "out/figures/f/figures").string(), "\nexit ", code, "\n"));
    options_.analyzer = {"/bin/sh", script};
  }

  test::TempFolder temporary_;
  fs::path folder_ = temporary_.path();
  SweepOptions options_;
};

TEST_F(CollectionFigures, TellWhatTheyWaitFor) {
  const SweepFigure f = figure("analyze: [one/ln, one/dtn, two/bn]");
  EXPECT_EQ(status(f).state, FigureState::kWaiting);
  EXPECT_EQ(status(f).text, "waits for 2 runs of one and 1 run of two");
  finish("one/ln/seed-0", 50);
  add_weights("one/ln/seed-0");
  finish("two/bn/seed-0", 40);
  EXPECT_EQ(status(f).text, "waits for 1 run of one");
  finish("one/dtn/seed-0", 60);
  EXPECT_EQ(status(f).state, FigureState::kWaiting);
  EXPECT_EQ(status(f).text,
            "needs the weights of one/dtn:0, two/bn:0, of which only the results are there");
  add_weights("one/dtn/seed-0");
  add_weights("two/bn/seed-0");
  EXPECT_EQ(status(f).state, FigureState::kReady);
  EXPECT_EQ(status(figure("illustrations: true")).state, FigureState::kReady);
}

TEST_F(CollectionFigures, ShowSharedRuns) {
  const SweepFigure f = figure("analyze: [two/same]");
  EXPECT_EQ(status(f).text, "waits for 1 run of two");
  finish("one/dtn/seed-0", 60);
  add_weights("one/dtn/seed-0");
  analyze_with(0);
  EXPECT_EQ(make_figure(f, options_, plan()), SweepStatus::kFinished);
  expect_contains(read("arguments.txt"),
                  "--checkpoint " + (options_.output / "one/dtn/seed-0").string() + " --name same");
}

TEST_F(CollectionFigures, AreMadeAgainFromOtherInputs) {
  for (const char* run : {"one/ln/seed-0", "one/dtn/seed-0"}) {
    finish(run, 50);
    add_weights(run);
  }
  analyze_with(0);
  const std::string entry = "analyze: [one/ln, one/dtn]";
  EXPECT_EQ(make_figure(figure(entry), options_, plan()), SweepStatus::kFinished);
  EXPECT_EQ(status(figure(entry)).state, FigureState::kMade);
  expect_contains(read("arguments.txt"), "--name ViT LN,dtn --output");
  EXPECT_EQ(status(figure(entry + ", pictures: [cka]")).state, FigureState::kMade);
  EXPECT_EQ(status(figure(entry + ", images: 8")).state, FigureState::kReady);
  EXPECT_EQ(status(figure(entry + ", before: true")).state, FigureState::kReady);
  EXPECT_EQ(status(figure("analyze: [one/dtn, one/ln]")).state, FigureState::kReady);
  finish("one/ln/seed-0", 51);  // trained again
  EXPECT_EQ(status(figure(entry)).state, FigureState::kReady);
  EXPECT_EQ(
      make_figure(figure(entry + ", before: true, images: 8, seed: 2, token: 3"), options_, plan()),
      SweepStatus::kFinished);
  expect_contains(read("arguments.txt"), "--before --images 8 --seed 2 --token 3 --output");
}

TEST_F(CollectionFigures, KeepFailures) {
  finish("one/ln/seed-0", 50);
  add_weights("one/ln/seed-0");
  const SweepFigure f = figure("analyze: [one/ln]");
  analyze_with(3);
  EXPECT_EQ(make_figure(f, options_, plan()), SweepStatus::kFailed);
  EXPECT_EQ(status(f).state, FigureState::kFailed);
  expect_contains(status(f).text, "failed (3), will be retried; see figures/f/analyze.log");
  EXPECT_EQ(status(figure("analyze: [one/ln], token: 1")).state, FigureState::kReady);
  write("out/figures/f/made.json", "{\"inputs\":");
  EXPECT_EQ(status(f).state, FigureState::kReady);
  analyze_with(0);
  EXPECT_EQ(make_figure(f, options_, plan()), SweepStatus::kFinished);
  EXPECT_EQ(status(f).state, FigureState::kMade);
  fs::remove_all(options_.output / "figures/f/figures");
  EXPECT_EQ(status(f).state, FigureState::kReady);
}

TEST_F(CollectionFigures, PageShowsWantedPictures) {
  write("out/figures/f/figures/illustration_p.svg", "<svg>from the file</svg>");
  const FigurePictures some =
      pictures_of(figure("illustrations: true, pictures: [illustration_p, cka]"), options_);
  ASSERT_EQ(some.shown.size(), 1u);
  EXPECT_EQ(some.shown[0].name, "f-illustration_p");
  EXPECT_EQ(some.shown[0].svg, "<svg>from the file</svg>");
  EXPECT_FALSE(some.shown[0].caption.empty() || some.shown[0].table.rows.empty());
  EXPECT_EQ(some.missing, (std::vector<std::string>{"cka"}));
  const FigurePictures all = pictures_of(figure("illustrations: true"), options_);
  EXPECT_EQ(all.shown.size() + all.missing.size(), 2u);
}

}  // namespace
}  // namespace dtn
