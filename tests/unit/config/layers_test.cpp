// Inherited files (base:) and --set overrides.
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

ExperimentConfig load(const std::string& path, const std::vector<std::string>& set = {}) {
  return load_experiment(path, set, fake_schemas());
}
std::string load_error(const std::string& path, const std::vector<std::string>& set = {}) {
  return error_of([&] { load(path, set); });
}

TEST(ConfigBase, DeeperFilesOverride) {
  TempFolder folder;
  folder.write("recipes/root.yaml", "optim: {lr: 1, momentum: 0.5}\nseed: 1\nmodel: {depth: 11}");
  folder.write("recipes/mid.yaml", "base: root.yaml\noptim: {lr: 2}\ntrain: {ema: 0.9}");
  const std::string top = folder.write(
      "x/top.yaml", "base: ../recipes/mid.yaml\nmodel: {preset: vit_s}\ntrain: {ema: null}");
  const ExperimentConfig c = load(top);
  EXPECT_EQ(c.seed, 1u);
  EXPECT_EQ(c.optim.lr, 2);
  EXPECT_EQ(c.optim.momentum, 0.5);
  EXPECT_EQ(c.model.embed_dim, 384);
  EXPECT_EQ(c.model.depth, 11);
  EXPECT_EQ(c.train.ema, std::nullopt);
}

TEST(ResampleKey, OldRunsWithoutKeyUsePillow12) {
  const auto text = [](const char* data) { return std::string("model: {preset: vit_t}\n") + data; };
  const std::string old = text(""), later = text("data: {resample: pillow13}");
  TempFolder folder;
  EXPECT_EQ(load(folder.write("config.yaml", old)).data.resample, Resample::kPillow13);
  const std::string file = folder.write("run/config.yaml", old);
  EXPECT_EQ(load(file).data.resample, Resample::kPillow13);
  folder.write("run/metrics.jsonl", "");  // now a run folder
  EXPECT_EQ(load(file).data.resample, Resample::kPillow12);
  EXPECT_EQ(load(file, {"data.resample=pillow13"}).data.resample, Resample::kPillow13);
  folder.write("run/other.yaml", old);
  EXPECT_EQ(load(folder.path() / "run/other.yaml").data.resample, Resample::kPillow13);
  EXPECT_EQ(load(folder.write("run/config.yaml", later)).data.resample, Resample::kPillow13);
  // A checkpoint's config is text without a path.
  EXPECT_EQ(parse(old).data.resample, Resample::kPillow12);
  EXPECT_EQ(parse(later).data.resample, Resample::kPillow13);
  EXPECT_EQ(parse(to_yaml(load(folder.write("new.yaml", old)))).data.resample, Resample::kPillow13);
}

TEST(ConfigBase, ReadsListInOrder) {
  TempFolder folder;
  folder.write("a.yaml", "model: {preset: vit_s}\nseed: 1");
  folder.write("b.yaml", "optim: {lr: 3}\nseed: 2");
  const ExperimentConfig c = load(folder.write("c.yaml", "base: [a.yaml, b.yaml]"));
  EXPECT_EQ(c.model.preset, "vit_s");
  EXPECT_EQ(c.optim.lr, 3);
  EXPECT_EQ(c.seed, 2u);
}

TEST(ConfigBase, ErrorsNameFile) {
  TempFolder folder;
  const std::string base = folder.write("base.yaml", "model: {preset: vit_t}\noptim: {lr: x}");
  const std::string top = folder.write("top.yaml", "base: base.yaml\nseed: 1");
  expect_contains(load_error(top), base + ":2:13: optim.lr must be a finite number");
  EXPECT_EQ(load(folder.write("ok.yaml", "base: base.yaml\noptim: {lr: 1}")).optim.lr, 1);

  folder.write("base.yaml", "model: {preset: vit_t, bogus: 1}");
  expect_contains(load_error(top), base + ":1:24: unknown key 'model.bogus'");
  folder.write("base.yaml", "model: {preset: vit_t, embed_dim: 200}");
  folder.write("top.yaml", "base: base.yaml\nmodel: {num_heads: 7}");
  expect_contains(load_error(top), top + ":2:20: model.embed_dim 200 is not divisible");
  folder.write("base.yaml", "seed: 2");
  expect_contains(load_error(top), top + ":1:1: model.preset is not set");
}

TEST(ConfigBase, FindsShippedConfigByName) {
  TempFolder folder;
  const ExperimentConfig c = load(folder.write("c.yaml", "base: vit_s_star_dtn\nseed: 9"));
  EXPECT_EQ(c.model.preset, "vit_s_star");
  EXPECT_EQ(c.seed, 9u);
  // This file has priority over the shipped config.
  folder.write("vit_s_star_dtn", "model: {preset: vit_t}\nschedule: {steps: 1}");
  EXPECT_EQ(load(folder.write("c.yaml", "base: vit_s_star_dtn")).model.preset, "vit_t");
}

TEST(ConfigBase, RejectsCyclesAndMissingFiles) {
  TempFolder folder;
  const std::string a = folder.write("a.yaml", "base: b.yaml");
  const std::string b = folder.write("b.yaml", "seed: 1\nbase: ./c.yaml");
  const std::string c = folder.write("c.yaml", "base: a.yaml");
  expect_contains(load_error(a),
                  c + ":1:7: base: goes round in a circle: a.yaml -> b.yaml -> c.yaml -> a.yaml");
  folder.write("c.yaml", "base: c.yaml");
  expect_contains(load_error(a), "c.yaml -> c.yaml");
  folder.write("c.yaml", "base: none.yaml");
  expect_contains(load_error(a), c + ":1:7: base: no file '");
  expect_contains(load_error(a), "none.yaml', and no config 'none.yaml'. Looked for: ");
  folder.write("c.yaml", "base: .");
  expect_contains(load_error(a), "base: a folder, not a file");
  folder.write("c.yaml", "base: {a: 1}");
  expect_contains(load_error(a), c + ":1:7: base must be a file name");
  folder.write("c.yaml", "base: [[x]]");
  expect_contains(load_error(a), c + ":1:8: base must be a file name");
  folder.write("c.yaml", "base: []");
  expect_contains(load_error(a), "base must be a file name");
  expect_contains(parse_error("base: a.yaml\nmodel: {preset: vit_t}"),
                  "t.yaml:1:1: base: is for files only");
  expect_contains(load_error((folder.path() / "none.yaml").string()), "cannot open the config");
  expect_contains(load_error(folder.path().string()), "a folder, not a file");
}

TEST(ConfigBase, BoundsDepthAndNumberOfFiles) {
  TempFolder folder;
  for (int i = 0; i < 30; ++i) {
    const std::string next = cat("f", i + 1, ".yaml");
    folder.write(cat("f", i, ".yaml"), cat("base: ", next));
  }
  folder.write("f30.yaml", "model: {preset: vit_t}");
  expect_contains(load_error((folder.path() / "f0.yaml").string()), "files deep");
  for (int i = 0; i < 12; ++i) {
    const std::string next = cat("g", i + 1, ".yaml");
    folder.write(cat("g", i, ".yaml"), cat("base: [", next, ", ", next, "]"));
  }
  folder.write("g12.yaml", "model: {preset: vit_t}");
  expect_contains(load_error((folder.path() / "g0.yaml").string()), "more than 64 files in all");
}

const char* const kFile = R"(
model: {preset: vit_t, norm: {type: dtn, variant: official, lambda: 0.5, layers: 3}}
data: {dataset: idx, root: r, train: trn, mean: 0.5, crop_pct: 0.9}
schedule: {epochs: 5}
train: {batch_size: 64, micro_batch: 32}
)";

TEST(ConfigOverrides, OverridesValues) {
  const ExperimentConfig c =
      parse(kFile, {"optim.lr=1e-2", "optim.betas=[0.5, 0.6]", "seed=7", "train.ema=0.9",
                    "data.root=/a b/#c: d", "name=\"q: 1\"", "train.eval_every=2epoch", "seed=8",
                    "augment={preset: light, hflip: 0.25}", " model.depth = 11 "});
  EXPECT_EQ(c.optim.lr, 1e-2);
  EXPECT_EQ(c.optim.beta1, 0.5);
  EXPECT_EQ(c.optim.beta2, 0.6);
  EXPECT_EQ(c.seed, 8u);
  EXPECT_EQ(c.train.ema, 0.9);
  EXPECT_EQ(c.data.root, "/a b/#c: d");
  EXPECT_EQ(c.name, "q: 1");
  EXPECT_EQ(c.train.eval_every, (Period{2, true}));
  EXPECT_EQ(c.augment.preset, AugmentPreset::kLight);
  EXPECT_EQ(c.augment.hflip, 0.25);
  EXPECT_EQ(parse(kFile, {"data.mean=null"}).data.mean.size(), 0u);
  EXPECT_EQ(parse(kFile, {"data.mean="}).data.mean.size(), 0u);
}

TEST(ConfigOverrides, ErrorsNameOverride) {
  const auto expect = [](const std::string& set, const std::string& error) {
    SCOPED_TRACE(set.substr(0, 80));
    expect_contains(parse_error(kFile, {set}), error);
  };
  expect("optim.lr=abc", "--set optim.lr=abc: optim.lr must be a finite number, not 'abc'");
  expect("optim.lrr=1", "--set optim.lrr=1: unknown key 'optim.lrr'; did you mean 'optim.lr'?");
  expect("lr=1", "did you mean 'optim.lr'?");
  expect("optim=5", "--set optim=5: optim must be a map");
  expect("optim.lr.x=1", "--set optim.lr.x=1: optim.lr must be a finite number, not a map");
  expect("optim.lr", "an override is written key.path=value");
  expect("=1", "an override is written key.path=value");
  expect("optim..lr=1", "not a key path");
  expect(".seed=1", "not a key path");
  expect("optim.=1", "not a key path");
  expect(" =1", "not a key path");
  expect("a.b.c.d.e.f.g.h.i.j=1", "not a key path");
  expect("base=x.yaml", "base cannot be overridden");
  expect("optim.betas=[0.9, 1]", "--set optim.betas=[0.9, 1]: optim.betas must be in [0, 1)");
  expect("optim.betas=[0.9",
         "--set optim.betas=[0.9: a key must be plain text, not a list or a map; is a bracket");
  expect("optim={lr: 1, lr: 2}", "--set optim={lr: 1, lr: 2}: duplicate key 'lr'");
  expect("model.num_heads=5", "--set model.num_heads=5: model.embed_dim 192 is not divisible");
  expect("model.preset=null", "--set model.preset=null: model.preset is not set");
  expect("train.micro_batch=7", "--set train.micro_batch=7: train.batch_size 64 is not divisible");
  expect("train.batch_size=48", "--set train.batch_size=48: train.batch_size 48 is not divisible");
  expect("data.root=\xff", "not valid UTF-8");
  expect("data.root=a\nb", "a single line");
  expect("data.root=" + std::string(5000, 'a'), "a value of 5000 bytes");
  expect("data.root=[1, " + std::string(5000, '['), "--set data.root=[1, [[[");
}

TEST(ConfigOverrides, ExplicitKeysOverridePreset) {
  const char* text = "model: {preset: vit_t, depth: 11}";
  const ExperimentConfig c = parse(text, {"model.preset=deit_base"});
  EXPECT_EQ(c.model.embed_dim, 768);
  EXPECT_EQ(c.model.class_token_at, 0);
  EXPECT_TRUE(c.model.qkv_bias);
  EXPECT_EQ(c.model.depth, 11);
  EXPECT_EQ(parse(text, {"model.depth=null"}).model.depth, 12);
}

TEST(ConfigOverrides, NewNormalizerDropsOldOptions) {
  const ExperimentConfig ln = parse(kFile, {"model.norm.type=ln"});
  EXPECT_EQ(ln.model.norm.type, "ln");
  EXPECT_TRUE(ln.model.norm.options.empty());
  EXPECT_EQ(ln.model.norm.layers, 3);
  EXPECT_TRUE(parse(kFile, {"model.norm=ln"}) == ln);
  const ExperimentConfig gn = parse(kFile, {"model.norm.groups=2", "model.norm.type=gn"});
  EXPECT_EQ(*gn.model.norm.find<std::int64_t>("groups"), 2);
  // Setting the same type again drops nothing.
  EXPECT_TRUE(parse(kFile, {"model.norm.type=dtn"}) == parse(kFile));
  expect_contains(parse_error(kFile, {"model.norm.type=ln", "model.norm.variant=paper"}),
                  "--set model.norm.variant=paper: model.norm.variant is not read by");
  expect_contains(parse_error(kFile, {"model.norm.groups=2"}), "--set model.norm.groups=2: ");
}

TEST(ConfigOverrides, NewDatasetDropsOldKeys) {
  const ExperimentConfig s = parse(kFile, {"data.dataset=synthetic", "data.size=9"});
  EXPECT_EQ(s.data.size, 9);
  EXPECT_EQ(s.data.train, std::nullopt);
  EXPECT_EQ(s.data.crop_pct, 0.9);
  const ExperimentConfig t = parse(kFile, {"data.dataset=tensors"});
  EXPECT_TRUE(t.data.mean.empty());
  EXPECT_EQ(t.data.train, std::nullopt);
  EXPECT_EQ(t.data.root, "r");
  EXPECT_EQ(parse(kFile, {"data.dataset=idx"}).data.train, "trn");
  expect_contains(parse_error(kFile, {"data.dataset=tensors", "data.mean=1"}),
                  "--set data.mean=1: data.mean is not read by the data set 'tensors'");
  // A file without data.dataset means the default data set.
  EXPECT_EQ(parse("model: {preset: vit_t}\ndata: {train: a}", {"data.dataset=cifar10"}).data.train,
            std::nullopt);
}

TEST(ConfigOverrides, NewOptimizerDropsOldHyperparameters) {
  const char* const file =
      "model: {preset: vit_t}\n"
      "optim: {betas: [0.8, 0.9], momentum: 0.5, lr: 0.1, clip_grad_norm: 3}";
  const OptimConfig lion = parse(file, {"optim.name=lion"}).optim;
  EXPECT_EQ(lion.beta1, 0.9);
  EXPECT_EQ(lion.beta2, 0.99);
  EXPECT_EQ(lion.momentum, std::nullopt);
  EXPECT_EQ(lion.lr, 0.1);
  EXPECT_EQ(lion.clip_grad_norm, 3);
  EXPECT_EQ(parse(file, {"optim.name=lion", "optim.betas=[0.8, 0.9]"}).optim.beta2, 0.9);
  EXPECT_EQ(parse(file, {"optim.name=adamw"}).optim.beta2, 0.9) << "the same";
  EXPECT_EQ(parse(file, {"optim.name=sgd"}).optim.momentum, 0.5) << "both do without";
  const std::string resolved = to_yaml(parse(file, {"optim.name=lion"}));
  EXPECT_EQ(parse(resolved).optim, lion);
  EXPECT_EQ(parse(resolved, {"optim.name=adamw"}).optim.beta2, 0.999);
}

// LAMB clips by default, and null restores the default.
TEST(ConfigOverrides, ZeroTurnsClippingOfLambOff) {
  const char* const lamb = "model: {preset: vit_t}\noptim: {name: lamb}";
  EXPECT_EQ(parse(lamb).optim.clip_grad_norm, 1);
  EXPECT_EQ(parse(lamb, {"optim.clip_grad_norm=null"}).optim.clip_grad_norm, 1);
  const ExperimentConfig off = parse(lamb, {"optim.clip_grad_norm=0", "optim.clip_param_norm=3"});
  EXPECT_EQ(off.optim.clip_grad_norm, 0);
  EXPECT_EQ(parse(to_yaml(off)).optim, off.optim);
  expect_contains(parse_error(lamb, {"optim.clip_param_norm=3"}), "optim.clip_grad_norm: 0");
}

TEST(ConfigOverrides, OverridesScheduleLength) {
  const ExperimentConfig c = parse(kFile, {"schedule.steps=9"});
  EXPECT_EQ(c.schedule.steps, 9);
  EXPECT_EQ(c.schedule.epochs, std::nullopt);
  const ExperimentConfig e =
      parse("model: {preset: vit_t}\nschedule: {steps: 5}", {"schedule.epochs=2"});
  EXPECT_EQ(e.schedule.steps, std::nullopt);
  EXPECT_EQ(e.schedule.epochs, 2);
  expect_contains(parse_error(kFile, {"schedule.steps=9", "schedule.epochs=1"}), "both set");
  EXPECT_EQ(parse(kFile, {"schedule.steps=null"}).schedule.epochs, 5);
  // A written config has both keys; one of them is null.
  EXPECT_EQ(parse(to_yaml(c), {"schedule.epochs=4"}).schedule.epochs, 4);
}

TEST(ConfigOverrides, SmallerBatchDropsMicroBatch) {
  EXPECT_EQ(parse(kFile, {"train.batch_size=16"}).train.micro_batch, std::nullopt);
  EXPECT_EQ(parse(kFile, {"train.batch_size=96"}).train.micro_batch, 32);
  expect_contains(parse_error(kFile, {"train.batch_size=16", "train.micro_batch=32"}),
                  "not divisible");
}

TEST(ConfigBase, OverridesChoicesOfBase) {
  TempFolder folder;
  folder.write("base.yaml", kFile);
  const ExperimentConfig c =
      load(folder.write("top.yaml",
                        "base: base.yaml\nmodel: {norm: ln}\nschedule: {steps: 3}\n"
                        "data: {dataset: synthetic}"));
  EXPECT_EQ(c.model.norm.type, "ln");
  EXPECT_EQ(c.schedule.steps, 3);
  EXPECT_EQ(c.schedule.epochs, std::nullopt);
  EXPECT_TRUE(c.data.mean == std::vector<double>{0.5});
}

}  // namespace
}  // namespace dtn::testing
