#include "config/key_synonyms.h"

#include <algorithm>
#include <cctype>

#include "config/document.h"

namespace dtn::config {

const std::vector<KeySynonym>& key_synonyms() {
  static const std::vector<KeySynonym> kSynonyms = {
      {"learning_rate", "optim.lr"},
      {"base_lr", "optim.lr"},
      {"blr", "optim.lr"},
      {"max_lr", "optim.lr"},
      {"wd", "optim.weight_decay"},
      {"decay_rate", "optim.weight_decay"},
      {"opt", "optim.name"},
      {"optimizer", "optim.name"},
      {"opt_eps", "optim.eps"},
      {"opt_betas", "optim.betas"},
      {"adam_epsilon", "optim.eps"},
      {"clip_grad", "optim.clip_grad_norm"},
      {"clip_norm", "optim.clip_grad_norm"},
      {"grad_clip", "optim.clip_grad_norm"},
      {"gradient_clip_val", "optim.clip_grad_norm"},
      {"max_grad_norm", "optim.clip_grad_norm"},
      {"max_norm", "optim.clip_grad_norm"},
      {"sched", "schedule.name"},
      {"scheduler", "schedule.name"},
      {"lr_scheduler_type", "schedule.name"},
      {"num_epochs", "schedule.epochs"},
      {"max_epochs", "schedule.epochs"},
      {"num_train_epochs", "schedule.epochs"},
      {"max_steps", "schedule.steps"},
      {"num_steps", "schedule.steps"},
      {"iterations", "schedule.steps"},
      {"lr_min", "schedule.min_lr"},
      {"eta_min", "schedule.min_lr"},
      {"b", "train.batch_size"},
      {"bs", "train.batch_size"},
      {"batch", "train.batch_size"},
      {"batchsize", "train.batch_size"},
      {"per_device_train_batch_size", "train.batch_size"},
      {"accum_iter", "train.micro_batch"},
      {"accumulate_grad_batches", "train.micro_batch"},
      {"grad_accum_steps", "train.micro_batch"},
      {"gradient_accumulation_steps", "train.micro_batch"},
      {"amp", "train.precision"},
      {"amp_dtype", "train.precision"},
      {"bf16", "train.precision"},
      {"dtype", "train.precision"},
      {"fp16", "train.precision"},
      {"half", "train.precision"},
      {"mixed_precision", "train.precision"},
      {"smoothing", "train.label_smoothing"},
      {"label_smoothing_factor", "train.label_smoothing"},
      {"model_ema", "train.ema"},
      {"model_ema_decay", "train.ema"},
      {"grad_checkpointing", "train.checkpoint_blocks"},
      {"gradient_checkpointing", "train.checkpoint_blocks"},
      {"save_steps", "train.checkpoint_every"},
      {"save_freq", "train.checkpoint_every"},
      {"eval_steps", "train.eval_every"},
      {"logging_steps", "train.log_every"},
      {"log_interval", "train.log_every"},
      {"save_total_limit", "train.keep"},
      {"arch", "model.preset"},
      {"img_size", "model.image_size"},
      {"imgsz", "model.image_size"},
      {"input_size", "model.image_size"},
      {"resolution", "model.image_size"},
      {"nb_classes", "model.num_classes"},
      {"num_labels", "model.num_classes"},
      {"drop_path_rate", "model.drop_path"},
      {"stochastic_depth", "model.drop_path"},
      {"dim", "model.embed_dim"},
      {"hidden_size", "model.embed_dim"},
      {"num_layers", "model.depth"},
      {"num_hidden_layers", "model.depth"},
      {"n_heads", "model.num_heads"},
      {"heads", "model.num_heads"},
      {"num_attention_heads", "model.num_heads"},
      {"norm_layer", "model.norm.type"},
      {"checkpoint", "model.init_weights"},
      {"finetune", "model.init_weights"},
      {"initial_checkpoint", "model.init_weights"},
      {"pretrained", "model.init_weights"},
      {"weights", "model.init_weights"},
      {"data_dir", "data.root"},
      {"data_path", "data.root"},
      {"data_root", "data.root"},
      {"imagenet_path", "data.root"},
      {"num_workers", "data.workers"},
      {"dataloader_num_workers", "data.workers"},
      {"train_dir", "data.train"},
      {"train_split", "data.train"},
      {"val_dir", "data.val"},
      {"val_split", "data.val"},
      {"crop_percent", "data.crop_pct"},
      {"aa", "augment.policy"},
      {"auto_augment", "augment.policy"},
      {"reprob", "augment.erase"},
      {"random_erasing", "augment.erase"},
      {"random_seed", "seed"},
  };
  return kSynonyms;
}

std::vector<std::string> paths_meant_by(const std::string& word,
                                        const std::set<std::string>& known) {
  std::string plain = word;
  for (char& c : plain) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const auto synonym =
      std::ranges::find_if(key_synonyms(), [&](const KeySynonym& s) { return plain == s.word; });
  if (synonym != key_synonyms().end()) return {synonym->path};
  std::vector<std::string> paths;
  for (const std::string& path : known) {
    if (leaf_of(path) == plain) paths.push_back(path);
  }
  return paths;
}

}  // namespace dtn::config
