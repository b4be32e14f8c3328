// Invalid configs: the error names the place, the problem and valid values.
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

struct Case {
  const char* text;
  const char* at;    // "line:column"
  const char* what;  // part of the message
};

void expect_errors(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const std::string error = parse_error(c.text);
    EXPECT_TRUE(error.starts_with(cat("t.yaml:", c.at, ": "))) << c.at << "\n" << error;
    expect_contains(error, c.what);
  }
}

// The first line of a config, which names the model.
#define MODEL "model: {preset: vit_t}\n"

TEST(ConfigErrors, UnknownKeysSuggestNearest) {
  expect_errors({
      {MODEL "optim:\n  lrr: 1", "3:3", "unknown key 'optim.lrr'; did you mean 'optim.lr'?"},
      {MODEL "optimm: {lr: 1}", "2:1", "did you mean 'optim'?"},
      {MODEL "lr: 1", "2:1", "unknown key 'lr'; did you mean 'optim.lr'?"},
      {MODEL "train: {epochs: 1}", "2:9", "did you mean 'schedule.epochs'?"},
      {"model:\n  preset: vit_t\n  norm:\n    tpye: ln", "4:5", "did you mean 'model.norm.type'?"},
      {"model: {preset: vit_t, norm: {lamda: 1}}", "1:31", "did you mean 'model.norm.lambda'?"},
      {MODEL "optim.lr: 1", "2:1", "unknown key 'optim.lr'"},
      {MODEL "seed: {a: 1}", "2:7", "seed must be a whole number"},
      {MODEL "optim: 5", "2:8", "optim must be a map of"},
      {MODEL "optim: [1]", "2:8", "not a list"},
      {"model: {preset: vit_t, norm: [ln]}", "1:30", "model.norm must be a map"},
      {MODEL "data: {\"\\x01\": 1}", "2:8", "unknown key 'data.?'"},
      {MODEL "optim: {lrr: null}", "2:9", "unknown key"},
  });
}

TEST(ConfigErrors, RejectsConditionalNormalizers) {
  expect_errors({
      {"model:\n  preset: vit_t\n  norm:\n    type: ada", "4:11",
       "model.norm.type: 'ada' needs a condition, which a model does not have; see ada.h"},
      {"model: {preset: vit_t, norm: ada}", "1:30", "model.norm.type: 'ada' needs a condition"},
  });
  EXPECT_TRUE(parse_error(MODEL, {"model.norm.type=ada"}).find("needs a condition") !=
              std::string::npos);
}

TEST(ConfigErrors, WrongTypes) {
  expect_errors({
      {MODEL "optim: {lr: abc}", "2:13", "optim.lr must be a finite number, not 'abc'"},
      {MODEL "optim: {lr: \"1\"}", "2:13", "not the text '1'"},
      {MODEL "optim: {lr: nan}", "2:13", "finite number"},
      {MODEL "optim: {lr: .inf}", "2:13", "finite number"},
      {MODEL "optim: {lr: inf}", "2:13", "finite number"},
      {MODEL "optim: {lr: 1e999}", "2:13", "finite number"},
      {MODEL "optim: {lr: 0x10}", "2:13", "finite number"},
      {MODEL "optim: {lr: 1 2}", "2:13", "finite number"},
      {MODEL "optim: {lr: [1]}", "2:13", "not a list"},
      {MODEL "optim: {lr: true}", "2:13", "finite number"},
      {"model: {preset: vit_t, depth: 1.5}", "1:31", "model.depth must be a whole number"},
      {"model: {preset: vit_t, depth: 1e1}", "1:31", "whole number"},
      {"model: {preset: vit_t, depth: 99999999999999999999}", "1:31", "is too large"},
      {"model: {preset: vit_t, depth: 4294967297}", "1:31", "in [1, 1000]"},
      {"model: {preset: vit_t, depth: '3'}", "1:31", "not the text '3'"},
      {"model: {preset: vit_t, qkv_bias: yes}", "1:34", "must be true or false, not 'yes'"},
      {"model: {preset: vit_t, qkv_bias: True}", "1:34", "must be true or false"},
      {"model: {preset: vit_t, qkv_bias: 1}", "1:34", "must be true or false"},
      {"model: {preset: vit_t, pool: max}", "1:30", "must be one of cls, mean"},
      {"model: {preset: vit_t, pool: [cls]}", "1:30", "must be one of cls, mean, not a list"},
      {"model: {preset: vit_sstar}", "1:17", "did you mean 'vit_s_star'?"},
      {"model: {preset: [vit_s]}", "1:17", "must be the name of a preset"},
      {MODEL "data: {root: [a]}", "2:14", "data.root must be text"},
      {MODEL "data: {dataset: image_folder}", "2:17", "did you mean 'imagefolder'?"},
      {MODEL "data: {mean: []}", "2:14", "an empty list"},
      {MODEL "data: {mean: [0.5, a, 0.5]}", "2:20", "finite number, not 'a'"},
      {MODEL "data: {mean: abc}", "2:14", "finite number"},
      {MODEL "optim: {betas: 0.9}", "2:16", "must be a list of two numbers, not '0.9'"},
      {MODEL "optim: {betas: [0.9]}", "2:16", "not a list of 1"},
      {MODEL "optim: {betas: [0.9, 0.9, 0.9]}", "2:16", "not a list of 3"},
      {MODEL "optim: {betas: [0.9, x]}", "2:22", "finite number"},
      {MODEL "seed: -1", "2:7", "seed must be a whole number from 0"},
      {MODEL "seed: 18446744073709551616", "2:7", "seed must be a whole number from 0"},
      {MODEL "train: {log_every: 1.5}", "2:20", "like 1epoch, not '1.5'"},
      {MODEL "train: {log_every: epoch}", "2:20", "like 1epoch"},
      {MODEL "train: {log_every: 1epok}", "2:20", "like 1epoch"},
      {MODEL "train: {log_every: -1}", "2:20", "in [0, 1000000000000]"},
      {MODEL "train: {precision: fp16}", "2:20", "must be one of fp32, bf16, tf32"},
      {MODEL "name: [a]", "2:7", "name must be text"},
  });
}

TEST(ConfigErrors, ImpossibleValues) {
  expect_errors({
      {MODEL "optim: {lr: 0}", "2:13", "optim.lr must be above 0, not 0"},
      {MODEL "optim: {lr: -1e-3}", "2:13", "above 0"},
      {MODEL "optim: {weight_decay: -1}", "2:23", "at least 0"},
      {MODEL "optim: {betas: [1, 0.9]}", "2:17", "optim.betas must be in [0, 1), not 1"},
      {MODEL "optim: {betas: [0.9, -0.1]}", "2:22", "in [0, 1)"},
      {MODEL "optim: {eps: 0}", "2:14", "above 0"},
      {MODEL "optim: {momentum: 1}", "2:19", "in [0, 1)"},
      {MODEL "optim: {clip_grad_norm: -1}", "2:25", "at least 0"},
      {MODEL "optim: {lr_scale_batch: 0}", "2:25", "above 0"},
      {MODEL "train: {label_smoothing: 1}", "2:26", "in [0, 1)"},
      {MODEL "train: {label_smoothing: -0.1}", "2:26", "in [0, 1)"},
      {MODEL "train: {ema: 1}", "2:14", "in [0, 1)"},
      {MODEL "train: {batch_size: 0}", "2:21", "in [1, "},
      {MODEL "train: {batch_size: -4}", "2:21", "in [1, "},
      {MODEL "train: {micro_batch: 0}", "2:22", "in [1, "},
      {MODEL "train: {keep: -1}", "2:15", "in [0, "},
      {MODEL "schedule: {epochs: 0}", "2:20", "in [1, "},
      {MODEL "schedule: {steps: -1}", "2:19", "in [1, "},
      {MODEL "schedule: {warmup_epochs: -1}", "2:27", "in [0, "},
      {MODEL "schedule: {min_lr: -1}", "2:20", "at least 0"},
      {"model: {preset: vit_t, drop_path: 1}", "1:35", "in [0, 1)"},
      {"model: {preset: vit_t, dropout: -0.5}", "1:33", "in [0, 1)"},
      {"model: {preset: vit_t, eps: 0}", "1:29", "above 0"},
      {"model: {preset: vit_t, mlp_ratio: 0}", "1:35", "in (0, 64]"},
      {"model: {preset: vit_t, image_size: 8208}", "1:36", "in [1, 8192]"},
      {"model: {preset: vit_t, embed_dim: 65538}", "1:35", "in [1, 65536]"},
      {"model: {preset: vit_t, depth: 1001}", "1:31", "in [1, 1000]"},
      {"model: {preset: vit_t, num_heads: 0}", "1:35", "in [1, "},
      {"model: {preset: vit_t, num_classes: -1}", "1:37", "in [0, "},
      {"model: {preset: vit_t, registers: -1}", "1:35", "in [0, "},
      {"model: {preset: vit_t, act: mish}", "1:29", "gelu_tanh, quick_gelu"},
      {"model: {preset: vit_t, norm: {eps: 0}}", "1:36", "above 0"},
      {"model: {preset: vit_t, norm: {layers: -1}}", "1:39", "in [0, "},
      {MODEL "data: {crop_pct: 0}", "2:18", "in (0, 1]"},
      {MODEL "data: {crop_pct: 1.1}", "2:18", "in (0, 1]"},
      {MODEL "data: {std: 0}", "2:13", "above 0"},
      {MODEL "data: {std: [1, 1, -1]}", "2:13", "above 0"},
      {MODEL "data: {workers: -1}", "2:17", "in [0, "},
      {MODEL "data: {repeats: 0}", "2:17", "in [1, "},
      {MODEL "data: {dataset: synthetic, size: 0}", "2:34", "in [1, "},
      {MODEL "augment: {scale: [0, 1]}", "2:19", "in (0, 1]"},
      {MODEL "augment: {ratio: [0, 1]}", "2:19", "above 0"},
      {MODEL "augment: {hflip: 2}", "2:18", "in [0, 1]"},
      {MODEL "title: t\nvariants: []", "3:1", "`variants` is a key of sweeps; run this file with"},
      {"sweeps: [a]", "1:1", "dtn-sweep"},
      {"base_sweep: a", "1:1", "`base_sweep` is a key of sweeps"},
      {MODEL "name: ''", "2:7", "cannot name a run folder"},
      {MODEL "name: a/b", "2:7", "cannot name a run folder"},
      {MODEL "name: ..", "2:7", "cannot name a run folder"},
  });
}

TEST(ConfigErrors, ImpossibleCombinations) {
  expect_errors({
      {"model: {preset: vit_t, image_size: [224, 224, 3]}", "1:36",
       "one number or [height, width]"},
      {"model: {preset: vit_t, depth: []}", "1:31", "not an empty list"},
      {"model: {preset: vit_t, depth: [2], num_heads: [3, 3]}", "1:47", "a model of 1 stage;"},
      {"model: {preset: vit_t, mlp: swiglu}", "1:29", "swiglu_packed"},
      {"model: {preset: vit_t, norm: {type: gn, prefix: ln}}", "1:49",
       "is not read by the normalizer 'gn'; it is read by: dtn; remove it"},
      {"model: {preset: vit_t, num_classes: 2}\ndata: {classes: [0-2]}", "2:17",
       "3 classes, model.num_classes is 2; set that to 3"},
      {MODEL "data: {classes: [0, -1]}", "2:21", "ranges such as 0-4, not"},
      {MODEL "data: {classes: [3-1]}", "2:18", "ranges such as 0-4, not"},
      {MODEL "data: {classes: [0-99999999999]}", "2:18", "labels below 1000000"},
      {MODEL "data: {classes: [1, 2, 0-1]}", "2:17", "label 1 twice"},
      {MODEL "data: {classes: {a: 1}}", "2:17", "ranges such as 0-4, not"},
      {MODEL "train: {freeze: head}", "2:17", "none, backbone or a list of patterns"},
      {MODEL "train: {freeze: [[a]]}", "2:18", "none, backbone or a list of patterns"},
      {MODEL "train: {freeze: {a: b}}", "2:17", "none, backbone or a list of patterns"},
      {MODEL "augment: {policy: randm9}", "2:19",
       "'randm9' begins with none of none, three, rand; did you mean 'rand'?"},
      {MODEL "augment: {policy: rand-m9-m99}", "2:19", "m99 is too much"},
      {MODEL "augment: {policy: three-m9}", "2:19", "nothing follows `three`"},
      {MODEL "augment: {mix_off_epoch: 3}", "2:26", "where no batch is mixed"},
      {MODEL "augment: {preset: deit, blur: 0.5}", "2:31",
       "augment.blur means nothing for augment.preset deit; set dino or supcon, or remove it"},
      {MODEL "augment: {gray: 0.5}", "2:17", "augment.gray means nothing for augment.preset none"},
      {MODEL "augment: {solarize: 0.5}", "2:21", "augment.solarize means nothing"},
      {MODEL "augment: {preset: dino, mixup: 0.5}", "2:32",
       "augment.mixup means nothing for augment.preset dino; remove it"},
      {MODEL "augment: {preset: supcon, policy: three}", "2:35", "augment.policy means nothing"},
      {MODEL "augment: {preset: supcon, erase: 0.1}", "2:34", "augment.erase means nothing"},
      {MODEL "augment: {preset: dino, cutmix: 1}", "2:33", "augment.cutmix means nothing"},
      {MODEL "augment: {preset: dino, blur: [1, 0.5]}", "2:31", "augment.blur has 2 numbers"},
      {MODEL "augment: {preset: dino, blur: [1, 2, 0]}", "2:31", "in [0, 1]"},
      {MODEL "augment: {preset: deit, mix_off_epoch: 0}", "2:40", "in [1, "},
      {MODEL "augment: {preset: deit, policy: ''}", "2:33", "augment.policy"},
      {MODEL "optim: {name: adam}", "2:15", "must be one of adamw, sgd, lion"},
      {MODEL "optim: {name: lion, momentum: 0.9}", "2:31",
       "optim.momentum is not read by the optimizer 'lion'; it is read by: adamw, sgd; remove it"},
      {MODEL "optim: {layer_decay: 1.5}", "2:22", "in (0, 1]"},
      {MODEL "optim:\n  lr_multiples: [\"a=1\", \"head.*\"]", "3:25",
       "must be a list of texts like \"head.*=10\", not the text 'head.*'"},
      {MODEL "optim: {lr_multiples: [\"a=-1\"]}", "2:24", "must be at least 0"},
      {MODEL "optim: {lr_multiples: [3]}", "2:24", "must be a list of texts"},
      {MODEL "task: classified", "2:7", "did you mean 'classify'?"},
      {MODEL "augment: {scale: [0.5, 0.4]}", "2:18", "the least comes first"},
      {MODEL "augment: {ratio: [2, 1]}", "2:18", "the least comes first"},
      {MODEL "data: {mean: [0.5, 0.5]}", "2:14", "data.mean has 2 numbers for 3 channels"},
      {MODEL "data: {std: [1, 1, 1, 1]}", "2:13", "data.std has 4 numbers for 3 channels"},
      {"model: {preset: vit_t, channels: 1}\ndata: {mean: [1, 1, 1]}", "2:14", "for 1 channel;"},
      {MODEL "data: {size: 5}", "2:14",
       "data.size is not read by the data set 'imagefolder'; it is read by: synthetic; remove it"},
      {MODEL "data: {dataset: tensors, mean: 0.5}", "2:32", "data.mean is not read"},
      {MODEL "data: {dataset: cifar10, train: a}", "2:33", "data.train is not read"},
      {MODEL "train: {batch_size: 10, micro_batch: 3}", "2:38", "10 is not divisible by"},
      {MODEL "train: {batch_size: 10, micro_batch: 20}", "2:38", "not divisible"},
      {MODEL "distill: {alpha: 0.1}", "2:18", "means nothing without distill.teacher"},
      {MODEL "distill: {teacher: t}\ntask: regress", "2:20",
       "distill.teacher is not read by the task 'regress'; it is read by: classify; remove it"},
      {"model: {preset: vit_t, num_classes: 0}\ndistill: {teacher: t}", "2:20",
       "features have no classes to agree on"},
      {MODEL "train: {bce_sum: true}", "2:18", "train.bce_sum means nothing for train.loss: ce"},
      {MODEL "train: {bce_target_threshold: 0}", "2:31", "set train.loss: bce, or remove it"},
      {MODEL "train: {loss: bce, bce_target_threshold: 0, label_smoothing: 0.1}", "2:42",
       "makes every class right for every image: targets are 0.9001 at the label and 1.0e-04 "
       "elsewhere"},
      {MODEL "train: {loss: bce, bce_target_threshold: 0.9, label_smoothing: 0.2}", "2:42",
       "makes no class right for any image"},
      {MODEL "train: {focal_gamma: 1}", "2:22",
       "train.focal_gamma means nothing for train.loss: ce; set train.loss: focal, or remove it"},
      {MODEL "train: {loss: focal, bce_sum: true}", "2:31", "means nothing for train.loss: focal"},
      {MODEL "train: {loss: focal, focal_gamma: -1}", "2:35", "in [0, 100]"},
      {MODEL "train: {class_weights: even}", "2:24",
       "must be none, balanced or a list of weights, not 'even'"},
      {MODEL "train: {class_weights: [1, a]}", "2:28", "a list of weights, not 'a'"},
      {MODEL "train: {class_weights: [1, -1]}", "2:24", "at least 0"},
      {MODEL "train: {class_weights: [0, 0]}", "2:24", "must have a weight above 0"},
      {MODEL "train: {loss: bce, class_weights: balanced}", "2:35",
       "train.class_weights means nothing for train.loss: bce"},
      {MODEL "data: {sampling: balanced, shuffle: false}", "2:18",
       "data.sampling: balanced draws images at random, but data.shuffle is false"},
      {MODEL "data: {sampling: even}", "2:18", "uniform, balanced"},
      {MODEL "optim: {clip_adaptive_head: true}", "2:29", "without optim.clip_adaptive"},
      {MODEL "optim: {clip_param_norm: 3, clip_grad_norm: 1}", "2:26",
       "optim.clip_param_norm and optim.clip_grad_norm are both set"},
      {MODEL "optim: {clip_adaptive: 0.01, clip_param_norm: 3}", "2:47",
       "optim.clip_param_norm and optim.clip_adaptive are both set"},
      {MODEL "optim: {clip_param_norm: 0}", "2:26", "above 0"},
      {MODEL "optim: {weight_decay_end: -1}", "2:27", "at least 0"},
      {MODEL "optim: {nesterov: true}", "2:19",
       "optim.nesterov is not read by the optimizer 'adamw'"},
      {MODEL "train: {ema_warmup: true}", "2:21", "train.ema is not set"},
      {MODEL "train: {best: ema}", "2:15", "train.ema is not set"},
      {MODEL "schedule:\n  epochs: 3\n  steps: 5", "4:10", "are both set"},
      {MODEL "schedule:\n  steps: 5\n  epochs: 3", "4:11", "are both set"},
  });
  // Without a class token every block has the complete grid, and class_token_at has no effect.
  EXPECT_EQ(parse("model: {preset: vit_t, pool: mean, norm: {type: dtn, layers: 12}}")
                .model.norm_layers(),
            12);
  // A shallower model moves the block at which the class token joins.
  EXPECT_EQ(parse("model: {preset: vit_t, depth: 11}").model.class_token_at, 10);
  EXPECT_EQ(parse("model: {preset: vit_t, depth: 4}").model.class_token_at, 2);
  EXPECT_EQ(parse("model: {preset: vit_t, depth: 2}").model.class_token_at, 1);
  EXPECT_EQ(parse("model: {preset: vit_t, depth: 1}").model.class_token_at, 0);
  EXPECT_EQ(parse("model: {preset: deit_tiny, depth: 1}").model.class_token_at, 0);
  EXPECT_EQ(parse("model: {preset: vit_t, pool: mean, depth: 4, norm: dtn}").model.norm_layers(),
            4);
  EXPECT_EQ(parse("model: {preset: deit_small, norm: {type: gn, layers: 12}}").model.norm_layers(),
            12);
}

TEST(ConfigErrors, NormOptions) {
  expect_errors({
      {"model: {preset: vit_t, norm: dtm}", "1:30",
       "unknown normalizer 'dtm'; did you mean 'dtn'? Normalizers: ln, gn, dtn"},
      {"model: {preset: vit_t, norm: {type: [ln]}}", "1:37", "model.norm.type must be text"},
      {"model: {preset: vit_t, norm: {type: ln, lambda: 1}}", "1:49",
       "model.norm.lambda is not read by the normalizer 'ln'; it is read by: dtn"},
      {"model: {preset: vit_t, norm: {type: gn, lambda: 1}}", "1:49",
       "model.norm.lambda is not read by the normalizer 'gn'"},
      {"model: {preset: vit_t, norm: {variant: paper}}", "1:40",
       "model.norm.variant is not read by the normalizer 'ln'"},
      {"model: {preset: vit_t, norm: {type: dtn, lambda: 1.1}}", "1:50", "in [0, 1], not 1.1"},
      {"model: {preset: vit_t, norm: {type: dtn, lambda: fixed}}", "1:50",
       "must be learnable or a number in [0, 1], not 'fixed'"},
      {"model: {preset: vit_t, norm: {type: dtn, variant: papper}}", "1:51",
       "did you mean 'paper'?"},
      {"model: {preset: vit_t, norm: {type: dtn, variant: {a: 1}}}", "1:51", "not a map"},
      {"model: {preset: vit_t, norm: {type: dtn, position: banded:4}}", "1:52",
       "k odd and positive"},
      {"model: {preset: vit_t, norm: {type: dtn, position: banded:-3}}", "1:52",
       "k odd and positive"},
      {"model: {preset: vit_t, norm: {type: dtn, position: 'banded:'}}", "1:52", "must be one of"},
      {"model: {preset: vit_t, norm: {type: gn, groups: 65}}", "1:49", "in [1, 64]"},
      {"model: {preset: vit_t, norm: {type: gn, groups: 1.5}}", "1:49", "whole number"},
      {"model: {preset: vit_t, norm: {type: gn, sync: 1}}", "1:47", "true or false"},
      {"model: {preset: vit_t, norm: {type: gn, decay: x}}", "1:48", "finite number"},
  });
}

TEST(ConfigErrors, MissingPreset) {
  expect_errors({
      {"", "1:1", "model.preset is not set; choose one of vit_t"},
      {"# nothing", "1:1", "model.preset is not set"},
      {"seed: 1", "1:1", "model.preset is not set"},
      {"seed: 1\nmodel: {depth: 3}", "1:1", "model.preset is not set"},
      {"model:", "1:1", "model.preset is not set"},
  });
}

}  // namespace
}  // namespace dtn::testing
