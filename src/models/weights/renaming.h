// Building blocks of the translations of tensor names.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dtn/core/check.h"

namespace dtn {

// A part of a name in a file, and the model's name for it.
struct Renaming {
  std::string_view theirs, ours;
};

// Replaces the beginning of a name by the first renaming that fits.
inline std::string replace_beginning(std::string_view name, std::span<const Renaming> renamings) {
  for (const Renaming& r : renamings) {
    if (name.starts_with(r.theirs)) return cat(r.ours, name.substr(r.theirs.size()));
  }
  return std::string(name);
}

// Replaces the first occurrence of each part.
inline void replace_parts(std::string& name, std::span<const Renaming> renamings) {
  for (const Renaming& r : renamings) {
    const std::size_t at = name.find(r.theirs);
    if (at != std::string::npos) name.replace(at, r.theirs.size(), r.ours);
  }
}

// The number after `beginning` in a name, and the rest: 1 and ".blocks.0.norm1.weight" of
// "stages.1.blocks.0.norm1.weight" after "stages.". Nothing if the name begins otherwise.
struct Numbered {
  int number;
  std::string_view rest;
};
inline std::optional<Numbered> numbered(std::string_view name, std::string_view beginning) {
  if (!name.starts_with(beginning)) return {};
  name.remove_prefix(beginning.size());
  Numbered found{};
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found.number);
  if (error != std::errc() || found.number < 0 || found.number > 1000) return {};
  found.rest = name.substr(static_cast<std::size_t>(end - name.data()));
  return found;
}

// The part after `layers` in a name, split at its first dot: "blocks.3." and
// "attention.output.dense.weight" of "encoder.layer.3.attention.output.dense.weight" after
// "encoder.layer.". Nothing if the name begins otherwise.
struct InBlock {
  std::string block;
  std::string_view rest;
};
inline std::optional<InBlock> find_block(std::string_view name, std::string_view layers) {
  if (!name.starts_with(layers)) return {};
  name.remove_prefix(layers.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {};
  return InBlock{cat("blocks.", name.substr(0, dot + 1)), name.substr(dot + 1)};
}

}  // namespace dtn
