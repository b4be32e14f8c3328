#include "config/keys.h"

#include "config/key_rows.h"

namespace dtn::config {
namespace {

std::vector<Key> make_keys() {
  std::vector<Key> table = {
      value(KEY(name), "name of the run and of its folder below runs/"),
      value(KEY(seed),
            "seed of all random numbers: initial weights, data order, masks and augmentation"),
      value(KEY(task), "task that the model learns; see dtn-info --tasks"),
  };
  for (auto part : {model_keys(), data_keys(), train_keys(), task_keys()}) {
    table.insert(table.end(), part.begin(), part.end());
  }
  return table;
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

const std::string& last_norm_key(const std::string& section) {
  const std::string* found = nullptr;
  for (const Key& key : keys()) {
    if (section_of(key.path) == section) found = &key.path;
  }
  return *found;
}

const NormConfig* norm_of(const ModelConfig& model, const std::string& section) {
  if (section == kNormSection) return &model.norm;
  return model.decoder_norm ? &*model.decoder_norm : nullptr;
}

}  // namespace dtn::config
