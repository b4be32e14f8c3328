// The values of a valid config: presets, defaults, every key, and writing them back.
#include <algorithm>

#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

TEST(Presets, HavePublishedShapes) {
  struct Row {
    const char* name;
    int embed_dim, num_heads, class_token_at;
    PosEmbed pos_embed;
    bool qkv_bias;
    double eps;
  };
  const Row rows[] = {
      {"vit_t", 192, 3, 10, PosEmbed::kPatch, false, 1e-5},
      {"vit_t_star", 192, 4, 10, PosEmbed::kPatch, false, 1e-5},
      {"vit_s", 384, 6, 10, PosEmbed::kPatch, false, 1e-5},
      {"vit_s_star", 432, 9, 10, PosEmbed::kPatch, false, 1e-5},
      {"vit_b", 768, 12, 10, PosEmbed::kPatch, false, 1e-5},
      {"vit_b_star", 768, 16, 10, PosEmbed::kPatch, false, 1e-5},
      {"deit_tiny", 192, 3, 0, PosEmbed::kAll, true, 1e-6},
      {"deit_small", 384, 6, 0, PosEmbed::kAll, true, 1e-6},
      {"deit_base", 768, 12, 0, PosEmbed::kAll, true, 1e-6},
  };
  const auto is_plain_vit = [](const PresetSchema& preset) {
    return preset.model.family == "vit" && preset.releases.empty();
  };
  ASSERT_EQ(std::ranges::count_if(preset_registry(), is_plain_vit), std::ssize(rows));
  for (const Row& row : rows) {
    const ModelConfig& m = preset_registry().at(row.name).model;
    SCOPED_TRACE(row.name);
    EXPECT_EQ(m.preset, row.name);
    EXPECT_EQ(m.embed_dim, row.embed_dim);
    EXPECT_EQ(m.num_heads, row.num_heads);
    EXPECT_EQ(m.class_token_at, row.class_token_at);
    EXPECT_EQ(m.pos_embed, row.pos_embed);
    EXPECT_EQ(m.qkv_bias, row.qkv_bias);
    EXPECT_EQ(m.eps, row.eps);
    EXPECT_EQ(m.patch_size, 16);
    EXPECT_EQ(m.image_size, 224);
    EXPECT_EQ(m.depth, 12);
    EXPECT_EQ(m.mlp_ratio, 4);
    EXPECT_EQ(m.norm.type, "ln");
  }
  const std::string error = parse_error("model: {preset: vit_sstar}");
  expect_contains(error, "did you mean 'vit_s_star'?");
  expect_contains(error, "deit_base");
}

// A single number is written back as a number, and a list as a list.
TEST(ConfigValues, AcceptOneNumberOrOnePerSideOrStage) {
  const ExperimentConfig wide = parse("model: {preset: vit_t, image_size: [96, 192]}");
  EXPECT_EQ(wide.model.image_size, ImageSize(96, 192));
  EXPECT_EQ(wide.model.grid_h(), 6);
  EXPECT_EQ(wide.model.grid_w(), 12);
  expect_contains(to_yaml(wide), "image_size: [96, 192]\n");
  EXPECT_EQ(parse(to_yaml(wide)), wide);
  const ExperimentConfig square = parse("model: {preset: vit_t, image_size: [96, 96]}");
  expect_contains(to_yaml(square), "image_size: 96\n");
  const ExperimentConfig one = parse("model: {preset: vit_t, depth: [4], num_heads: 4}");
  EXPECT_EQ(one.model.blocks(), 4);
  expect_contains(to_yaml(one), "depth: [4]\n");
  expect_contains(to_yaml(one), "num_heads: 4\n");
  EXPECT_EQ(parse(to_yaml(one)), one);
}

TEST(ConfigValues, ExpandToEveryStage) {
  ModelConfig m;
  m.embed_dim = {64, 128};
  m.depth = {2, 3};
  EXPECT_EQ(m.stages(), 2);
  EXPECT_EQ(m.blocks(), 5);
  m.depth = 3;
  EXPECT_EQ(m.stages(), 2);
  EXPECT_EQ(m.blocks(), 6);
  NormConfig norm;
  norm.options = {{"pool", std::vector<std::int64_t>{4, 2}}, {"only_var", true}};
  EXPECT_EQ(*norm.at_stage(1).find<std::int64_t>("pool"), 2);
  EXPECT_EQ(*norm.at_stage(1).find<bool>("only_var"), true);
  EXPECT_THROW(norm.at_stage(2), Error);
}

TEST(ConfigDefaults, MatchDocumentation) {
  const ExperimentConfig c = parse("model: {preset: vit_s_star, norm: dtn}");
  EXPECT_EQ(c.seed, 0u);
  EXPECT_EQ(c.model.norm.layers, std::nullopt);
  EXPECT_EQ(c.model.norm_layers(), 10);
  EXPECT_EQ(c.model.norm.eps, std::nullopt);
  EXPECT_FALSE(c.model.mhsa_position);
  EXPECT_EQ(c.data.dataset, "imagefolder");
  EXPECT_TRUE(c.data.shuffle);
  EXPECT_TRUE(c.data.mean.empty());
  EXPECT_EQ(c.data.size, std::nullopt);
  EXPECT_EQ(c.data.max_bad_images, 100);
  EXPECT_EQ(c.data.decode, DecodeMode::kAuto);
  EXPECT_EQ(c.augment.preset, AugmentPreset::kNone);
  EXPECT_EQ(c.augment.mix_off_epoch, std::nullopt);
  EXPECT_EQ(c.optim.name, "adamw");
  EXPECT_EQ(c.optim.weight_decay, 0.05);
  EXPECT_EQ(c.optim.beta1, 0.9);
  EXPECT_EQ(c.optim.beta2, 0.999);
  EXPECT_EQ(c.optim.eps, 1e-8);
  EXPECT_EQ(c.optim.lr_scale_batch, std::nullopt);
  EXPECT_EQ(c.optim.clip_grad_norm, std::nullopt);
  EXPECT_EQ(c.optim.layer_decay, std::nullopt);
  EXPECT_EQ(c.optim.lambda_lr_scale, 1);
  EXPECT_TRUE(c.optim.lr_multiples.empty());
  EXPECT_EQ(c.optim.nesterov, std::nullopt);
  EXPECT_EQ(c.schedule.name, "cosine");
  EXPECT_EQ(c.schedule.epochs, 300);  // exactly one of epochs and steps is set
  EXPECT_EQ(c.schedule.steps, std::nullopt);
  EXPECT_EQ(c.schedule.warmup_epochs, 0);
  EXPECT_EQ(c.train.precision, Precision::kFloat32);
  EXPECT_EQ(c.train.loss, LossKind::kCrossEntropy);
  EXPECT_EQ(c.train.label_smoothing, 0);
  EXPECT_EQ(c.train.bce_target_threshold, std::nullopt);
  EXPECT_EQ(c.train.class_weights, ClassWeights());
  EXPECT_EQ(c.train.focal_gamma, std::nullopt);
  EXPECT_EQ(c.data.sampling, Sampling::kUniform);
  EXPECT_EQ(c.train.ema, std::nullopt);
  EXPECT_FALSE(c.train.ema_warmup);
  EXPECT_EQ(c.train.micro_batch, std::nullopt);
  EXPECT_EQ(c.train.best, BestBy::kRaw);
}

TEST(ConfigDefaults, NormOptionsAreCompleteInSchemaOrder) {
  const ExperimentConfig c =
      parse("model: {preset: vit_t, norm: {init: trunc_normal, type: dtn, lambda: 0.25}}");
  ASSERT_EQ(c.model.norm.options.size(), 5u);
  EXPECT_EQ(c.model.norm.options[0].key, "variant");
  EXPECT_EQ(c.model.norm.options[1].key, "lambda");
  EXPECT_EQ(c.model.norm.options[2].key, "position");
  EXPECT_EQ(c.model.norm.options[3].key, "init");
  EXPECT_EQ(*c.model.norm.find<std::string>("variant"), "paper");
  EXPECT_EQ(*c.model.norm.find<double>("lambda"), 0.25);
  EXPECT_EQ(*c.model.norm.find<std::string>("init"), "trunc_normal");
  EXPECT_TRUE(parse("model: {preset: vit_t}").model.norm.options.empty());
}

TEST(NormKeys, OptionsOfEveryKind) {
  const auto norm = [](const std::string& n) {
    return parse("model: {preset: vit_t, norm: {" + n + "}}").model.norm;
  };
  EXPECT_EQ(*norm("type: gn, groups: 8").find<std::int64_t>("groups"), 8);
  EXPECT_EQ(*norm("type: gn, sync: true").find<bool>("sync"), true);
  EXPECT_EQ(*norm("type: gn, decay: 1").find<double>("decay"), 1.0);
  EXPECT_EQ(*norm("type: dtn, lambda: 1").find<double>("lambda"), 1.0);
  EXPECT_EQ(*norm("type: dtn, lambda: learnable").find<std::string>("lambda"), "learnable");
  EXPECT_EQ(*norm("type: dtn, lambda: null").find<std::string>("lambda"), "learnable");
  EXPECT_EQ(*norm("type: dtn, position: banded:5").find<std::string>("position"), "banded:5");
  EXPECT_EQ(norm("layers: 3, eps: 1e-6").layers, 3);
  EXPECT_EQ(norm("layers: 3, eps: 1e-6").eps, 1e-6);
}

TEST(ConfigKeys, FreezeIsReadAndWritten) {
  const auto freeze = [](const std::string& text) {
    const ExperimentConfig c = parse("model: {preset: vit_t}\ntrain: {freeze: " + text + "}");
    EXPECT_TRUE(parse(to_yaml(c)) == c) << text;
    return c.train.freeze;
  };
  EXPECT_EQ(freeze("none"), FreezeConfig());
  EXPECT_EQ(freeze("null"), FreezeConfig());
  EXPECT_EQ(freeze("[]"), FreezeConfig());
  EXPECT_EQ(freeze("backbone"), (FreezeConfig{true, {}}));
  EXPECT_EQ(freeze("[backbone]"), (FreezeConfig{false, {"backbone"}})) << "a pattern like others";
  EXPECT_EQ(freeze("[\"*.bias\", \"blocks.?.norm1.*\"]"),
            (FreezeConfig{false, {"*.bias", "blocks.?.norm1.*"}}));
}

TEST(ConfigKeys, ClassesAreLabelsAndRanges) {
  const auto classes = [](const std::string& text) {
    return parse("model: {preset: vit_t}\ndata: {classes: " + text + "}").data.classes;
  };
  EXPECT_EQ(classes("[0-4]"), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(classes("7"), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(classes("[9, 2-3, 0]"), (std::vector<std::int64_t>{9, 2, 3, 0}));
  EXPECT_TRUE(classes("null").empty());
}

// With prefix: ln, DTN accepts a class token that comes first, and is in all blocks by default.
TEST(NormKeys, PrefixDefaultsToAllBlocks) {
  const auto model = [](const std::string& norm) {
    return parse("model: {preset: deit_small, norm: {type: dtn" + norm + "}}").model;
  };
  EXPECT_EQ(model(", prefix: ln").norm_layers(), 12);
  EXPECT_EQ(model(", prefix: ln, layers: 11").norm_layers(), 11);
  EXPECT_EQ(parse("model: {preset: vit_s_star, norm: {type: dtn, prefix: ln}}").model.norm_layers(),
            12);
  EXPECT_EQ(parse("model: {preset: vit_s_star, norm: {type: dtn}}").model.norm_layers(), 10);
}

// Keys that exclude a complete grid in every block, which kEverything has.
const char* const kPrefix =
    "model: {preset: deit_tiny, class_token: true, distilled: true, registers: 4}";

TEST(ConfigKeys, PrefixTokensAreRead) {
  const ModelConfig m = parse(kPrefix).model;
  EXPECT_EQ(m.class_token, true);
  EXPECT_TRUE(m.distilled);
  EXPECT_EQ(m.registers, 4);
  EXPECT_EQ(m.prefix_tokens(), 6);
}

// Keys that binary cross-entropy and a fixed order exclude, which kEverything has.
const char* const kUneven =
    "model: {preset: vit_t, num_classes: 3}\ndata: {sampling: balanced}\n"
    "train: {loss: focal, focal_gamma: 0.5, class_weights: [0.25, 0, 3]}";

TEST(ConfigKeys, KeysForUnevenClassesAreRead) {
  const ExperimentConfig c = parse(kUneven);
  EXPECT_EQ(c.data.sampling, Sampling::kBalanced);
  EXPECT_EQ(c.train.loss, LossKind::kFocal);
  EXPECT_EQ(c.train.focal_exponent(), 0.5);
  EXPECT_EQ(c.train.class_weights, (ClassWeights{false, {0.25, 0, 3}}));
  const auto train = [](const std::string& text) {
    const ExperimentConfig one = parse("model: {preset: vit_t}\ntrain: {" + text + "}");
    EXPECT_TRUE(parse(to_yaml(one)) == one) << text;
    return one.train;
  };
  EXPECT_EQ(train("class_weights: balanced").class_weights, (ClassWeights{true, {}}));
  EXPECT_EQ(train("class_weights: none").class_weights, ClassWeights());
  EXPECT_EQ(train("class_weights: null").class_weights, ClassWeights());
  EXPECT_EQ(train("loss: focal").focal_exponent(), 2);
  EXPECT_EQ(train("loss: ce").focal_exponent(), 0);
}

const char* const kEverything = R"(
name: "a name: with # signs \" and \\ and \t"
seed: 18446744073709551615
model:
  preset: vit_b
  image_size: 96
  patch_size: 8
  channels: 2
  num_classes: 7
  embed_dim: 96
  depth: 5
  num_heads: 3
  mlp_ratio: 2.5
  mlp: swiglu_packed
  act: quick_gelu
  qkv_bias: true
  qk_norm: true
  class_token: false
  class_token_at: 2
  pos_embed: all
  pos_resize: bicubic_antialias
  pool: mean
  patch_bias: true
  norm_pre: true
  fc_norm: true
  layer_scale: 1e-4
  drop_path: 0.1
  drop_path_mode: constant
  dropout: 0.3333333333333333
  eps: 1e-6
  mhsa_position: true
  init_weights: ./w eights.safetensors
  init_head: reset
  init_image_size: [48, 80]
  norm: {type: dtn, layers: 4, eps: 1e-3, affine: false, variant: official, lambda: 0.1, position: relative}
data:
  dataset: idx
  root: "null"
  train: trn
  val: tst
  classes: [3-5, 0, 9]
  shuffle: false
  workers: 0
  mean: [0.1, 0.2]
  std: [0.3, 0.7000000000000001]
  crop_pct: 0.9
  interpolation: bilinear
  train_interpolation: random
  decode: fast
  repeats: 3
  max_bad_images: 0
augment: {preset: light, scale: [0.5, 0.75], ratio: [1, 1.5], hflip: 0, mixup: 1, mix_off_epoch: 9}
optim:
  name: sgd
  lr: 0.1
  layer_decay: 0.75
  lambda_lr_scale: 10
  lr_multiples: ["head.*=2", "a=b=0"]
  lr_scale_batch: 512
  weight_decay: 1e-4
  weight_decay_end: 0.4
  betas: [0, 0.95]
  eps: 1e-6
  momentum: 0.8
  nesterov: true
  ns_coefficients: quintic
  muon_scale: original
  clip_grad_norm: 5
  clip_adaptive: 0.01
  clip_adaptive_head: true
  decay: all
schedule: {name: constant, steps: 77, warmup_epochs: 0.5, warmup_lr: 0, min_lr: 2e-5, per: epoch}
train:
  batch_size: 24
  micro_batch: 8
  precision: bf16
  loss: bce
  label_smoothing: 0.1
  bce_target_threshold: 0.2
  bce_sum: true
  freeze: ["a*", b c]
  ema: 0.99996
  ema_warmup: true
  checkpoint_blocks: true
  log_every: 1
  eval_every: 100
  checkpoint_every: 2epochs
  keep: 0
  best: ema
distill:
  {teacher: t e, teacher_config: c, type: soft, alpha: 0.1, temperature: 3, reduction: elements}
)";

TEST(ConfigKeys, EveryKeyIsRead) {
  const ExperimentConfig c = parse(kEverything);
  EXPECT_EQ(c.name, "a name: with # signs \" and \\ and \t");
  EXPECT_EQ(c.seed, 18446744073709551615u);
  const ModelConfig& m = c.model;
  EXPECT_EQ(m.preset, "vit_b");
  EXPECT_EQ(m.image_size, 96);
  EXPECT_EQ(m.patch_size, 8);
  EXPECT_EQ(m.channels, 2);
  EXPECT_EQ(m.num_classes, 7);
  EXPECT_EQ(m.embed_dim, 96);
  EXPECT_EQ(m.depth, 5);
  EXPECT_EQ(m.num_heads, 3);
  EXPECT_EQ(m.mlp_ratio, 2.5);
  EXPECT_EQ(m.mlp, MlpKind::kSwigluPacked);
  EXPECT_EQ(m.act, MlpActivation::kQuickGelu);
  EXPECT_TRUE(m.qkv_bias);
  EXPECT_TRUE(m.qk_norm);
  EXPECT_EQ(m.class_token, false);
  EXPECT_EQ(m.drop_path_mode, DropPathMode::kConstant);
  EXPECT_EQ(m.pos_resize, PosResize::kBicubicAntialias);
  EXPECT_EQ(m.patch_bias, true);
  EXPECT_TRUE(m.norm_pre);
  EXPECT_TRUE(m.fc_norm);
  EXPECT_EQ(m.layer_scale, 1e-4);
  EXPECT_EQ(m.class_token_at, 2);
  EXPECT_EQ(m.pos_embed, PosEmbed::kAll);
  EXPECT_EQ(m.pool, Pooling::kMean);
  EXPECT_EQ(m.drop_path, 0.1);
  EXPECT_EQ(m.dropout, 0.3333333333333333);
  EXPECT_EQ(m.eps, 1e-6);
  EXPECT_EQ(m.init_weights, "./w eights.safetensors");
  EXPECT_EQ(m.init_head, InitHead::kReset);
  EXPECT_EQ(m.init_image_size, ImageSize(48, 80));
  EXPECT_EQ(m.norm.type, "dtn");
  EXPECT_EQ(m.norm.layers, 4);
  EXPECT_EQ(m.norm.eps, 1e-3);
  EXPECT_EQ(m.norm.affine, false);
  EXPECT_EQ(*m.norm.find<std::string>("variant"), "official");
  EXPECT_EQ(c.data.dataset, "idx");
  EXPECT_EQ(c.data.root, "null");
  EXPECT_EQ(c.data.train, "trn");
  EXPECT_EQ(c.data.val, "tst");
  EXPECT_EQ(c.data.classes, (std::vector<std::int64_t>{3, 4, 5, 0, 9}));
  EXPECT_FALSE(c.data.shuffle);
  EXPECT_EQ(c.data.workers, 0);
  EXPECT_EQ(c.data.mean, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(c.data.std, (std::vector<double>{0.3, 0.7000000000000001}));
  EXPECT_EQ(c.data.crop_pct, 0.9);
  EXPECT_EQ(c.data.interpolation, Interpolation::kBilinear);
  EXPECT_EQ(c.data.train_interpolation, TrainInterpolation::kRandom);
  EXPECT_EQ(c.data.decode, DecodeMode::kFast);
  EXPECT_EQ(c.data.repeats, 3);
  EXPECT_EQ(c.data.max_bad_images, 0);
  EXPECT_EQ(c.augment.preset, AugmentPreset::kLight);
  EXPECT_EQ(c.augment.scale_min, 0.5);
  EXPECT_EQ(c.augment.scale_max, 0.75);
  EXPECT_EQ(c.augment.ratio_min, 1);
  EXPECT_EQ(c.augment.ratio_max, 1.5);
  EXPECT_EQ(c.augment.hflip, 0);
  EXPECT_EQ(c.augment.mixup, 1);
  EXPECT_EQ(c.augment.mix_off_epoch, 9);
  EXPECT_EQ(c.optim.name, "sgd");
  EXPECT_EQ(c.optim.lr, 0.1);
  EXPECT_EQ(c.optim.lr_scale_batch, 512);
  EXPECT_EQ(c.optim.weight_decay, 1e-4);
  EXPECT_EQ(c.optim.beta1, 0);
  EXPECT_EQ(c.optim.beta2, 0.95);
  EXPECT_EQ(c.optim.eps, 1e-6);
  EXPECT_EQ(c.optim.momentum, 0.8);
  EXPECT_EQ(c.optim.nesterov, true);
  EXPECT_EQ(c.optim.ns_coefficients, NsCoefficients::kQuintic);
  EXPECT_EQ(c.optim.muon_scale, MuonScale::kOriginal);
  EXPECT_EQ(c.optim.weight_decay_end, 0.4);
  EXPECT_EQ(c.optim.clip_grad_norm, 5);
  EXPECT_EQ(c.optim.clip_adaptive, 0.01);
  EXPECT_TRUE(c.optim.clip_adaptive_head);
  EXPECT_EQ(c.optim.decay, DecayScope::kAll);
  EXPECT_EQ(c.optim.layer_decay, 0.75);
  EXPECT_EQ(c.optim.lambda_lr_scale, 10);
  EXPECT_EQ(c.optim.lr_multiples, (std::vector<RateMultiple>{{"head.*", 2}, {"a=b", 0}}));
  EXPECT_EQ(c.schedule.name, "constant");
  EXPECT_EQ(c.schedule.steps, 77);
  EXPECT_EQ(c.schedule.epochs, std::nullopt);
  EXPECT_EQ(c.schedule.warmup_epochs, 0.5);
  EXPECT_EQ(c.schedule.warmup_lr, 0);
  EXPECT_EQ(c.schedule.min_lr, 2e-5);
  EXPECT_EQ(c.schedule.per, SchedulePer::kEpoch);
  EXPECT_EQ(c.train.batch_size, 24);
  EXPECT_EQ(c.train.micro_batch, 8);
  EXPECT_EQ(c.train.precision, Precision::kBFloat16);
  EXPECT_EQ(c.train.loss, LossKind::kBinary);
  EXPECT_EQ(c.train.label_smoothing, 0.1);
  EXPECT_EQ(c.train.bce_target_threshold, 0.2);
  EXPECT_TRUE(c.train.bce_sum);
  EXPECT_EQ(c.train.freeze, (FreezeConfig{false, {"a*", "b c"}}));
  EXPECT_EQ(c.train.ema, 0.99996);
  EXPECT_TRUE(c.train.ema_warmup);
  EXPECT_TRUE(c.train.checkpoint_blocks);
  EXPECT_EQ(c.train.log_every, (Period{1, false}));
  EXPECT_EQ(c.train.eval_every, (Period{100, false}));
  EXPECT_EQ(c.train.checkpoint_every, (Period{2, true}));
  EXPECT_EQ(c.train.keep, 0);
  EXPECT_EQ(c.train.best, BestBy::kEma);
  EXPECT_EQ(c.distill.teacher, "t e");
  EXPECT_EQ(c.distill.teacher_config, "c");
  EXPECT_EQ(c.distill.type, DistillType::kSoft);
  EXPECT_EQ(c.distill.alpha, 0.1);
  EXPECT_EQ(c.distill.temperature, 3);
  EXPECT_EQ(c.distill.reduction, DistillReduction::kElements);
}

void expect_round_trip(const ExperimentConfig& c) {
  const std::string text = to_yaml(c);
  const ExperimentConfig again = parse(text);
  EXPECT_TRUE(again == c) << text;
  EXPECT_EQ(to_yaml(again), text);
}

TEST(ConfigRoundTrip, EveryKey) {
  const std::string text = to_yaml(parse(kEverything));
  expect_round_trip(parse(kEverything));
  expect_round_trip(parse(kPrefix));
  expect_round_trip(parse(kUneven));
  // Each value of kEverything differs from its default, so the round trip finds a key that is not
  // written. The checks below show that the layout is nested maps.
  expect_contains(text, "\nmodel:\n  preset: vit_b\n");
  expect_contains(text,
                  "  norm:\n    type: dtn\n    layers: 4\n    eps: 0.001\n    affine: false\n");
  expect_contains(text, "\n  classes: [3-5, 0, 9]\n");
  expect_contains(text, "\n  betas: [0, 0.95]\n");
  expect_contains(text, "\n  checkpoint_every: 2epoch\n");
}

// Vision transformers only: other families check their configs themselves.
TEST(ConfigRoundTrip, EveryPreset) {
  for (const PresetSchema& preset : preset_registry()) {
    const ModelConfig& m = preset.model;
    if (m.family != "vit" || !preset.releases.empty()) continue;
    expect_round_trip(parse("model: {preset: " + m.preset + "}"));
  }
}

TEST(ConfigRoundTrip, OddNumbersAndTexts) {
  ExperimentConfig c = parse("model: {preset: vit_t, norm: dtn}");
  for (double v : {5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1e22, 123456789.125}) {
    c.optim.lr = v;
    c.optim.clip_grad_norm = v;
    expect_round_trip(c);
  }
  c.optim.lr = 1;
  for (const char* s :
       {"~",   "null", "true", "1e3",      "- a", "[x",
        "{",   "a: b", "#",    "",         " a ", "%a",
        "&a",  "*a",   "!a",   "|",        ">",   "'",
        "\"",  "\\",   "a\nb", "\x01\x7f", "-",   "---",
        "...", "?",    "@",    "`",        ",",   "\xc3\xa9\xe2\x80\xa8\xf0\x9f\x8e\x89"}) {
    c.data.root = s;
    c.model.init_weights = s;
    expect_round_trip(c);
  }
}

TEST(ConfigRoundTrip, OtherYamlReadersSeeSameTypes) {
  ExperimentConfig c = parse("model: {preset: vit_t}\nschedule: {min_lr: 1e-5, warmup_lr: 1.5e-7}");
  c.name = "yes";
  c.data.root = "1.5";
  const std::string text = to_yaml(c);
  expect_contains(text, "name: \"yes\"\n");
  expect_contains(text, "root: \"1.5\"\n");
  expect_contains(text, "min_lr: 1.0e-05\n");
  expect_contains(text, "warmup_lr: 1.5e-07\n");
}

TEST(ConfigRoundTrip, DatasetsWithFewerKeys) {
  expect_round_trip(parse("model: {preset: vit_t}\ndata: {dataset: synthetic, size: 64}"));
  expect_round_trip(parse("model: {preset: vit_t}\ndata: {dataset: tensors, root: x, val: v}"));
  expect_round_trip(parse("model: {preset: vit_t}\ndata: {dataset: cifar100, mean: 0.5}"));
}

TEST(NullValues, UnsetsEveryKeyExceptPreset) {
  const ExperimentConfig plain = parse("model: {preset: vit_t}");
  const ExperimentConfig nulls = parse(R"(
name:
seed: null
model: {preset: vit_t, depth: ~, norm: null, init_weights: null, drop_path: null}
data: null
augment: ~
optim: {lr: null, betas: null, clip_grad_norm: null}
schedule: {steps: null, epochs: null, per: null}
train: {ema: null, micro_batch: null, eval_every: null}
)");
  EXPECT_TRUE(plain == nulls);
  expect_contains(parse_error("model: {preset: null}"), "t.yaml:1:17: model.preset is not set");
}

TEST(YamlNumbers, ReadsYamlNotations) {
  const auto lr = [](const std::string& v) {
    return parse("model: {preset: vit_t}\noptim: {lr: " + v + "}").optim.lr;
  };
  EXPECT_EQ(lr("1e-3"), 1e-3);
  EXPECT_EQ(lr("1E-3"), 1e-3);
  EXPECT_EQ(lr("+0.5"), 0.5);
  EXPECT_EQ(lr(".5"), 0.5);
  EXPECT_EQ(lr("3"), 3);
}

TEST(TaskOfConfig, IsReadFromAnyConfig) {
  EXPECT_EQ(task_of_config(to_yaml(parse("task: dream\nmodel: {preset: vit_t}"))), "dream");
  EXPECT_EQ(task_of_config("task: mine\nmodel: {preset: mine}\nother: 1"), "mine");
  EXPECT_EQ(task_of_config("model: {preset: vit_t}"), "classify");
  for (const char* text : {"task: [dino]", "task: {", "- dino", "\x01"}) {
    EXPECT_EQ(task_of_config(text), "") << text;
  }
}

TEST(ConfigShorthand, NormAndAugment) {
  EXPECT_TRUE(parse("model: {preset: vit_t, norm: dtn}") ==
              parse("model: {preset: vit_t, norm: {type: dtn}}"));
  EXPECT_TRUE(parse("model: {preset: vit_t}\naugment: light") ==
              parse("model: {preset: vit_t}\naugment: {preset: light}"));
}

}  // namespace
}  // namespace dtn::testing
