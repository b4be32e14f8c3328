#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "config/document.h"
#include "config/key_docs.h"

namespace dtn::config {
namespace {

// A key, and its names in other programs, separated by spaces.
constexpr std::pair<const char*, const char*> kSynonyms[] = {
    {"optim.lr", "learning_rate base_lr blr max_lr"},
    {"optim.weight_decay", "wd decay_rate"},
    {"optim.name", "opt optimizer"},
    {"optim.eps", "opt_eps adam_epsilon"},
    {"optim.betas", "opt_betas"},
    {"optim.clip_grad_norm",
     "clip_grad clip_norm grad_clip gradient_clip_val max_grad_norm max_norm"},
    {"schedule.name", "sched scheduler lr_scheduler_type"},
    {"schedule.epochs", "num_epochs max_epochs num_train_epochs"},
    {"schedule.steps", "max_steps num_steps iterations"},
    {"schedule.min_lr", "lr_min eta_min"},
    {"train.batch_size", "b bs batch batchsize per_device_train_batch_size"},
    {"train.micro_batch",
     "accum_iter accumulate_grad_batches grad_accum_steps gradient_accumulation_steps"},
    {"train.precision", "amp amp_dtype bf16 dtype fp16 half mixed_precision"},
    {"train.label_smoothing", "smoothing label_smoothing_factor"},
    {"train.class_weights", "class_weight cls_weights loss_weights"},
    {"train.focal_gamma", "fl_gamma"},
    {"data.sampling", "sampler balanced_sampling weighted_random_sampler weighted_sampler"},
    {"train.ema", "model_ema model_ema_decay"},
    {"train.checkpoint_blocks", "grad_checkpointing gradient_checkpointing"},
    {"train.early_stop.patience", "early_stopping early_stopping_patience"},
    {"train.checkpoint_every", "save_steps save_freq"},
    {"train.eval_every", "eval_steps"},
    {"train.log_every", "logging_steps log_interval"},
    {"train.keep", "save_total_limit"},
    {"train.keep_every", "saveckp_freq"},
    {"model.preset", "arch"},
    {"model.image_size", "img_size imgsz input_size resolution"},
    {"model.num_classes", "nb_classes num_labels"},
    {"model.drop_path", "drop_path_rate stochastic_depth"},
    {"model.embed_dim", "dim hidden_size"},
    {"model.depth", "num_layers num_hidden_layers"},
    {"model.num_heads", "n_heads heads num_attention_heads"},
    {"model.norm.type", "norm_layer"},
    {"model.init_weights", "checkpoint finetune initial_checkpoint pretrained weights"},
    {"data.root", "data_dir data_path data_root imagenet_path"},
    {"data.workers", "num_workers dataloader_num_workers"},
    {"data.train", "train_dir train_split"},
    {"data.val", "val_dir val_split"},
    {"data.class_names", "class_map classes_file names_file"},
    {"data.labels", "csv label_file labels_file annotations"},
    {"data.split", "validation_split val_fraction val_ratio val_size"},
    {"data.crop_pct", "crop_percent"},
    {"augment.policy", "aa auto_augment"},
    {"augment.erase", "reprob random_erasing"},
    {"seed", "random_seed"},
};

}  // namespace

const std::vector<KeySynonym>& key_synonyms() {
  static const std::vector<KeySynonym> all = [] {
    std::vector<KeySynonym> rows;
    for (const auto& [path, words] : kSynonyms) {
      std::istringstream in(words);
      for (std::string word; in >> word;) rows.push_back({word, path});
    }
    return rows;
  }();
  return all;
}

std::vector<std::string> paths_meant_by(const std::string& word,
                                        const std::set<std::string>& known) {
  std::string plain = word;
  for (char& c : plain) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const auto synonym = std::ranges::find(key_synonyms(), plain, &KeySynonym::word);
  if (synonym != key_synonyms().end()) return {synonym->path};
  std::vector<std::string> paths;
  for (const std::string& path : known) {
    if (leaf_of(path) == plain) paths.push_back(path);
  }
  return paths;
}

}  // namespace dtn::config
