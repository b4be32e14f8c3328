// Transformers that classify sequences of tokens, as in the Long-Range Arena (Tay et al., ICLR
// 2021): embedding, class token and fixed sinusoids, pre-norm blocks with a configurable
// normalizer, a last LayerNorm, and a head with one hidden layer on the class token.
//
// The class token has position 0; pads are at the end of a sequence.
// Parameters: embed.weight [V, C], cls_token [1, 1, C], blocks.N.{norm1, attn, norm2, mlp}.*,
// norm.*, head.{fc1, fc2}.{weight, bias}.
#include <algorithm>

#include "dtn/nn/block.h"
#include "dtn/nn/initializers.h"
#include "dtn/nn/positions.h"
#include "dtn/nn/sequence_attention.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/gather.h"
#include "dtn/ops/padding.h"
#include "dtn/ops/tokens.h"
#include "kernels/pointwise/padded_ids.h"
#include "models/block_chain.h"
#include "models/entries.h"
#include "models/image_models.h"

namespace dtn {
namespace {

constexpr double kBiasStd = 1e-6;  // of the initial biases of MLPs

TokenGrid line_of(const ModelConfig& c) { return {1, c.max_length + 1}; }

std::optional<ConfigProblem> shape_problem(const ModelConfig& c) {
  if (c.stages() != 1) {
    return ConfigProblem{{"model.depth"},
                         cat("a model of sequences has one stage, not ", c.stages())};
  }
  if (c.embed_dim % c.num_heads != 0) {
    return ConfigProblem{
        {"model.num_heads", "model.embed_dim"},
        cat("model.embed_dim ", c.embed_dim, " is not divisible by model.num_heads ", c.num_heads)};
  }
  if (c.mlp_dim() < 1) {
    return ConfigProblem{{"model.mlp_ratio"},
                         "model.mlp_ratio leaves no hidden channel in the MLP"};
  }
  if (c.max_length < 1) {
    return ConfigProblem{{"model.max_length"}, "model.max_length must be at least 1"};
  }
  return std::nullopt;
}

// Returns a problem for keys of another kind of attention than the preset's.
std::optional<ConfigProblem> attention_problem(const ModelConfig& c) {
  using Kind = SequenceAttentionKind;
  const SequenceAttentionConfig &a = c.attention, usual;
  const auto unread = [&](const char* key, bool set, bool reads) -> std::optional<ConfigProblem> {
    if (!set || reads) return std::nullopt;
    return ConfigProblem{
        {key},
        cat(key, " has no effect on the attention of the preset '", c.preset, "'; remove it")};
  };
  const bool blocks = a.kind == Kind::kBigBird, hashes = a.kind == Kind::kReformer;
  for (const auto& problem :
       {unread("model.attention.variant", a.variant != usual.variant, blocks || hashes),
        unread("model.attention.block_size", a.block_size != usual.block_size, blocks),
        unread("model.attention.random_blocks", a.random_blocks != usual.random_blocks, blocks),
        unread("model.attention.hashes", a.hashes != usual.hashes, hashes),
        unread("model.attention.buckets", a.buckets != usual.buckets, hashes),
        unread("model.attention_dropout", a.dropout != 0, !blocks && !hashes)}) {
    if (problem) return problem;
  }
  if (hashes && a.buckets % 2 != 0) {
    return ConfigProblem{{"model.attention.buckets"},
                         cat("model.attention.buckets ", a.buckets, " must be even")};
  }
  return std::nullopt;
}

std::optional<ConfigProblem> check_sequence(const ModelConfig& c, const NormSchema&) {
  if (auto problem = shape_problem(c)) return problem;
  if (auto problem = last_block_problem(c)) return problem;
  return attention_problem(c);
}

int normalized_blocks(const ModelConfig& c) { return c.norm.layers.value_or(c.depth); }

std::vector<NormSite> sequence_norm_sites(const ModelConfig& c) {
  if (normalized_blocks(c) == 0) return {};
  const TokenGrid line = line_of(c);
  return {{c.embed_dim, c.num_heads, line.height, line.width}};
}

SequenceAttentionOptions attention_options(const ModelConfig& c, int index) {
  return {.channels = c.embed_dim,
          .heads = c.num_heads,
          .how = c.attention,
          .dropout = c.dropout,
          .tokens = c.max_length + 1,
          .layer = index};
}

BlockOptions sequence_block_options(const ModelConfig& c, int index) {
  BlockOptions o;
  o.attention = {.channels = c.embed_dim, .heads = c.num_heads};
  o.make_attention = [&c, index](const Scope& scope) {
    return make_sequence_attention(scope, attention_options(c, index));
  };
  o.mlp = {.channels = c.embed_dim,
           .hidden = c.mlp_dim(),
           .dropout = c.dropout,
           .act = c.act,
           .init = xavier_uniform(c.embed_dim, c.mlp_dim()),
           .bias_init = normal_with(kBiasStd)};
  o.norm_shape = {c.embed_dim, c.num_heads, c.eps, line_of(c)};
  if (index < normalized_blocks(c)) {
    o.norm = c.norm.at_stage(0);
    o.norm_shape.eps = norm_eps_of(c);
  }
  o.drop_path = c.drop_path_of(index);
  return o;
}

std::vector<Block> make_sequence_blocks(const Scope& scope, const ModelConfig& c) {
  std::vector<Block> blocks;
  for (int i = 0; i < c.depth; ++i) {
    const Block& block = blocks.emplace_back(scope / i, sequence_block_options(c, i));
    for (const LayerInfo::Norm& norm : block.info().norms) {
      if (norm.norm->takes_lengths()) continue;
      throw ConfigError(cat("the normalizer '", c.norm.type,
                            "' with these options cannot exclude padding from its statistics, as "
                            "sequences of different lengths require"));
    }
  }
  return blocks;
}

const std::int64_t* int64s(const Tensor& t) { return static_cast<const std::int64_t*>(t.raw()); }

struct Words {
  Tensor ids;      // [B T] int64, 0 for pads
  Tensor lengths;  // [B] int64
  std::int64_t batch, tokens;
};

// With `trims`, tokens on the host are cut at the end of the longest sample, and tokens on a device
// keep their number: the sizes of a step are fixed there, and reading the lengths would block.
// Without `trims`, every sample is padded to `room` tokens.
Words words_of(const Fields& fields, std::int64_t room, bool trims) {
  const Tensor &all = fields.at("tokens"), &lengths = fields.at(lengths_of("tokens"));
  DTN_CHECK(all.rank() == 2 && all.dim(1) <= room && all.dtype() == DType::kInt64, "tokens ",
            to_string(all.shape()), " are not int64 [B, ", room, "]");
  const std::int64_t batch = all.dim(0), given = all.dim(1);
  std::int64_t tokens = room;
  if (all.device() == kCpu) {
    const std::vector<std::int64_t> counts = ops::host_lengths(lengths, batch, given);
    if (trims) tokens = *std::ranges::max_element(counts);
  } else if (trims) {
    tokens = given;
  }
  Tensor ids = Tensor::empty({batch * tokens}, DType::kInt64, all.device());
  run_on(all.device(), PadIds{batch, tokens, given, int64s(all), int64s(lengths),
                              static_cast<std::int64_t*>(ids.raw())});
  return {ids, lengths, batch, tokens};
}

// Returns the lengths with the class token.
Tensor one_more(const Tensor& lengths) {
  Tensor more = Tensor::empty_like(lengths);
  run_on(lengths.device(), LengthenSamples{lengths.numel(), 1, int64s(lengths),
                                           static_cast<std::int64_t*>(more.raw())});
  return more;
}

class SequenceTransformer final : public Backbone {
 public:
  SequenceTransformer(const Scope& scope, const ModelConfig& config)
      : config_(checked(config, check_sequence, scope)),
        embedding_((scope / "embed")
                       .weight("weight", {config.vocabulary, config.embed_dim}, normal_with(1))),
        class_token_(scope.weight("cls_token", {1, 1, config.embed_dim}, InitKind::kZeros)),
        dropout_(scope / "pos_drop", config.dropout),
        blocks_(make_sequence_blocks(scope / "blocks", config)),
        norm_(make_layer_norm({config.embed_dim, config.num_heads, config.eps}, scope / "norm")) {}

  // Reads "tokens" [B, max_length] int64, ids below the vocabulary, and the number of valid tokens,
  // "tokens.lengths" [B] int64. Tokens after them are not read.
  std::vector<FieldSpec> inputs() const override {
    return {{"tokens", {config_.max_length}, DType::kInt64, true}};
  }
  // One entry: the sequence with the class token first.
  Features forward(Context& ctx, const Fields& fields) override {
    Tokens tokens = run_blocks(ctx, fields);
    tokens.x = norm_->forward(ctx, tokens.x, tokens.arrangement());
    return {std::move(tokens)};
  }
  Variable pooled(Context& ctx, const Fields& fields) override {
    const Tokens tokens = run_blocks(ctx, fields);
    return norm_->forward(ctx, ops::first_token(ctx, tokens.x), {1, 1});
  }
  std::vector<StageShape> stages() const override { return {{config_.embed_dim, 1}}; }
  // Says if there are too few blocks of tokens for BigBird's pattern.
  std::string note() const override {
    if (config_.attention.kind != SequenceAttentionKind::kBigBird) return {};
    const ops::BlockPattern::Options pattern = block_pattern_of(attention_options(config_, 0));
    if (!ops::BlockPattern::is_dense(pattern)) return {};
    return cat("attention is dense, because ", pattern.tokens,
               " tokens are too few for BigBird with blocks of ", pattern.block);
  }
  std::vector<LayerInfo> layers() const override { return layers_of(blocks_); }
  // fc2(relu(fc1 x))
  std::vector<ClassHead> make_heads(const Scope& scope, int classes) const override {
    const std::int64_t channels = config_.embed_dim, hidden = config_.mlp_dim();
    const Scope head = scope / "head";
    const Linear fc1(head / "fc1", channels, hidden, {.init = lecun_normal(channels)});
    const Linear fc2(head / "fc2", hidden, classes, {.init = lecun_normal(hidden)});
    return {[fc1, fc2](Context& ctx, const Variable& x) {
      return fc2.forward(ctx, ops::relu(ctx, fc1.forward(ctx, x)));
    }};
  }

 private:
  Tokens run_blocks(Context& given, const Fields& fields) const {
    Context ctx = given;
    ctx.rng.per_sample = (std::int64_t{config_.max_length} + 1) *
                         std::max<std::int64_t>(config_.embed_dim, config_.mlp_dim());
    Tokens tokens = embed(ctx, fields);
    const bool joined = config_.class_token_at == 0;
    if (joined) join_class_token(ctx, tokens);
    tokens.x = dropout_.forward(ctx, tokens.x);
    BlockChain chain;
    if (!joined) chain.join_after = config_.class_token_at;
    chain.join = [&](Tokens& all) { join_class_token(ctx, all); };
    return dtn::run_blocks(ctx, blocks_, std::move(tokens), chain);
  }

  Tokens embed(Context& ctx, const Fields& fields) const {
    const bool trims = config_.attention.kind == SequenceAttentionKind::kDense;
    const Words words = words_of(fields, config_.max_length, trims);
    const Variable& table = embedding_->variable;
    Variable x = ops::take_rows(ctx, table, words.ids);
    x = primitive::reshape(ctx, x, {words.batch, words.tokens, config_.embed_dim});
    const Variable places(positions(table.dtype(), table.device()));
    x = ops::add_positions(ctx, x, primitive::narrow(ctx, places, 1, 1, words.tokens + 1));
    Tokens tokens{ops::cast(ctx, x, ctx.mode.compute), {1, words.tokens}, 0, words.lengths};
    return tokens;
  }

  void join_class_token(Context& ctx, Tokens& tokens) const {
    const Variable& token = class_token_->variable;
    const Variable places(positions(token.dtype(), token.device()));
    const Variable first = primitive::add(ctx, token, primitive::narrow(ctx, places, 1, 0, 1));
    tokens.x = ops::prepend_tokens(ctx, tokens.x, first);
    tokens.grid.width += 1;
    tokens.lengths = one_more(tokens.lengths);
  }

  // The table of positions [1, max_length + 1, C] in this type, on this device.
  const Tensor& positions(DType dtype, Device device) const {
    if (!positions_.defined() || positions_.dtype() != dtype || positions_.device() != device) {
      Tensor table = Tensor::empty({1, config_.max_length + 1, config_.embed_dim}, dtype);
      fill_sinusoids(table);
      positions_ = table.to(device);
    }
    return positions_;
  }

  ModelConfig config_;
  Parameter* embedding_;
  Parameter* class_token_;
  Dropout dropout_;
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;
  mutable Tensor positions_;  // cached by positions()
};

}  // namespace

ModelEntry sequence_entry() {
  return {{.family = "sequence",
           .doc = "transformers of token sequences: dense, BigBird's or Reformer's attention",
           .reads = {"num_heads", "mlp_ratio", "act", "class_token_at", "drop_path",
                     "drop_path_mode", "dropout", "attention_dropout", "max_length",
                     "attention.variant", "attention.block_size", "attention.random_blocks",
                     "attention.hashes", "attention.buckets", "norm.layers"},
           .check = check_sequence,
           .sequences = true,
           .norm_sites = sequence_norm_sites},
          make_backbone<SequenceTransformer>};
}

// Models for Long ListOps, with the sizes of the paper.
std::vector<PresetSchema> sequence_presets() {
  const auto listops = [](const char* name, SequenceAttentionKind kind) -> PresetSchema {
    return {
        {.preset = name,
         .family = "sequence",
         .num_classes = 10,
         .embed_dim = 512,
         .depth = 6,
         .num_heads = 8,
         .act = MlpActivation::kGeluTanh,
         .class_token_at = 0,
         .dropout = 0.1,
         .eps = 1e-6,
         .max_length = 2000,
         .vocabulary = 17,
         .attention = {.kind = kind, .dropout = kind == SequenceAttentionKind::kDense ? 0.1 : 0}}};
  };
  return {listops("listops_dense", SequenceAttentionKind::kDense),
          listops("listops_bigbird", SequenceAttentionKind::kBigBird),
          listops("listops_reformer", SequenceAttentionKind::kReformer)};
}

}  // namespace dtn
