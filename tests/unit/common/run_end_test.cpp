#include "apps/common/run_end.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temp_folder.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

TEST(RunEnd, QuotesPathsForTheShell) {
  EXPECT_EQ(shell_word("runs/a-1.0"), "runs/a-1.0");
  EXPECT_EQ(shell_word("my runs/a"), "'my runs/a'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$(x)"), "'$(x)'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(RunEnd, NamesTheBestFigureAndTheFilesThatExist) {
  const test::TempFolder folder;
  const fs::path run = folder.path() / "run";
  fs::create_directories(run / "checkpoints/best");
  std::ofstream(run / "report.html") << "page";
  EXPECT_EQ(best_of_run(run), "") << "no summary";
  const auto best_with = [&](const std::string& best) {
    std::ofstream(run / "summary.json") << "{\"top1\": 1, \"best\": " << best << "}";
    return best_of_run(run);
  };
  EXPECT_EQ(best_with("null"), "");
  EXPECT_EQ(best_with("{\"step\": 7, \"weights\": \"raw\", \"map\": 0.98765}"),
            "mAP 0.9877 at step 7");
  EXPECT_EQ(best_with("{\"step\": 28, \"weights\": \"ema\", \"top1\": 87.594}"),
            "top-1 87.59 % at step 28, of the averaged weights");
  const std::string text =
      run_end_text(run, {{"report", run / "report.html"}, {"errors", run / "errors/report.html"}},
                   {"one", "two"});
  EXPECT_EQ(text,
            "best:         top-1 87.59 % at step 28, of the averaged weights\n"
            "checkpoint:   " +
                (run / "checkpoints/best").string() +
                "\n"
                "report:       " +
                (run / "report.html").string() +
                "\n"
                "\nNext: one\n      two\n");
}

TEST(RunEnd, CommandsSuitTheTask) {
  const auto first_of = [](const char* task, const char* dataset) {
    ExperimentConfig config;
    config.task = task;
    config.data.dataset = dataset;
    const auto commands = next_commands(config, "runs/a b");
    EXPECT_LE(commands.size(), 3u);
    std::string all;
    for (const std::string& command : commands) all += command + "\n";
    return all;
  };
  EXPECT_EQ(first_of("classify", "imagefolder"),
            "dtn-eval --checkpoint 'runs/a b' --report 'runs/a b/errors'\n"
            "dtn-predict --checkpoint 'runs/a b' IMAGE...\n"
            "dtn-export --checkpoint 'runs/a b' --output model.onnx\n");
  EXPECT_EQ(first_of("classify", "listops").find("predict"), std::string::npos);
  EXPECT_NE(first_of("diffusion", "idx").find("dtn-sample"), std::string::npos);
  EXPECT_NE(first_of("dino", "imagefolder").find("--task knn"), std::string::npos);
  EXPECT_NE(first_of("detect", "coco").find("dtn-predict"), std::string::npos);
}

// The best figure is that of the average, so the commands must read it.
TEST(RunEnd, CommandsReadTheWeightsThatAreBest) {
  ExperimentConfig config;
  config.train.ema = 0.9;
  EXPECT_EQ(next_commands(config, "run").at(1), "dtn-predict --checkpoint run IMAGE...");
  config.train.best = BestBy::kEma;
  for (const std::string& command : next_commands(config, "run")) {
    EXPECT_NE(command.find(" --checkpoint run --ema"), std::string::npos) << command;
  }
}

TEST(RunEnd, CommandsOfDiffusionNameTheImagesToDraw) {
  ExperimentConfig config;
  config.task = "diffusion";
  EXPECT_EQ(next_commands(config, "run").at(0),
            "dtn-sample --checkpoint run --classes 0 --output samples.png");
  config.model.num_classes = 0;
  EXPECT_EQ(next_commands(config, "run").at(0),
            "dtn-sample --checkpoint run --count 16 --output samples.png");
}

TEST(RunEnd, CommandsOfImageToImageModelsFitTheirConditions) {
  const auto second_of = [](const ModelConfig& model) {
    ExperimentConfig config;
    config.task = "translate";
    config.model = model;
    const auto commands = next_commands(config, "run");
    EXPECT_EQ(commands.at(0), "dtn-eval --checkpoint run --grid grid.png");
    return commands.size() > 1 ? commands[1] : "";
  };
  ModelConfig model;
  EXPECT_EQ(second_of(model), "dtn-predict --checkpoint run --output pictures IMAGE...");
  model.condition.from = ConditionFrom::kIndex;
  EXPECT_EQ(second_of(model), "dtn-predict --checkpoint run --style 0 --output pictures IMAGE...");
  model.condition.from = ConditionFrom::kImage;
  EXPECT_EQ(second_of(model),
            "dtn-predict --checkpoint run --style-image STYLE_IMAGE --output pictures IMAGE...");
  model.condition.from = ConditionFrom::kVector;
  EXPECT_EQ(second_of(model), "");
  model.condition.from.reset();
  model.channels = 4;
  EXPECT_EQ(second_of(model), "");
}

}  // namespace
}  // namespace dtn::app
