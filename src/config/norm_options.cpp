#include "config/keys.h"
#include "config/layers.h"

namespace dtn::config {
namespace {

const NormSchema& schema_of(const std::string& type, const Where& where,
                            std::span<const NormSchema> norms) {
  std::vector<std::string> known;
  for (const NormSchema& schema : norms) {
    if (schema.type == type) return schema;
    known.push_back(schema.type);
  }
  fail(where, "unknown normalizer '", shown(type), "'", did_you_mean(type, known, "."),
       " Normalizers: ", join(known));
}

// True if `text` matches the choice. A choice that ends in ":<k>" stands for all positive odd k.
bool matches(const std::string& choice, const std::string& text) {
  constexpr std::string_view kSuffix = "<k>";
  if (!choice.ends_with(kSuffix)) return choice == text;
  const std::string prefix = choice.substr(0, choice.size() - kSuffix.size());
  if (!text.starts_with(prefix)) return false;
  const std::string digits = text.substr(prefix.size());
  std::int64_t k = 0;
  // Rejects "banded:+3" and "banded:03", which would be other spellings of the same value.
  return parse_integer(digits, k) && k > 0 && k % 2 == 1 && k < 1'000'000 &&
         digits == std::to_string(k);
}

OptionValue read_option(const Field& field, const OptionSchema& option) {
  const Range range = between(option.min, option.max);
  switch (option.kind) {
    case OptionKind::kBool: {
      bool value = false;
      read_value(field, range, value);
      return value;
    }
    case OptionKind::kInt: {
      if (option.per_stage && field.node.is_list()) {
        std::vector<std::int64_t> each;
        read_value(field, range, each);
        return each;
      }
      std::int64_t value = 0;
      read_value(field, range, value);
      return value;
    }
    case OptionKind::kNumber: {
      double value = 0;
      read_value(field, range, value);
      return value;
    }
    case OptionKind::kChoice:
    case OptionKind::kChoiceOrNumber: break;
  }
  const Node& node = field.node;
  const bool takes_number = option.kind == OptionKind::kChoiceOrNumber;
  double number = 0;
  if (takes_number && node.is_scalar() && !node.quoted && parse_number(node.text, number)) {
    check_range(field, range, number, node.text);
    return number;
  }
  if (node.is_scalar()) {
    for (const std::string& choice : option.choices) {
      if (matches(choice, node.text)) return node.text;
    }
  }
  const bool has_odd =
      !option.choices.empty() && join(option.choices).find("<k>") != std::string::npos;
  fail(field, "must be ", option.choices.size() > 1 ? "one of " : "", join(option.choices),
       has_odd ? " with k odd and positive" : "",
       takes_number
           ? cat(" or a number in [", number_text(option.min), ", ", number_text(option.max), "]")
           : std::string(),
       ", not ", shown(node),
       node.is_scalar() && !takes_number ? did_you_mean(node.text, option.choices) : std::string());
}

OptionValue per_stage_default(const ModelConfig& model) {
  if (model.norm_pool.is_list()) return model.norm_pool.values();
  return model.norm_pool.at(0);
}

// Reads the options of the normalizer that `section` names.
void read_options(const Node& root, const char* section, std::span<const NormSchema> norms,
                  const ModelConfig& model, NormConfig& norm) {
  const Node* type = root.at(cat(section, ".type"));
  const NormSchema& schema = schema_of(norm.type, type ? type->where : root.where, norms);
  norm.options.clear();
  for (const OptionSchema& option : schema.options) {
    const std::string path = cat(section, ".", option.key);
    OptionValue value = option.per_stage ? per_stage_default(model) : option.default_value;
    if (const Node* node = root.value_at(path)) {
      value = read_option({*node, path, option.doc}, option);
    }
    norm.options.push_back({option.key, std::move(value)});
  }
}

}  // namespace

void read_norm_options(const Node& root, std::span<const NormSchema> norms, ModelConfig& model) {
  read_options(root, kNormSection, norms, model, model.norm);
  if (model.decoder_norm) {
    model.decoder_norm->eps = model.norm.eps;
    return read_options(root, kDecoderNormSection, norms, model, *model.decoder_norm);
  }
  const Node* section = root.value_at(kDecoderNormSection);
  if (section == nullptr || !section->is_map()) return;
  for (const Member& member : section->members) {
    if (member.value.is_null()) continue;
    fail(member.where, kDecoderNormSection, ".", member.key, " is set, but ", kDecoderNormSection,
         ".type is not; set it to the normalizer of the decoder");
  }
}

}  // namespace dtn::config
