#include "apps/common/commands.h"

#include <string>

#include "apps/common/program.h"
#include "dtn/app/analyze_main.h"
#include "dtn/app/average_main.h"
#include "dtn/app/bench_main.h"
#include "dtn/app/data_main.h"
#include "dtn/app/eval_main.h"
#include "dtn/app/export_main.h"
#include "dtn/app/get_main.h"
#include "dtn/app/info_main.h"
#include "dtn/app/plot_main.h"
#include "dtn/app/predict_main.h"
#include "dtn/app/sample_main.h"
#include "dtn/app/sweep_main.h"
#include "dtn/app/train_main.h"

namespace dtn::app {
namespace {

int sweep_with_our_trainer(int argc, char** argv, const Registries& registries) {
  return sweep_main(argc, argv, registries);
}

constexpr Example kTrain[] = {
    {"dtn-train --config fashion_mnist_dtn",
     "Trains a small model with DTN on Fashion-MNIST, in runs/fashion_mnist_dtn."},
    {"dtn-train photos --minutes 10",
     "Chooses a config for the images in the class folders of photos/, trains for ten minutes and "
     "reports errors."},
    {"dtn-train --config fashion_mnist_dtn --resume auto",
     "Goes on with that run where it stopped."},
    {"dtn-train --config fashion_mnist_dtn --set model.norm.type=ln --output runs/fashion_mnist_ln",
     "Trains the same model with LayerNorm."},
    {"dtn-train --config vit_s_star_dtn --print-config",
     "Prints a config with every default filled in."},
    {"dtn-train --config fashion_mnist_dtn --dry-run",
     "Estimates the memory and the time of a run on this machine."},
};
constexpr Example kEval[] = {
    {"dtn-eval --checkpoint runs/fashion_mnist_dtn",
     "Evaluates the best checkpoint of a run on the validation images."},
    {"dtn-eval --checkpoint runs/fashion_mnist_dtn/checkpoints/last --json",
     "Evaluates the last checkpoint, and prints JSON."},
    {"dtn-eval --checkpoint runs/fashion_mnist_dtn --save-logits logits.safetensors",
     "Writes the logits of every image, too."},
    {"dtn-eval --checkpoint runs/fashion_mnist_dtn --report errors --csv",
     "Writes a page on where the model is wrong, errors/report.html, and its numbers as JSON and "
     "CSV."},
    {"dtn-eval --checkpoint runs/fashion_mnist_dtn --task knn",
     "Classifies by the most similar training images, without the head of the model."},
};
constexpr Example kPredict[] = {
    {"dtn-predict --checkpoint runs/fashion_mnist_dtn shirt.png",
     "Names the five most probable classes of a picture."},
    {"dtn-predict --checkpoint runs/fashion_mnist_dtn --topk 1 --csv predictions.csv pictures",
     "Writes a table with the class of every picture in a folder."},
    {"dtn-predict --checkpoint runs/restore --output restored pictures",
     "Restores every picture in a folder, with an image-to-image model."},
};
constexpr Example kSample[] = {
    {"dtn-sample --checkpoint runs/fashion_mnist_dit_ln --classes 0,1,2,3,4,5,6,7,8 --output "
     "samples.png",
     "Draws an image of each of nine classes, in three rows."},
    {"dtn-sample --checkpoint runs/fashion_mnist_dit_ln --classes 7,7,7,7 --cfg-scale 3 --seed 5 "
     "--output shoes.png",
     "Draws four sneakers that follow their class more closely."},
    {"dtn-sample --checkpoint runs/fashion_mnist_dit_ln --classes 3,3 --sampler ddpm --steps 100 "
     "--save-samples samples.safetensors",
     "Writes two samples of the DDPM sampler as tensors."},
};
constexpr Example kAverage[] = {
    {"dtn-average runs/a runs/b runs/c --output soup.safetensors",
     "Writes the mean of the weights of three runs from the same weights."},
    {"dtn-average runs/a runs/b runs/c --greedy --output soup.safetensors",
     "Takes only those that improve the mean on the validation images."},
    {"dtn-average runs/a/checkpoints/step-* --output late.safetensors",
     "Averages all checkpoints that a run has kept."},
    {"dtn-average pretrained.safetensors runs/a --shares 0.5,0.5 --output between.safetensors",
     "Goes half of the way from the first weights to the second ones."},
};
constexpr Example kExport[] = {
    {"dtn-export --checkpoint runs/fashion_mnist_dtn --output fashion_mnist.onnx",
     "Writes the best checkpoint of a run as an ONNX file."},
    {"dtn-export --checkpoint runs/fashion_mnist_dtn/checkpoints/last --output last.onnx --opset "
     "20",
     "Writes the last checkpoint, with a newer version of ONNX's operators."},
    {"dtn-export --checkpoint runs/vit_s_ln --hub my_vit", "Writes a folder that timm loads."},
};
constexpr Example kAnalyze[] = {
    {"dtn-analyze --checkpoint runs/fashion_mnist_dtn",
     "Writes a report on the normalizers and the attention of a model, analysis/report.html."},
    {"dtn-analyze --checkpoint runs/fashion_mnist_dtn --checkpoint runs/fashion_mnist_ln "
     "--name DTN,LayerNorm --output compared",
     "Compares two models in one report."},
    {"dtn-analyze --before --checkpoint runs/fashion_mnist_dtn --output trained",
     "Compares a model with its state before training."},
    {"dtn-analyze --illustrations --output explained",
     "Draws the matrices of DTN with numbers, without a model."},
};
constexpr Example kPlot[] = {
    {"dtn-plot runs/fashion_mnist_dtn", "Draws the curves of a run, in plot/plot.html."},
    {"dtn-plot runs/fashion_mnist_dtn runs/fashion_mnist_ln --name DTN,LayerNorm --output curves",
     "Draws two runs in the same axes."},
};
constexpr Example kSweep[] = {
    {"dtn-sweep --config fashion_mnist_table3 --dry-run",
     "Lists the runs of a sweep, and the time that they need."},
    {"dtn-sweep --config fashion_mnist_table3",
     "Trains the runs that are not finished, and writes runs/fashion_mnist_table3/table.md."},
    {"dtn-sweep --config fashion_mnist_table3 --only ln,dtn --jobs 2",
     "Trains two of the variants only, two runs at a time."},
};
constexpr Example kInfo[] = {
    {"dtn-info --configs", "Lists the configs that --config takes by name."},
    {"dtn-info --config vit_s_star_dtn", "Counts parameters and multiply-adds of a model."},
    {"dtn-info --keys optim", "Explains the config keys that begin with optim."},
    {"source <(dtn-info --completion bash)", "Makes bash complete options, config names and keys."},
};
constexpr Example kGet[] = {
    {"dtn-get vit_tiny_patch16_224.augreg_in21k_ft_in1k",
     "Fetches a small vision transformer into the cache; --weights and --checkpoint then take its "
     "name."},
    {"dtn-get deit_small_patch16_224 --output deit_small",
     "Fetches timm's default release of a model into a folder, for a machine without a "
     "connection."},
    {"dtn-get timm/vit_small_patch14_dinov2.lvd142m@main",
     "Names a repository of the Hugging Face Hub and a revision."},
};
constexpr Example kData[] = {
    {"dtn-data stats --root data/imagenet --split train",
     "Counts the images of every class folder in data/imagenet/train."},
    {"dtn-data pack --root data/imagenet --split val --output data/imagenet/val.packed",
     "Writes the validation images into one file, for data.dataset packed."},
    {"dtn-data verify --dataset packed --root data/imagenet --split val",
     "Decodes every image of that file, and compares the checksums."},
    {"dtn-data corrupt --root data/imagenet --output data/imagenet-c --corruption fog,snow",
     "Makes two corruptions of ImageNet-C from the validation images."},
    {"dtn-data listops --output data/listops --seed 1 --train 1000 --val 100 --test 100",
     "Makes a small Long ListOps."},
    {"dtn-data shapes --output data/shapes --seed 1",
     "Makes a small data set for object detection, in COCO's layout."},
};
constexpr Example kBench[] = {
    {"dtn-bench train --config vit_s_star_dtn", "Measures training steps of a config."},
    {"dtn-bench norm --type ln --shape 64,196,192 --heads 3",
     "Measures LayerNorm, forward and backward, on 64 samples of 196 tokens with 192 channels."},
    {"dtn-bench data --config fashion_mnist_dtn --seconds 2",
     "Measures how fast images are decoded and augmented."},
};
constexpr Example kDtn[] = {
    {"dtn train --config fashion_mnist_dtn", "Trains a small model on Fashion-MNIST."},
    {"dtn eval --checkpoint runs/fashion_mnist_dtn", "Evaluates it."},
    {"dtn train --help", "Lists the options of a command."},
};

constexpr Command kCommands[] = {
    {"train", "dtn-train", "train a model from a config", train_main, kTrain,
     "dtn dtn-eval dtn-plot dtn-sweep dtn-info", "runs.md config.md scaling.md"},
    {"eval", "dtn-eval", "evaluate a checkpoint: top-1, top-5, loss, errors, robustness suites",
     eval_main, kEval, "dtn dtn-train dtn-predict dtn-analyze",
     "evaluation.md robustness.md frozen-features.md weights.md"},
    {"predict", "dtn-predict", "classify images with a trained model", predict_main, kPredict,
     "dtn dtn-eval dtn-export", "predict.md"},
    {"sample", "dtn-sample", "draw images from a diffusion model", sample_main, kSample,
     "dtn dtn-train dtn-eval", "sampling.md diffusion.md"},
    {"average", "dtn-average", "average the weights of several models", average_main, kAverage,
     "dtn dtn-train dtn-eval", "averaging.md weights.md"},
    {"export", "dtn-export", "write a model as an ONNX file, or for timm", export_main, kExport,
     "dtn dtn-eval dtn-predict", "export.md weights.md"},
    {"analyze", "dtn-analyze", "inspect a model: norms, heads and layers as numbers and figures",
     analyze_main, kAnalyze, "dtn dtn-eval dtn-plot", "analyze.md figures.md"},
    {"plot", "dtn-plot", "plot the curves of several runs together", plot_main, kPlot,
     "dtn dtn-train dtn-sweep dtn-analyze", "runs.md"},
    {"sweep", "dtn-sweep", "train variants with several seeds and tabulate the results",
     sweep_with_our_trainer, kSweep, "dtn dtn-train dtn-plot", "sweeps.md"},
    {"info", "dtn-info", "describe a model; list config keys, models, norms and presets", info_main,
     kInfo, "dtn dtn-train", "config.md normalizers.md"},
    {"get", "dtn-get", "fetch a public model from the Hugging Face Hub", get_main, kGet,
     "dtn dtn-info dtn-train dtn-eval", "weights.md finetuning.md"},
    {"data", "dtn-data", "pack, verify, describe and corrupt data sets", data_main, kData,
     "dtn dtn-train dtn-eval", "robustness.md sequences.md"},
    {"bench", "dtn-bench", "measure speed on this machine", bench_main, kBench, "dtn dtn-train",
     "speed.md"},
};

constexpr Command kDtnItself = {
    "",
    "dtn",
    "train vision transformers with the normalization layer of your choice",
    nullptr,
    kDtn,
    "dtn-train dtn-eval dtn-predict dtn-sample dtn-average dtn-export dtn-analyze dtn-plot "
    "dtn-sweep dtn-info dtn-get dtn-data dtn-bench",
    ""};

// Handles help, version, manual page and completion of `dtn`, and the error of an unknown command.
int describe_commands(int argc, char** argv) {
  CLI::App app{
      "Trains vision transformers with the normalization layer of your choice.\n"
      "`dtn COMMAND --help` lists the options of a command; `dtn-COMMAND` is the same program.",
      "dtn"};
  app.require_subcommand(1);
  for (const Command& command : kCommands) app.add_subcommand(command.name, command.doc);
  return run_program(app, argc, argv, Processes::kOne, [] { return static_cast<int>(kExitUsage); });
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

const Command& command_of_program(std::string_view program) {
  for (const Command& command : kCommands) {
    if (program == command.program) return command;
  }
  return kDtnItself;
}

int dtn_main(int argc, char** argv, const Registries& registries) {
  std::string_view called = argc > 0 ? argv[0] : "";
  called = called.substr(called.rfind('/') + 1);
  for (const Command& command : kCommands) {
    if (called == command.program) return command.run(argc, argv, registries);
  }
  if (argc > 1) {
    if (const Command* command = find_command(argv[1])) {
      return command->run(argc - 1, argv + 1, registries);
    }
  }
  return describe_commands(argc, argv);
}

}  // namespace dtn::app
