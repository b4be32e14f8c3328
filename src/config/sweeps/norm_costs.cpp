#include "config/sweeps/norm_costs.h"

#include <array>

#include "config/layers.h"
#include "config/sweeps/sweep_file.h"

namespace dtn::config {
namespace {

const std::array<std::string, 3> kTableKeys = {"base", "norms", "notes"};
const std::array<std::string, 4> kRowKeys = {"norm", "label", "parameters", "operations"};
constexpr int kNormRank = 1000;  // layer rank above every base file

std::string line_or(const Node& map, const char* key, const std::string& otherwise) {
  const Node* node = map.value_at(key);
  return node ? read_line(*node, key) : otherwise;
}

const Node& required(const Node& map, const char* key) {
  const Node* node = map.value_at(key);
  if (node == nullptr) fail(map.where, "costs: ", key, " is missing");
  return *node;
}

NormCosts::Row read_row(const Node& node, Node root, std::span<const std::string> overrides,
                        const ConfigSchemas& schemas) {
  check_keys(node, "a normalizer of costs", kRowKeys);
  const Node& norm = required(node, "norm");
  Node model = make_map(norm.where), layer = make_map(norm.where);
  model.members.push_back({"norm", norm.where, norm});
  layer.members.push_back({"model", norm.where, std::move(model)});
  check_layer(layer, schemas);
  apply_layer(root, std::move(layer), kNormRank, schemas);
  apply_overrides(root, overrides, schemas);
  NormCosts::Row row;
  row.model = resolve(root, schemas, Resample::kPillow13).model;
  if (row.model.embed_dim.is_list() || row.model.max_length > 0) {
    fail(node.where, "costs: base must be a vision transformer of one stage, not ",
         row.model.preset);
  }
  row.label = line_or(node, "label", row.model.norm.type);
  row.paper_parameters = line_or(node, "parameters", "");
  row.paper_operations = line_or(node, "operations", "");
  return row;
}

}  // namespace

NormCosts read_norm_costs(const Node& node, const std::filesystem::path& folder,
                          std::span<const std::string> overrides, const ConfigSchemas& schemas) {
  check_keys(node, "costs", kTableKeys);
  const Node& base = required(node, "base");
  const Node root = load_file_layers(
      find_named_file(read_line(base, "base"), "base", base.where, folder, schemas), schemas);
  const Node& norms = required(node, "norms");
  if (!norms.is_list() || norms.items.empty()) {
    fail(norms.where, "norms must be a list of normalizers, not ", shown(norms));
  }
  NormCosts costs;
  for (const Node& item : norms.items) {
    costs.rows.push_back(read_row(item, root, overrides, schemas));
  }
  if (const Node* notes = node.find("notes")) costs.notes = read_notes(*notes);
  return costs;
}

}  // namespace dtn::config
