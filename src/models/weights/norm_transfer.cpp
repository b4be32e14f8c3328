#include "models/weights/norm_transfer.h"

#include <algorithm>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// Returns the block norm that a tensor belongs to, such as blocks.0.norm1 for
// blocks.0.norm1.pos_proj.weight, or empty.
std::string norm_of(const std::string& name) {
  for (const char* part : {".norm1.", ".norm2."}) {
    const std::size_t at = name.find(part);
    if (at != std::string::npos) return name.substr(0, at + 6);
  }
  return "";
}

template <class Norms>
void add(const std::string& name, const Shape& shape, Norms& norms) {
  const std::string norm = norm_of(name);
  if (!norm.empty()) norms[norm][name.substr(norm.size() + 1)] = shape;
}

// Returns the block of a norm, such as "blocks.0." for blocks.0.norm1.
std::string block_of(const std::string& norm) { return norm.substr(0, norm.rfind('.') + 1); }

// Returns the names within their norms, each once.
std::string parts_of(const std::set<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    const std::string part = name.substr(norm_of(name).size() + 1);
    if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
  }
  std::string text;
  for (const std::string& part : parts) text += cat(text.empty() ? "" : ", ", part);
  return text;
}

// Returns true if a norm without weight and bias has no tensor in a file that has its block: it is
// then a LayerNorm there.
template <class Shapes>
bool is_bare(const std::string& norm, const Shapes& tensors, const NamedTensors& file) {
  if (tensors.contains("weight") || tensors.contains("bias")) return false;
  return std::ranges::any_of(
      file, [&](const auto& named) { return named.first.starts_with(block_of(norm)); });
}

}  // namespace

bool NormTransfer::is_layer_norm(const Shapes& tensors) {
  return tensors.size() == 2 && tensors.contains("weight") && tensors.contains("bias");
}

NormTransfer::NormTransfer(const NamedTensors& file, const ParameterStore& model) {
  std::map<std::string, Shapes> from, to;
  for (const auto& [name, tensor] : file) add(name, tensor.shape(), from);
  for (const Parameter& p : model.parameters()) add(p.name, p.shape, to);
  for (const Buffer& b : model.buffers()) add(b.name, b.shape, to);
  for (const Parameter& p : model.parameters()) {
    const std::string norm = norm_of(p.name);
    if (norm.empty() || (!norms_.empty() && norms_.back() == norm)) continue;
    const auto file_norm = from.find(norm);
    if (file_norm == from.end() && is_bare(norm, to[norm], file)) {
      norms_.push_back(norm);
      for (const auto& [name, shape] : to[norm]) left_.insert(cat(norm, ".", name));
      continue;
    }
    if (file_norm == from.end() || !is_layer_norm(file_norm->second) || is_layer_norm(to[norm])) {
      continue;
    }
    transfer(norm, file_norm->second, to[norm]);
  }
  add_bare_norms(from, to, model);
}

void NormTransfer::transfer(const std::string& norm, const Shapes& from, const Shapes& to) {
  norms_.push_back(norm);
  for (const auto& [name, shape] : to) {
    const auto same = from.find(name);
    // A scalar gain cannot take per-channel weights.
    if (same != from.end() && (same->second == shape || shape.numel() > 1)) continue;
    left_.insert(cat(norm, ".", name));
    if (same != from.end()) skipped_.insert(cat(norm, ".", name));
  }
  for (const auto& [name, shape] : from) {
    if (!to.contains(name)) skipped_.insert(cat(norm, ".", name));
  }
}

// A normalizer without weight and bias may have no parameter, so only its block shows that it
// exists.
void NormTransfer::add_bare_norms(const std::map<std::string, Shapes>& from,
                                  const std::map<std::string, Shapes>& to,
                                  const ParameterStore& model) {
  for (const auto& [norm, tensors] : from) {
    const auto found = to.find(norm);
    const Shapes in_model = found == to.end() ? Shapes() : found->second;
    const bool is_done = std::ranges::find(norms_, norm) != norms_.end();
    if (is_done || !is_layer_norm(tensors) || is_layer_norm(in_model)) continue;
    const std::string block = block_of(norm);
    const bool has_block = std::ranges::any_of(
        model.parameters(), [&](const Parameter& p) { return p.name.starts_with(block); });
    if (has_block) transfer(norm, tensors, in_model);
  }
}

std::string NormTransfer::note(const std::string& source) const {
  if (norms_.empty()) return "";
  std::string text =
      cat(counted(static_cast<std::int64_t>(norms_.size()), "norms"), ", ", norms_.front());
  if (norms_.size() > 1) text += cat(" to ", norms_.back());
  text += cat(": LayerNorm in ", source);
  if (!left_.empty()) text += cat("; ", parts_of(left_), " left at the initialisation");
  if (!skipped_.empty()) text += cat("; its ", parts_of(skipped_), " not used");
  return text;
}

}  // namespace dtn
